"""Ask Temporal again until it answers: a watcher outlives servers and workers that are away for a while.

What can only be answered by no (there is no such thread, it may not be asked) is raised at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar, cast

from temporalio.service import RPCError, RPCStatusCode

from wakeful.contract.errors import WakefulError
from wakeful.rpc_errors import RETRYABLE, error_of

FIRST_WAIT_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 2.0

_PASSING = RETRYABLE | {RPCStatusCode.FAILED_PRECONDITION}  # no worker was seen for minutes

OnTrouble = Callable[[WakefulError], None]
R = TypeVar("R")


class Troubles:
    """What whoever watches is told: once when an answer fails to come, and not again before all is well."""

    def __init__(self, on_trouble: OnTrouble | None = None) -> None:
        self._on_trouble = on_trouble
        self._waiting: set[object] = set()

    def begin(self, who: object, error: WakefulError) -> None:
        is_news = not self._waiting
        self._waiting.add(who)
        if is_news and self._on_trouble is not None:
            self._on_trouble(error)

    def end(self, who: object) -> None:
        self._waiting.discard(who)


class Patience:
    """How one thread is asked: for as long as it takes."""

    def __init__(self, thread_id: str, troubles: Troubles) -> None:
        self._thread_id = thread_id
        self._troubles = troubles

    async def get(self, ask: Callable[[], Awaitable[R]]) -> R:
        """What is answered in the end.

        Raises:
            ThreadNotFound: there is no such thread, or no such execution of it.
            WakefulError: Temporal or the thread refuses to answer.
        """
        wait = FIRST_WAIT_SECONDS
        try:
            while True:
                try:
                    return await ask()
                except (RPCError, WakefulError) as error:
                    refusal = error_of(error, self._thread_id) if isinstance(error, RPCError) else error
                    if not _passes(error):
                        raise refusal from error
                    self._troubles.begin(self, refusal)
                await asyncio.sleep(wait)
                wait = min(2 * wait, LONGEST_WAIT_SECONDS)
        finally:
            self._troubles.end(self)


def _passes(error: RPCError | WakefulError) -> bool:
    cause = error if isinstance(error, RPCError) else error.__cause__
    return isinstance(cause, RPCError) and cause.status in _PASSING


class Shared:
    """Questions on their way, by what names them."""

    def __init__(self) -> None:
        self._asked: dict[Hashable, asyncio.Task[Any]] = {}
        self._next: dict[Hashable, asyncio.Task[Any]] = {}
        self._known: dict[Hashable, asyncio.Task[Any]] = {}

    async def newest(self, key: Hashable, ask: Callable[[], Awaitable[R]]) -> R:
        """An answer to a question that is asked from now on: one that is on its way may miss what just happened."""
        if (waiting := self._next.get(key)) is None:
            waiting = self._begin(self._ask(key, ask, self._asked.get(key)))
            (self._next if key in self._asked else self._asked)[key] = waiting
        return cast(R, await asyncio.shield(waiting))

    async def recent(self, key: Hashable, ask: Callable[[], Awaitable[R]], *, within: float) -> R:
        """An answer that is at most so many seconds old."""
        if (known := self._known.get(key)) is None:
            known = self._known[key] = self._begin(ask())
            asyncio.get_running_loop().call_later(within, self._known.pop, key, None)
        return cast(R, await asyncio.shield(known))

    async def _ask(self, key: Hashable, ask: Callable[[], Awaitable[R]], before: asyncio.Task[Any] | None) -> R:
        if before is not None:
            await asyncio.wait({before})
            self._asked[key] = self._next.pop(key)
        try:
            return await ask()
        finally:
            del self._asked[key]

    def _begin(self, asking: Awaitable[R]) -> asyncio.Task[R]:
        task: asyncio.Task[R] = asyncio.ensure_future(asking)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # everybody may have left by then
        return task
