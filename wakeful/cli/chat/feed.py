"""The records of a watched thread, queued while nothing reads them."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from wakeful.contract.events import EventRecord


class RecordFeed:
    """Watches a thread in the background, also while a person types."""

    def __init__(
        self, watch: Callable[[Mapping[str, int]], AsyncIterator[EventRecord]], seen: Mapping[str, int]
    ) -> None:
        """`seen` is the number of the last event that was seen, by thread."""
        self._watch = watch
        self._seen = dict(seen)
        self._queue: asyncio.Queue[EventRecord | BaseException | None] = asyncio.Queue()
        self._put_back: deque[EventRecord] = deque()
        self._task: asyncio.Task[None] | None = None

    @property
    def has_put_back(self) -> bool:
        return bool(self._put_back)

    def open(self) -> None:
        """Start to watch; watch again, if the thread was closed and has been woken."""
        if self._task is not None and not self._task.done():
            return
        self._task = asyncio.create_task(self._read())
        self._task.add_done_callback(self._on_end)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def next(self) -> EventRecord | None:
        """The next record; None when the thread has ended.

        Raises:
            WakefulError: the thread cannot be watched.
        """
        if self._put_back:
            return self._put_back.popleft()
        item = await self._queue.get()
        if isinstance(item, BaseException):
            raise item
        return item

    def put_back(self, records: Sequence[EventRecord]) -> None:
        self._put_back.extendleft(reversed(records))

    async def _read(self) -> None:
        async for record in self._watch(dict(self._seen)):
            self._seen[record.thread_id] = record.seq
            self._queue.put_nowait(record)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self._queue.put_nowait(task.exception())
