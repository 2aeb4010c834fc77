"""A terminal that is written downwards: text as it comes, whole lines, and a few live lines at the bottom.

Text is written once and never drawn again, however long it gets; only the live lines are, in place. Without a terminal
there are no live lines, and nothing is ever taken back.
"""

import os
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from typing import TextIO

from wakeful.cli.terminal.colours import Colours, colours_of
from wakeful.cli.terminal.render import readable

WIDEST = 160
"""Columns of a line where nobody says how many there are."""

HIGHEST = 12
"""Live lines at most: more would push what is read out of a small window."""


class Scroll:
    """Where text, lines and live lines go."""

    def __init__(self, out: TextIO, *, in_place: bool, colours: Colours) -> None:
        self.in_place = in_place
        self.colours = colours
        self._out = out
        self._wrap = Wrap()
        self._live: tuple[str, ...] = ()
        self._drawn = 0
        self._is_open = False
        self._is_blank = True

    @classmethod
    def of(cls, out: TextIO) -> "Scroll":
        return cls(out, in_place=can_move(out), colours=colours_of(out))

    @property
    def columns(self) -> int:
        return shutil.get_terminal_size().columns if self.in_place else WIDEST

    def text(self, text: str, *codes: str) -> None:
        """More of a text, right behind what is there of it."""
        if not text:
            return
        self._erase()
        shown = readable(text)
        if self.in_place:
            shown = self._wrap.wrapped(shown, self.columns - 1, begins=not self._is_open)
        self._out.write(self.colours.painted(shown, *codes))
        begins_a_line = not self._is_open
        self._is_open = not text.endswith("\n")
        self._is_blank = text.endswith("\n\n") or (begins_a_line and not text.strip("\n"))
        self._out.flush()

    def line(self, line: str) -> None:
        """A line of its own, above the live ones."""
        self._erase()
        self._close()
        self._out.write(f"{line}\n")
        self._is_blank = not line
        self._draw()

    def gap(self) -> None:
        """An empty line, unless there is one."""
        if self._is_open or not self._is_blank:
            self.line("")

    def live(self, lines: Sequence[str]) -> None:
        """Draw these at the bottom in place of the live lines there are; each is as short as the window is wide."""
        shown = tuple(lines[-HIGHEST:]) if self.in_place else ()
        if shown != self._live or bool(shown) != bool(self._drawn):
            self._erase()
            self._live = shown
            self._draw()

    def rest(self) -> None:
        """Take the live lines away and begin a line: somebody else writes now."""
        self.live(())
        self._close()
        self._out.flush()

    def touched(self) -> None:
        """Somebody else has written whole lines."""
        self._is_open, self._is_blank = False, False

    def _close(self) -> None:
        if self._is_open:
            self._out.write("\n")
            self._is_open, self._is_blank = False, False

    def _erase(self) -> None:
        if self._drawn:
            self._out.write(f"\x1b[{self._drawn}F\x1b[J")
            self._drawn = 0

    def _draw(self) -> None:
        # Under a line that is still being written there is no place: they come back with the next whole line.
        if self._live and not self._is_open:
            self._out.write("".join(f"{line}\n" for line in self._live))
            self._drawn = len(self._live)
        self._out.flush()


class Wrap:
    """Lines end between words: one that turns out too long for its line is taken back and begins the next."""

    def __init__(self) -> None:
        self._column = 0
        self._word = ""

    def wrapped(self, text: str, columns: int, *, begins: bool) -> str:
        if begins:
            self._column, self._word = 0, ""
        return "".join(self._placed(char, columns) for char in text)

    def _placed(self, char: str, columns: int) -> str:
        if char == "\n":
            self._column, self._word = 0, ""
            return char
        wide = 8 - self._column % 8 if char == "\t" else width(char)
        if self._column + wide <= columns:
            self._column += wide
            self._word = "" if char.isspace() else self._word + char
            return char
        if char.isspace():
            self._column, self._word = 0, ""
            return "\n"
        word, taken = self._word, width(self._word)
        if taken == self._column:  # a word that fills the line is broken where the line ends
            word, taken = "", 0
        self._column, self._word = width(word) + wide, word + char
        return (f"\x1b[{taken}D\x1b[K" if taken else "") + f"\n{word}{char}"


def can_move(out: TextIO) -> bool:
    """Whether lines can be drawn again in place."""
    return out.isatty() and os.environ.get("TERM") != "dumb" and sys.platform != "win32"


def cut(text: str, columns: int) -> str:
    """As much of a line as fits into so many columns."""
    if width(text) <= columns:
        return text
    kept, left = [], columns - 1
    for char in text:
        left -= width(char)
        if left < 0:
            break
        kept.append(char)
    return "".join(kept) + "…"


def width(text: str) -> int:
    """The columns that a text takes; colours are not counted on, so a text is cut before it is painted."""
    return sum(
        0 if unicodedata.combining(char) or char == "\u200d" else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )
