"""Heartbeat while user code runs, so that a cancellation or a lost worker is noticed within seconds."""

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from temporalio import activity

INTERVAL_SECONDS = 1.0
"""Cancellation reaches an activity only through a heartbeat, so this is also how long a cancel may take."""


class Heartbeats:
    """Heartbeats with the current `details` until it is stopped."""

    def __init__(self, details: Callable[[], Sequence[Any]]) -> None:
        self._details = details
        self._loop = asyncio.get_running_loop()
        self._activity = contextvars.copy_context()  # a thread that reports news has no activity context of its own
        self._last = self._loop.time()
        self._next = self._beat_at(self._last + INTERVAL_SECONDS)

    def beat(self) -> None:
        self._next.cancel()
        self._last = self._loop.time()
        self._next = self._beat_at(self._last + INTERVAL_SECONDS)
        activity.heartbeat(*self._details())

    def news(self, *, within: float) -> None:
        """The details have changed: beat this long after the last heartbeat, unless one is due sooner."""
        due = self._last + within
        if (
            not self._next.cancelled() and due < self._next.when()
        ):  # the activity may have ended before the news arrived
            self._next.cancel()
            self._next = self._beat_at(due)

    def _beat_at(self, time: float) -> asyncio.TimerHandle:
        return self._loop.call_at(time, self.beat, context=self._activity)

    def stop(self) -> None:
        self._next.cancel()


@contextlib.contextmanager
def heartbeating(details: Callable[[], Sequence[Any]] = tuple) -> Iterator[Heartbeats]:
    """Heartbeat while the body runs. A body shorter than one interval sends no heartbeat."""
    heartbeats = Heartbeats(details)
    try:
        yield heartbeats
    finally:
        heartbeats.stop()
