"""Ask Temporal again until it answers: a watcher outlives servers and workers that are away for a while.

What can only be answered by no (there is no such thread, it may not be asked) is raised at once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from temporalio.service import RPCError, RPCStatusCode

from wakeful.asking import PASSING, translated
from wakeful.contract.errors import WakefulError

FIRST_WAIT_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 2.0

_PASSING = PASSING | {RPCStatusCode.FAILED_PRECONDITION}  # no worker was seen for minutes

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
                    refusal = translated(error, self._thread_id) if isinstance(error, RPCError) else error
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
