"""Retry calls to Temporal until they are answered, so that a watcher outlives outages of servers and workers.

Errors that no retry can fix (no such thread, permission denied) are raised at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar, cast

from temporalio.service import RPCError, RPCStatusCode

from wakeful.contract.errors import WakefulError
from wakeful.rpc_errors import RETRYABLE, error_of

FIRST_BACKOFF_SECONDS = 0.1
MAX_BACKOFF_SECONDS = 2.0

_RETRYABLE = RETRYABLE | {RPCStatusCode.FAILED_PRECONDITION}  # the server has seen no worker for minutes

OnTrouble = Callable[[WakefulError], None]
R = TypeVar("R")


class OutageReporter:
    """Calls `on_trouble` once per outage: when a first call fails, and not again until no call is being retried."""

    def __init__(self, on_trouble: OnTrouble | None = None) -> None:
        self._on_trouble = on_trouble
        self._retrying: set[object] = set()

    def call_failed(self, caller: object, error: WakefulError) -> None:
        is_new_outage = not self._retrying
        self._retrying.add(caller)
        if is_new_outage and self._on_trouble is not None:
            self._on_trouble(error)

    def call_ended(self, caller: object) -> None:
        self._retrying.discard(caller)


class Retrier:
    """Retries calls about one thread with backoff, for as long as the outage lasts."""

    def __init__(self, thread_id: str, outages: OutageReporter) -> None:
        self._thread_id = thread_id
        self._outages = outages

    async def call(self, call: Callable[[], Awaitable[R]]) -> R:
        """Make the call until it succeeds.

        Raises:
            ThreadNotFound: there is no such thread, or no such execution of it.
            WakefulError: Temporal or the thread rejects the call.
        """
        backoff = FIRST_BACKOFF_SECONDS
        try:
            while True:
                try:
                    return await call()
                except (RPCError, WakefulError) as error:
                    failure = error_of(error, self._thread_id) if isinstance(error, RPCError) else error
                    if not _is_retryable(error):
                        raise failure from error
                    self._outages.call_failed(self, failure)
                await asyncio.sleep(backoff)
                backoff = min(2 * backoff, MAX_BACKOFF_SECONDS)
        finally:
            self._outages.call_ended(self)


def _is_retryable(error: RPCError | WakefulError) -> bool:
    cause = error if isinstance(error, RPCError) else error.__cause__
    return isinstance(cause, RPCError) and cause.status in _RETRYABLE


class SharedCalls:
    """Makes a call once for all watchers in this process that need its result; a key identifies the call."""

    def __init__(self) -> None:
        self._in_flight: dict[Hashable, asyncio.Task[Any]] = {}
        self._next: dict[Hashable, asyncio.Task[Any]] = {}

    async def fresh(self, key: Hashable, call: Callable[[], Awaitable[R]]) -> R:
        """The result of a call that is made from now on: one that is in flight may miss what just happened."""
        if (task := self._next.get(key)) is None:
            task = _start(self._call_after(self._in_flight.get(key), key, call))
            (self._next if key in self._in_flight else self._in_flight)[key] = task
        return cast(R, await asyncio.shield(task))

    async def _call_after(
        self, previous: asyncio.Task[Any] | None, key: Hashable, call: Callable[[], Awaitable[R]]
    ) -> R:
        if previous is not None:
            await asyncio.wait({previous})
            self._in_flight[key] = self._next.pop(key)
        try:
            return await call()
        finally:
            del self._in_flight[key]


def _start(awaitable: Awaitable[R]) -> asyncio.Task[R]:
    task: asyncio.Task[R] = asyncio.ensure_future(awaitable)
    # Every watcher may have left by the time it fails: asyncio must not report the exception as never retrieved.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task
