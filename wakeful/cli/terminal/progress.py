"""How far a command is that takes long."""

import sys
from time import monotonic

PROGRESS_SECONDS = 2.0


class Progress:
    """Prints a number, at most every two seconds."""

    def __init__(self, words: str) -> None:
        self._words = words
        self._printed = monotonic()

    def __call__(self, number: int) -> None:
        if monotonic() - self._printed > PROGRESS_SECONDS:
            self._printed = monotonic()
            print(f"{number} {self._words} …", file=sys.stderr, flush=True)
