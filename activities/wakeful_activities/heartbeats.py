"""Signs of life. The runtime gives them, not the user's code, so that cancel and loss are noticed within seconds."""

import asyncio
import contextlib
import contextvars
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
        self._activity = contextvars.copy_context()  # whoever has news may be in a thread that knows of no activity
        self._last = self._loop.time()
        self._next = self._beat_at(self._last + INTERVAL_SECONDS)

    def beat(self) -> None:
        self._next.cancel()
        self._last = self._loop.time()
        self._next = self._beat_at(self._last + INTERVAL_SECONDS)
        said = self._details()
        if said is None:
            activity.heartbeat()
        else:
            activity.heartbeat(said)

    def news(self, *, within: float) -> None:
        """There is something new to say: beat this long after the last time, if no beat is due sooner."""
        due = self._last + within
        if not self._next.cancelled() and due < self._next.when():  # a tool may have ended while its news came here
            self._next.cancel()
            self._next = self._beat_at(due)

    def _beat_at(self, time: float) -> asyncio.TimerHandle:
        return self._loop.call_at(time, self.beat, context=self._activity)

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
