"""An asyncio event loop in virtual time: no sockets, no threads, no sleeping."""

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Callable
from typing import Any


class _NoSockets:
    def select(self, _timeout: float | None) -> list[Any]:
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs what is ready; timers are due by the simulated clock."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _run_once: Callable[[], None]

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__()
        self._selector = _NoSockets()
        self._clock_resolution = 1e-6
        self._milliseconds = clock
        self._first = clock()

    def time(self) -> float:
        return (self._milliseconds() - self._first) / 1000

    @property
    def next_timer(self) -> int | None:
        """When the next timer is due, in milliseconds; None if there is none."""
        pending = [handle for handle in self._scheduled if not handle.cancelled()]
        return self._first + int(min(handle.when() for handle in pending) * 1000) + 1 if pending else None

    def run_until_idle(self) -> None:
        """Run everything that is ready, until all of it waits for something."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            while self._ready or self._is_timer_due():
                self._run_once()
        finally:
            events._set_running_loop(before)

    def _is_timer_due(self) -> bool:
        return any(handle.when() <= self.time() and not handle.cancelled() for handle in self._scheduled)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Threads would make the order of events depend on the machine."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def _process_events(self, _event_list: list[Any]) -> None:
        """There are no sockets."""

    def _write_to_self(self) -> None:
        """There is no other thread to wake the loop from."""
