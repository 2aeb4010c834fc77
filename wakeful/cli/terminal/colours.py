"""Colours, sparingly, and only where a person sees them: what another program reads stays plain."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

RESET = "\x1b[0m"
BOLD, DIM, RED, GREEN, YELLOW, CYAN = ("\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m")

MARKS = {"✓": GREEN, "✗": RED, "‖": YELLOW, "!": YELLOW, "→": CYAN, "+": CYAN, "⇒": CYAN, "←": CYAN}
"""The marks that lines begin with, where one is worth a colour."""

QUIET_MARKS = frozenset("·■◦↻")
"""Of lines that are dim as a whole."""


@dataclass(frozen=True)
class Colours:
    """How a text is painted, or that it is not."""

    on: bool

    def painted(self, text: str, *codes: str) -> str:
        return f"{''.join(codes)}{text}{RESET}" if self.on and text else text

    def dim(self, text: str) -> str:
        return self.painted(text, DIM)

    def bold(self, text: str) -> str:
        return self.painted(text, BOLD)

    def marked(self, line: str) -> str:
        """The line with its mark in the mark's colour."""
        bare = line.lstrip()
        indent = line[: len(line) - len(bare)]
        if bare[:1] in QUIET_MARKS:
            return indent + self.dim(bare)
        code = MARKS.get(bare[:1]) if bare[1:2] == " " else None
        return line if code is None else f"{indent}{self.painted(bare[0], code)}{bare[1:]}"

    def labelled(self, line: str) -> str:
        """A line of a status: its label is dim, and what waits for somebody is seen."""
        label, gap, rest = line.partition("  ")
        if line.startswith("waits for a decision: "):
            return self.painted(line, YELLOW)
        return f"{self.dim(label)}{gap}{rest}" if label.isalpha() and gap else line


PLAIN = Colours(on=False)


def colours_of(stream: TextIO) -> Colours:
    """As the stream and the environment want it."""
    return Colours(on=are_wanted(os.environ, terminal=stream.isatty()))


def are_wanted(environ: Mapping[str, str], *, terminal: bool) -> bool:
    """NO_COLOR comes first, then FORCE_COLOR, then whether there is a terminal that can show any."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return terminal and environ.get("TERM") != "dumb"
