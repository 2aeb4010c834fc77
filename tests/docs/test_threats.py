"""`docs/threats.md` says who can reach what; every line names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "threats.md").read_text()
HEAD = "| who | can reach | by default | setting | test |"
ROWS = [line for line in PAGE.splitlines() if line.startswith("|") and line != HEAD and not line.startswith("|---")]
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
WAYS = ("Client", "Signals", "Command line", "A2A", "MCP", "Mail", "Models", "Tool servers")


def defined_in(path: Path) -> set[str]:
    """The names of the tests in a file; none if there is no such file."""
    if not path.exists():
        return set()
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, functions)}


@pytest.mark.parametrize("row", ROWS)
def test_a_line_says_who_reaches_what_by_default_and_names_tests_that_exist(row: str) -> None:
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert len(cells) == 5, "write lines as `| who | can reach | by default | setting | test |`"
    who, what, default, _, tests = cells
    assert all((who, what, default))
    named = TEST.findall(tests)
    assert named, "name a test as `tests/FILE.py::test_name`"
    assert TEST.sub("", tests).strip() == "", "the last cell has nothing but tests"
    assert [f"{path}::{name}" for path, name in named if name not in defined_in(ROOT / path)] == []


@pytest.mark.parametrize("way", WAYS)
def test_every_way_in_has_a_table(way: str) -> None:
    headings = [part.partition("\n")[0].lower() for part in PAGE.split("\n## ")[1:] if HEAD in part]
    assert any(way.lower() in heading for heading in headings)
