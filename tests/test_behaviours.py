"""`docs/behaviours.md` lists every guarantee by id, and tests cite the ids: neither is without the other."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MANIFEST = ROOT / "docs" / "behaviours.md"

LINE = re.compile(r"^\| (?P<id>[A-Z]-\d+) \| (?P<promise>[^|]+) \| (?P<status>[^|]+) \|$", re.MULTILINE)
ROW = re.compile(r"^\|(?! id \||-).*$", re.MULTILINE)
STATUS = re.compile(r"holds|differs: .+|not yet(: .+)?")
RANGE = re.compile(r"\b([BHI])-(\d+) to (?:\1-)?(\d+)\b")
WRITTEN = re.compile(r"\b([BHI])-(\d+)((?:(?:, | and |/)\d{2,3}\b)*)")
NAMED = re.compile(r"(?:\b|_)([bhi])(\d{2,3})(?=_|\b)")
FUNCTION = re.compile(r"\bdef (test_\w+)")


def listed(page: str) -> list[tuple[str, str]]:
    """Every id of the page with its status."""
    return [(line["id"], line["status"]) for line in LINE.finditer(page)]


def cited(code: str) -> Iterator[str]:
    """Every id that the code of a test cites."""
    for letter, first, last in RANGE.findall(code):
        yield from (f"{letter}-{number:0{len(first)}}" for number in range(int(first), int(last) + 1))
    for letter, first, others in WRITTEN.findall(code):
        yield f"{letter}-{first}"
        yield from (f"{letter}-{number}" for number in re.findall(r"\d+", others))
    for name in FUNCTION.findall(code):
        yield from (f"{letter.upper()}-{number}" for letter, number in NAMED.findall(name))


def citations() -> Mapping[str, list[str]]:
    """The files that cite each id."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path != Path(__file__):
            for id in sorted(set(cited(path.read_text()))):
                found.setdefault(id, []).append(str(path.relative_to(ROOT)))
    return found


PAGE = MANIFEST.read_text()
LISTED = listed(PAGE)
CITED = citations()


def test_every_row_is_an_id_a_promise_and_a_status() -> None:
    rows = ROW.findall(PAGE)
    assert [row for row in rows if not LINE.fullmatch(row)] == [], "write rows as `| B-031 | promise | status |`"
    wrong = [f"{id}: {status}" for id, status in LISTED if not STATUS.fullmatch(status)]
    assert wrong == [], "a status is `holds`, `differs: <reason>`, or `not yet`, perhaps with what is missing"


def test_no_id_is_listed_twice() -> None:
    counted = Counter(id for id, _ in LISTED)
    assert [id for id, count in counted.items() if count > 1] == [], "merge these lines of docs/behaviours.md"


def test_every_id_that_a_test_cites_is_listed() -> None:
    known = {id for id, _ in LISTED}
    unknown = {id: files for id, files in CITED.items() if id not in known}
    assert unknown == {}, "add a line for each id to docs/behaviours.md, or correct the citation"


def test_every_line_that_holds_is_cited_by_a_test() -> None:
    uncited = [id for id, status in LISTED if status == "holds" and id not in CITED]
    assert uncited == [], (
        "cite each id in the docstring of the test that asserts it, write that test, or change the status of the line"
    )


@pytest.mark.parametrize(
    ("code", "ids"),
    [
        ('"""B-031"""', ["B-031"]),
        ('"""B-031, H-02: a promise."""', ["B-031", "H-02"]),
        ('"""B-080 to B-083"""', ["B-080", "B-081", "B-082", "B-083"]),
        ("# I-02 to 04", ["I-02", "I-03", "I-04"]),
        ("# B-301, 303 and 304", ["B-301", "B-303", "B-304"]),
        ("def test_a_run_ends_b016() -> None: ...", ["B-016"]),
        ("def test_b080_and_h17_of_a_run() -> None: ...", ["B-080", "H-17"]),
        ("def b031(): ...", []),
        ('"""B-flat, UTF-8, I-beam"""', []),
        ("def test_base64_and_ab12() -> None: ...", []),
    ],
)
def test_citations_are_found_in_every_notation(code: str, ids: list[str]) -> None:
    assert sorted(set(cited(code))) == ids
