"""The one durable timer of a run, kept in step with the next alarm of its state; without one it costs nothing.

It fires on the server's clock, whether a worker runs or not. It is not carried over when the thread continues as new:
the alarm is an absolute time of the state, and the next execution sets its own timer by it.
"""

import asyncio
from collections.abc import Callable


class Alarm:
    """Calls `ring` once when the time has come."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._at: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    def keep(self, at: int | None, *, now: int) -> None:
        """Be set for `at`, in milliseconds since 1970, or for nothing."""
        if at == self._at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._at, self._timer = at, None
        if at is not None:
            # At least a millisecond: what is overdue already comes at once, and no timer runs backwards.
            self._timer = asyncio.get_running_loop().call_later(max(1, at - now) / 1000, self._fire)

    def _fire(self) -> None:
        self._at = self._timer = None
        self._ring()
