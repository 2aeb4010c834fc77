"""mypy checks the Python code of the documentation, also that which does not run, and names the line of the page.

Only mistakes that a page shows on purpose are left out.

Each block is a module. Names that it does not define come from the blocks before it or, if it is a fragment, from
`GIVEN`: what a reader has at that place.
"""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.docs.snippets import Snippet, of_page, snippets
from tests.support.processes import ROOT

GIVEN = {
    "client": "wakeful.Client",
    "compiling": "Callable[[str], AsyncIterator[str]]",
    "result": "wakeful.RunResult",
    "thread_id": "str",
}
STUBS = Path(__file__).parent / "stubs"
WRONG = """# A page

<!-- fragment: you have a client -->
```python
result = await client.result(7)
result.stepps
```
"""


@pytest.mark.check
def test_the_types_of_all_code_are_right_and_a_mistake_is_found(tmp_path: Path) -> None:
    wrong = ROOT / "docs/wrong.md"  # it is not written: only its text is checked
    written = [each for each in (*snippets(), *of_page(wrong, WRONG)) if each.level != "mistake"]
    folder = tmp_path / "documented"
    folder.mkdir()
    for snippet in written:
        before = [each for each in written if each.page == snippet.page and each.number < snippet.number]
        (folder / f"{snippet.module}.py").write_text(module(snippet, before))
    found = mypy(folder, {snippet.module: str(snippet.page.relative_to(ROOT)) for snippet in written})
    assert found == [
        'docs/wrong.md:5: error: Argument 1 to "result" of "Client" has incompatible type "int"; expected "str"',
        'docs/wrong.md:6: error: "RunResult" has no attribute "stepps"; maybe "steps"?',
    ]


def module(snippet: Snippet, before: list[Snippet]) -> str:
    """The code as a module whose lines have the numbers that they have on the page."""
    header = ["import wakeful", "from collections.abc import AsyncIterator, Callable"]
    given = []
    for name in sorted(snippet.unbound):
        if defining := [each for each in before if name in each.bound and not each.awaits]:
            header.append(f"from documented.{defining[-1].module} import {name}")
        else:
            given.append(f"{name}: {GIVEN[name]}")
    lines = ["; ".join(header), *[""] * (snippet.line - 3)]
    if not (given or snippet.awaits):
        return "\n".join([*lines, "", snippet.code])
    return "\n".join(
        [*lines, f"async def fragment({', '.join(given)}) -> None:", textwrap.indent(snippet.code, "    ")]
    )


def mypy(folder: Path, pages: dict[str, str]) -> list[str]:
    """The errors, by page and line."""
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-codes", str(folder)],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": f"{folder.parent}:{STUBS}:{ROOT / 'examples'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stderr == ""
    errors = [line for line in ran.stdout.splitlines() if ": note: " not in line]
    return [re.sub(r"^\S*?(\w+)\.py:", lambda found: f"{pages[found[1]]}:", line) for line in errors]
