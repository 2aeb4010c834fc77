"""Ask once for everybody in this process who wants to know the same thing at the same time.

A run answers one question after another, between its own turns: fifty watchers that ask for the same page would hold it
up. It knows nothing of what is asked.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar, cast

R = TypeVar("R")


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
