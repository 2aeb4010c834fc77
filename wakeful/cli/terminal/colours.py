"""Colours, few of them, and only on a terminal: output that a program reads is plain."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from wakeful.cli.terminal.guarded_stream import own

RESET = "\x1b[0m"
BOLD, DIM = "\x1b[1m", "\x1b[2m"
RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN = (f"\x1b[{code}m" for code in range(31, 37))

MARKS = {"✓": GREEN, "✗": RED, "‖": YELLOW, "!": YELLOW, "→": CYAN, "+": CYAN, "⇒": CYAN, "←": CYAN}
"""The colours of the marks that lines begin with."""

QUIET_MARKS = frozenset("·■◦↻")
"""The marks of lines that are dim as a whole."""


@dataclass(frozen=True)
class Colours:
    """Paints text, if colours are on."""

    on: bool

    def painted(self, text: str, *codes: str) -> str:
        return f"{own(''.join(codes))}{text}{own(RESET)}" if self.on and text else text

    def dim(self, text: str) -> str:
        return self.painted(text, DIM)

    def bold(self, text: str) -> str:
        return self.painted(text, BOLD)

    def marked(self, line: str) -> str:
        """The line with its mark painted."""
        bare = line.lstrip()
        indent = line[: len(line) - len(bare)]
        if bare[:1] in QUIET_MARKS:
            return indent + self.dim(bare)
        code = MARKS.get(bare[:1]) if bare[1:2] == " " else None
        return line if code is None else f"{indent}{self.painted(bare[0], code)}{bare[1:]}"

    def labelled(self, line: str) -> str:
        """A line of a status: its label is dim, and a pending decision stands out."""
        label, gap, rest = line.partition("  ")
        if line.startswith("waits for a decision: "):
            return self.painted(line, YELLOW)
        return f"{self.dim(label)}{gap}{rest}" if label.isalpha() and gap else line


PLAIN = Colours(on=False)


def colours_of(stream: TextIO) -> Colours:
    """Colours that suit the stream and the environment."""
    return Colours(on=colours_enabled(os.environ, terminal=stream.isatty()))


def colours_enabled(environ: Mapping[str, str], *, terminal: bool) -> bool:
    """NO_COLOR wins over FORCE_COLOR, which wins over whether the terminal can show colours."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return terminal and environ.get("TERM") != "dumb"
