"""`docs/reference-tests.md` lists tests of the awaken runtime: each is named by a test of ours, or has a reason."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference-tests.md").read_text()

ROW = re.compile(r"^\|(?! awaken \||-).*$", re.MULTILINE)
LINE = re.compile(r"^\| `(?P<name>\w+)` \| [^|]+ \| (?:`(?P<ours>[^`]+)`|none: .+) \|$")
OURS = re.compile(r"(?P<path>tests/[\w/]+\.py)::(?P<function>test_\w+)(?:\[(?P<id>\w+)\])?")
CARRIED = re.compile(r"awaken: (\w+(?:, \w+)*)")


def functions(path: Path) -> Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    nodes = ast.parse(path.read_text()).body
    return {node.name: node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def names_of(function: ast.FunctionDef | ast.AsyncFunctionDef, id: str | None) -> Iterator[str]:
    """The names of awaken's tests that a test of ours carries; with `id`, that of one of its parameters."""
    if id is not None:
        calls = (node for each in function.decorator_list for node in ast.walk(each) if isinstance(node, ast.Call))
        keywords = (keyword.value for call in calls for keyword in call.keywords if keyword.arg == "id")
        yield from (value.value for value in keywords if isinstance(value, ast.Constant) and value.value == id)
        return
    yield function.name.removeprefix("test_")
    for carried in CARRIED.findall(ast.get_docstring(function) or ""):
        yield from carried.split(", ")


def listed() -> dict[str, str | None]:
    """Every name of the page, with the test of ours."""
    found = [LINE.fullmatch(row) for row in ROW.findall(PAGE)]
    return {line["name"]: line["ours"] for line in found if line is not None}


LISTED = listed()


def test_every_row_has_a_name_what_it_asserts_and_a_test_or_a_reason() -> None:
    rows = ROW.findall(PAGE)
    assert [row for row in rows if not LINE.fullmatch(row)] == [], (
        "write `| name | asserts | path::test |` or `none: …`"
    )
    assert len(LISTED) == len(rows), "no name is listed twice"


@pytest.mark.parametrize("name", LISTED)
def test_the_test_that_a_row_names_exists_and_carries_the_name(name: str) -> None:
    if (ours := LISTED[name]) is None:
        return
    named = OURS.fullmatch(ours)
    assert named is not None, f"write {ours!r} as path::test or path::test[id]"
    path = ROOT / named["path"]
    assert path.exists(), f"there is no {named['path']}"
    function = functions(path).get(named["function"])
    assert function is not None, f"{named['path']} has no {named['function']}"
    assert name in names_of(function, named["id"]), f"{ours} does not carry the name {name}"


def test_every_name_that_a_docstring_carries_is_listed() -> None:
    carried = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for function in functions(path).values()
        for name in names_of(function, None)
        if name != function.name.removeprefix("test_")
    }
    assert carried - LISTED.keys() == set(), "add a row to docs/reference-tests.md"
