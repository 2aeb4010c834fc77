"""The records of a watched thread, kept coming while somebody types."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from wakeful.contract.events import EventRecord


class Feed:
    """The records of a thread as they come, also while nobody takes them."""

    def __init__(
        self, watch: Callable[[Mapping[str, int]], AsyncIterator[EventRecord]], seen: Mapping[str, int]
    ) -> None:
        self._watch = watch
        self._seen = dict(seen)
        self._coming: asyncio.Queue[EventRecord | BaseException | None] = asyncio.Queue()
        self._back: deque[EventRecord] = deque()
        self._pump: asyncio.Task[None] | None = None

    @property
    def has_more(self) -> bool:
        """Something was put back."""
        return bool(self._back)

    def open(self) -> None:
        """Begin, or go on with a thread that was closed and has been woken."""
        if self._pump is not None and not self._pump.done():
            return
        self._pump = asyncio.create_task(self._run())
        self._pump.add_done_callback(self._ended)

    def close(self) -> None:
        if self._pump is not None:
            self._pump.cancel()

    async def next(self) -> EventRecord | None:
        """The next record; nothing when the thread has ended.

        Raises:
            WakefulError: it cannot be watched.
        """
        if self._back:
            return self._back.popleft()
        coming = await self._coming.get()
        if isinstance(coming, BaseException):
            raise coming
        return coming

    def put_back(self, records: Sequence[EventRecord]) -> None:
        self._back.extendleft(reversed(records))

    async def _run(self) -> None:
        async for record in self._watch(dict(self._seen)):
            self._seen[record.thread_id] = record.seq
            self._coming.put_nowait(record)

    def _ended(self, pump: asyncio.Task[None]) -> None:
        if not pump.cancelled():
            self._coming.put_nowait(pump.exception())
