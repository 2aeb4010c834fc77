"""Signs of life. The runtime gives them, not the user's code, so that cancel and loss are noticed within seconds."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from temporalio import activity

INTERVAL_SECONDS = 1.0
"""Cancellation reaches an activity only with a heartbeat, so this is also how long a cancel may take."""


class Heartbeats:
    """Heartbeats until it is stopped, with what `details` says at the time."""

    def __init__(self, details: Callable[[], Any]) -> None:
        self._details = details
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._next = self._loop.call_later(INTERVAL_SECONDS, self.beat)

    def beat(self) -> None:
        self._next.cancel()
        self._last = self._loop.time()
        self._next = self._loop.call_later(INTERVAL_SECONDS, self.beat)
        said = self._details()
        if said is None:
            activity.heartbeat()
        else:
            activity.heartbeat(said)

    def news(self, *, within: float) -> None:
        """There is something new to say: beat this long after the last time, if no beat is due sooner."""
        due = self._last + within
        if due < self._next.when():
            self._next.cancel()
            self._next = self._loop.call_at(due, self.beat)

    def stop(self) -> None:
        self._next.cancel()


@contextlib.contextmanager
def heartbeating(details: Callable[[], Any] = lambda: None) -> Iterator[Heartbeats]:
    """Heartbeat while the body runs. A body of less than one interval gives none: nothing is added to a short call."""
    heartbeats = Heartbeats(details)
    try:
        yield heartbeats
    finally:
        heartbeats.stop()
