"""The one durable timer of a thread, set to the next alarm of its state; without an alarm there is none.

Temporal fires it on the server's clock, whether a worker is running or not. Continue-as-new does not carry it over: the
alarm is an absolute time in the state, and the next execution sets its own timer.
"""

import asyncio
from collections.abc import Callable

from wakeful_workflows.history_estimate import TIMER, HistoryEstimate


class Alarm:
    """Calls `fire` once when the time has come, with the time that it was set to."""

    def __init__(self, fire: Callable[[int], None], history: HistoryEstimate) -> None:
        self._fire = fire
        self._history = history
        self._at: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, at: int | None, *, now: int) -> None:
        """Set the alarm to `at`, in milliseconds since 1970, or cancel it."""
        if at == self._at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._at, self._timer = at, None
        if at is not None:
            # At least a millisecond: an overdue alarm fires at once, and Temporal has no timers in the past.
            self._timer = asyncio.get_running_loop().call_later(max(1, at - now) / 1000, self._on_timer, at)
            self._history.add(TIMER)

    def _on_timer(self, at: int) -> None:
        self._at = self._timer = None
        self._fire(at)
