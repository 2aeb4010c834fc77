"""A terminal that is written downwards: text as it arrives, whole lines, and a few live lines at the bottom.

Text is written once and never redrawn, however long it gets; only the live lines are redrawn, in place. Without a
terminal there are no live lines, and nothing is erased. It knows no events.
"""

import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from typing import TextIO

from wakeful.cli.terminal.colours import Colours, colours_of
from wakeful.cli.terminal.guarded_stream import own, readable

DEFAULT_COLUMNS = 160
"""Of a line, where there is no terminal."""

MOST_LIVE_LINES = 12
"""More would push what a person reads out of a small window."""


class Screen:
    """Writes text, lines and live lines."""

    def __init__(self, out: TextIO, *, in_place: bool, colours: Colours) -> None:
        """With `in_place`, live lines are redrawn and text is wrapped."""
        self.in_place = in_place
        self.colours = colours
        self._out = out
        self._wrap = WordWrap()
        self._live: tuple[str, ...] = ()
        self._drawn = 0
        self._is_mid_line = False
        self._is_after_blank = True

    @classmethod
    def of(cls, out: TextIO) -> "Screen":
        return cls(out, in_place=can_redraw(out), colours=colours_of(out))

    @property
    def columns(self) -> int:
        return shutil.get_terminal_size().columns if self.in_place else DEFAULT_COLUMNS

    def text(self, text: str, *codes: str) -> None:
        """Append to the text that is being written."""
        if not text:
            return
        self._erase()
        shown = readable(text)
        if self.in_place:
            shown = self._wrap.wrapped(shown, self.columns - 1, starts_line=not self._is_mid_line)
        self._out.write(self.colours.painted(shown, *codes))
        starts_line = not self._is_mid_line
        self._is_mid_line = not text.endswith("\n")
        self._is_after_blank = text.endswith("\n\n") or (starts_line and not text.strip("\n"))
        self._out.flush()

    def line(self, line: str) -> None:
        """Write a whole line, above the live ones."""
        self._erase()
        self._end_line()
        self._out.write(f"{line}\n")
        self._is_after_blank = not line
        self._draw()

    def gap(self) -> None:
        """Write an empty line, unless the last line is empty."""
        if self._is_mid_line or not self._is_after_blank:
            self.line("")

    def live(self, lines: Sequence[str]) -> None:
        """Replace the live lines. Each must fit the window."""
        shown = tuple(lines[-MOST_LIVE_LINES:]) if self.in_place else ()
        if shown != self._live or bool(shown) != bool(self._drawn):
            self._erase()
            self._live = shown
            self._draw()

    def release(self) -> None:
        """Erase the live lines and start a line, so that other code can write."""
        self.live(())
        self._end_line()
        self._out.flush()

    def reacquire(self) -> None:
        """Other code has written whole lines."""
        self._is_mid_line, self._is_after_blank = False, False

    def _end_line(self) -> None:
        if self._is_mid_line:
            self._out.write("\n")
            self._is_mid_line, self._is_after_blank = False, False

    def _erase(self) -> None:
        if self._drawn:
            self._out.write(own(f"\x1b[{self._drawn}F\x1b[J"))
            self._drawn = 0

    def _draw(self) -> None:
        # Not below a line that is still being written: they come back with the next whole line.
        if self._live and not self._is_mid_line:
            self._out.write("".join(f"{line}\n" for line in self._live))
            self._drawn = len(self._live)
        self._out.flush()


class WordWrap:
    """Wraps text that arrives in pieces: a word that turns out too long for its line is erased and starts the next."""

    def __init__(self) -> None:
        self._column = 0
        self._word = ""

    def wrapped(self, text: str, columns: int, *, starts_line: bool) -> str:
        if starts_line:
            self._column, self._word = 0, ""
        return "".join(self._placed(char, columns) for char in text)

    def _placed(self, char: str, columns: int) -> str:
        if char == "\n":
            self._column, self._word = 0, ""
            return char
        wide = 8 - self._column % 8 if char == "\t" else display_width(char)
        if self._column + wide <= columns:
            self._column += wide
            self._word = "" if char.isspace() else self._word + char
            return char
        if char.isspace():
            self._column, self._word = 0, ""
            return "\n"
        word, erased = self._word, display_width(self._word)
        if erased == self._column:  # a word that fills the line is broken at the line's end
            word, erased = "", 0
        self._column, self._word = display_width(word) + wide, word + char
        return (own(f"\x1b[{erased}D\x1b[K") if erased else "") + f"\n{word}{char}"


def can_redraw(out: TextIO) -> bool:
    """Whether lines can be redrawn in place."""
    return out.isatty() and os.environ.get("TERM") != "dumb" and sys.platform != "win32"


def truncated(text: str, columns: int) -> str:
    """The text, cut to so many columns."""
    if display_width(text) <= columns:
        return text
    fitting, left = [], columns - 1
    for char in text:
        left -= display_width(char)
        if left < 0:
            break
        fitting.append(char)
    return "".join(fitting) + "…"


def display_width(text: str) -> int:
    """The columns that a text takes. It must not hold colour codes: cut a text before you paint it."""
    return sum(
        0 if unicodedata.combining(char) or char == "\u200d" else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


class Canvas:
    """Draws lines over the ones that it drew before."""

    def __init__(self) -> None:
        self._height = 0

    def draw(self, lines: Sequence[str]) -> None:
        size = shutil.get_terminal_size()
        shown = fit_window(lines, columns=size.columns, rows=size.lines - 1)
        back = f"\x1b[{self._height}F" if self._height else ""
        print(own(f"{back}\x1b[J") + "\n".join(shown), flush=True)
        self._height = sum(height(line, size.columns) for line in shown)


def fit_window(lines: Sequence[str], *, columns: int, rows: int) -> list[str]:
    """As many lines as fit, and the last one: the cursor cannot move above the window's top to redraw more."""
    if sum(height(line, columns) for line in lines) <= rows:
        return list(lines)
    *body, last = lines
    left = rows - height(last, columns) - 1
    shown: list[str] = []
    for line in body:
        left -= height(line, columns)
        if left < 0:
            break
        shown.append(line)
    return [*shown, f"… {len(body) - len(shown)} more lines: the window is too small", last]


def height(line: str, columns: int) -> int:
    """The rows that a line takes."""
    return max(1, -(-len(re.sub(r"\x1b\[[0-9;]*m", "", line)) // max(1, columns)))
