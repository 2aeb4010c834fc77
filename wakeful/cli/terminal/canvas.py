"""A part of the terminal that is redrawn in place."""

import re
import shutil
from collections.abc import Sequence


class Canvas:
    """Draws lines over the ones that it drew before."""

    def __init__(self) -> None:
        self._height = 0

    def draw(self, lines: Sequence[str]) -> None:
        size = shutil.get_terminal_size()
        shown = fit_window(lines, columns=size.columns, rows=size.lines - 1)
        back = f"\x1b[{self._height}F" if self._height else ""
        print(back + "\x1b[J" + "\n".join(shown), flush=True)
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
