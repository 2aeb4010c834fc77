"""Heartbeat while user code runs, so that a cancellation or a lost worker is noticed within seconds."""

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from temporalio import activity

INTERVAL_SECONDS = 1.0
"""Cancellation reaches an activity only through a heartbeat, so this is also how long a cancel may take."""

LIVE_INTERVAL_SECONDS = 0.2
"""How far a watcher may lag behind a model or a tool, if the run is watched."""


@dataclass(frozen=True)
class HeartbeatIntervals:
    """Seconds between two heartbeats of an activity: of any, and of one with news in a run that is watched."""

    usual: float = INTERVAL_SECONDS
    live: float = LIVE_INTERVAL_SECONDS


class Heartbeats:
    """Heartbeats with the current `details` until it is stopped.

    Args:
        live_interval: how soon a heartbeat with news may follow the last one; None if no one watches.
        shortest: how soon one may follow that a later attempt needs.
    """

    def __init__(
        self,
        details: Callable[[], Sequence[Any]],
        interval: float,
        live_interval: float | None = None,
        *,
        shortest: float = LIVE_INTERVAL_SECONDS,
    ) -> None:
        self._shortest = min(shortest, interval)
        self._details = details
        self._interval = interval
        self._live_interval = live_interval
        self._delay = 0.0
        self._loop = asyncio.get_running_loop()
        self._activity = contextvars.copy_context()  # a thread that reports news has no activity context of its own
        self._last = self._loop.time()
        self._is_first, self._is_needed = True, False
        self._next = self._beat_at(self._last + interval)

    def beat(self) -> None:
        """Heartbeat the details, and how soon another heartbeat may follow: watchers need not poll before."""
        self._next.cancel()
        self._last = self._loop.time()
        self._is_first, self._is_needed = False, False
        self._next = self._beat_at(self._last + self._interval)
        activity.heartbeat(*(self._details() or (None,)), float(self._news_within))

    @property
    def _news_within(self) -> float:
        within = self._interval if self._live_interval is None else self._live_interval + self._delay
        return min(self._interval, within)

    def news(self, *, delay: float = 0.0) -> None:
        """The details have changed: if they are watched, beat soon after the last heartbeat, and `delay` later."""
        self._delay = delay
        self._beat_by(self._last + self._news_within)

    def needed(self) -> None:
        """The details have changed, and a later attempt needs them: beat at once, but not more often than the server
        is sent heartbeats."""
        self._is_needed = True
        self._beat_by(self._last + (0.0 if self._is_first else self._shortest))

    def _beat_by(self, due: float) -> None:
        if not self._next.cancelled() and due < self._next.when():  # else the activity has ended meanwhile
            self._next.cancel()
            self._next = self._beat_at(due)

    def flush(self) -> None:
        """Beat now, if a later attempt needs details that were not sent yet."""
        if self._is_needed:
            self.beat()

    def _beat_at(self, time: float) -> asyncio.TimerHandle:
        return self._loop.call_at(time, self.beat, context=self._activity)

    def stop(self) -> None:
        self._next.cancel()


@contextlib.contextmanager
def heartbeating(
    details: Callable[[], Sequence[Any]] = tuple, intervals: HeartbeatIntervals | None = None, *, live: bool = False
) -> Iterator[Heartbeats]:
    """Heartbeat while the body runs. A body shorter than one interval sends no heartbeat."""
    intervals = intervals or HeartbeatIntervals(INTERVAL_SECONDS)
    timeout = activity.info().heartbeat_timeout
    interval = min(intervals.usual, timeout.total_seconds() / 2) if timeout else intervals.usual
    heartbeats = Heartbeats(details, interval, intervals.live if live else None, shortest=intervals.live)
    try:
        yield heartbeats
    except BaseException:  # the attempt fails, and another may follow
        heartbeats.flush()
        raise
    finally:
        heartbeats.stop()
