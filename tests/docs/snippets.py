"""The Python code of the documentation, block by block, and how much of it a test runs.

A block runs as it stands, unless a comment above it says why it does not:

    <!-- tested: tests/mcp/test_docs.py -->     that test runs it, with what it needs
    <!-- fragment: what the reader has -->      it uses names that no block of the page defines; types are checked
    <!-- mistake: tests/client/test_x.py -->    that test runs it, and it raises; its types may be wrong, too
    <!-- not run: why -->                       types are checked
"""

import builtins
import re
import symtable
import textwrap
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import ROOT

BLOCK = re.compile(
    r"^(?:<!-- (?P<level>tested|mistake|fragment|not run): (?P<reason>[^\n]+) -->\n)?"
    r"```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Snippet:
    page: Path
    number: int
    line: int
    """Where its code starts on the page."""
    code: str
    level: str | None
    """What the comment above it says; None means that it runs."""
    reason: str
    printed: str
    """What the page shows as its output."""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def module(self) -> str:
        """The name of a module for it: unique, and sorted as the page is."""
        return re.sub(r"\W", "_", f"{self.page.relative_to(ROOT).with_suffix('')}_{self.number}")

    @property
    def is_program(self) -> bool:
        return re.search(r"^async def main\(", self.code, re.MULTILINE) is not None

    @property
    def program(self) -> str:
        """The code, with the line that starts it if the page leaves it out."""
        started = "asyncio.run(main())" in self.code
        return self.code if started else f"{self.code}\n\nimport asyncio\n\nasyncio.run(main())\n"

    @property
    def awaits(self) -> bool:
        """Whether it awaits outside a function."""
        try:
            compile(self.code, str(self), "exec")
        except SyntaxError:
            return True
        return False

    @property
    def bound(self) -> frozenset[str]:
        """The names that it defines."""
        return frozenset(symbol.get_name() for symbol in self._scope.get_symbols() if symbol.is_local())

    @property
    def unbound(self) -> frozenset[str]:
        """The names that it uses and does not define, less the built-in ones."""
        return frozenset(_unbound(self._scope)) - {*vars(builtins), "__file__"}

    @property
    def _scope(self) -> symtable.SymbolTable:
        """Its names. It is read as the body of a coroutine, because fragments await."""
        wrapped = f"async def _():\n{textwrap.indent(self.code, '    ')}"
        return symtable.symtable(wrapped, str(self), "exec").get_children()[0]


def _unbound(scope: symtable.SymbolTable) -> set[str]:
    own = {symbol.get_name() for symbol in scope.get_symbols() if symbol.is_global() and symbol.is_referenced()}
    return own.union(*(_unbound(child) for child in scope.get_children()))


def snippets() -> list[Snippet]:
    """Every Python block of the README and of the pages in docs/."""
    return [
        snippet for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) for snippet in of_page(page)
    ]


def of_page(page: Path, text: str | None = None) -> list[Snippet]:
    """The blocks of a page, or of this text instead of that of its file."""
    text = page.read_text() if text is None else text
    return [
        Snippet(
            page=page,
            number=number,
            line=text.count("\n", 0, found.start("code")) + 1,
            code=found["code"],
            level=found["level"],
            reason=found["reason"] or "",
            printed=found["printed"] or "",
        )
        for number, found in enumerate(BLOCK.finditer(text), start=1)
    ]
