"""When words were seen: what a watcher notes of a text that grows, and how long after each token was sent that was."""

import time
from collections.abc import Sequence

from pydantic import BaseModel

from benchmarks.workload import TOKEN


class Sights(BaseModel):
    """One watcher's: how long the text was each time that it had grown. The clock is one for all processes."""

    text: str = ""
    grown: list[tuple[int, float]] = []

    def read(self, text: str) -> None:
        """This is the text so far."""
        self.text = text
        if len(text) > (self.grown[-1][0] if self.grown else 0):
            self.grown.append((len(text), time.monotonic()))

    def lags(self, sent_at: Sequence[float]) -> list[float]:
        """Milliseconds from when each token was sent to when it was first seen."""
        lags: list[float] = []
        sights = iter(self.grown)
        length, at = 0, 0.0
        for number, sent in enumerate(sent_at, start=1):
            while length < number * TOKEN:
                length, at = next(sights)
            lags.append((at - sent) * 1000)
        return lags
