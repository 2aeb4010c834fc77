"""The records of a watched thread, read by a task of its own.

A request that is cancelled leaves this task behind instead of waiting for it: a call to Temporal that is cancelled at
the wrong moment never ends (SDK 1.35).
"""

import asyncio
from typing import Self

from wakeful.client.client import Client
from wakeful.contract.errors import WakefulError
from wakeful.contract.events import ErrorEvent, EventRecord


class Records:
    """Iterates over the records of a thread and its descendants, and over the outages in between."""

    def __init__(self, client: Client, thread_id: str, *, live: bool) -> None:
        self._client = client
        self._thread_id = thread_id
        self._is_live = live
        self._queue: asyncio.Queue[EventRecord | WakefulError | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self.ending: str | None = None
        """Why the thread was ended from outside, if it was."""

    def __enter__(self) -> Self:
        self._task = asyncio.create_task(self._read())
        self._task.add_done_callback(lambda _: self._queue.put_nowait(None))
        return self

    def __exit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> EventRecord | WakefulError:
        """The next record, or an outage.

        Raises:
            WakefulError: the thread cannot be watched.
        """
        item = await self._queue.get()
        if item is None:
            assert self._task is not None
            await self._task  # it is done: this raises what ended it
            raise StopAsyncIteration
        if isinstance(item, EventRecord) and isinstance(item.event, ErrorEvent) and not item.path:
            self.ending = item.event.message
        return item

    async def _read(self) -> None:
        watching = self._client.watch(
            self._thread_id, live=self._is_live, descendants=True, on_trouble=self._queue.put_nowait
        )
        async for record in watching:
            self._queue.put_nowait(record)
