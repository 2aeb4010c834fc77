"""A watcher in a task of its own: the records that it got, and waits, with a bound, for those that it is to get."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Self

from tests.support.waiting import BOUND_SECONDS
from wakeful.contract.events import ChildStarted, EventRecord, TaskChanged, ToolCallDone


class Watched:
    """The records of a watch, collected while the body runs."""

    def __init__(self, watch: AsyncIterator[EventRecord]) -> None:
        self.records: list[EventRecord] = []
        self._watch = watch
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._collect())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _collect(self) -> None:
        try:
            async for record in self._watch:
                self.records.append(record)
                self._news.set()
        finally:
            self._news.set()

    async def until(self, met: Callable[[EventRecord], bool]) -> EventRecord:
        """The first record for which `met` is true, past or future."""
        at = 0
        async with asyncio.timeout(BOUND_SECONDS):
            while True:
                for record in self.records[at:]:
                    at += 1
                    if met(record):
                        return record
                assert self._task is not None
                assert not self._task.done(), f"the stream ended without it: {[each.event for each in self.records]}"
                self._news.clear()
                await self._news.wait()

    async def until_type(self, event_type: str, *, provisional: bool = False) -> EventRecord:
        return await self.until(
            lambda record: record.event.event_type == event_type and record.provisional is provisional
        )

    async def until_trouble(self, troubles: Sequence[Exception]) -> None:
        """Wait until the watcher has reported an outage."""
        async with asyncio.timeout(BOUND_SECONDS):
            while not troubles:
                await asyncio.sleep(0.05)

    async def to_the_end(self) -> list[EventRecord]:
        """All records, once the stream has ended."""
        assert self._task is not None
        async with asyncio.timeout(BOUND_SECONDS):
            await self._task
        return self.records


def by_thread(records: list[EventRecord]) -> dict[str, list[EventRecord]]:
    threads: dict[str, list[EventRecord]] = defaultdict(list)
    for record in records:
        if not record.provisional:
            threads[record.thread_id].append(record)
    return dict(threads)


def check_causal_order(records: list[EventRecord]) -> int:
    """Records of a child come between its parent's records of its start and its end. Returns the number of children."""
    started: set[str] = set()
    ended: set[str] = set()
    calls: dict[tuple[str, str], str] = {}
    for record in records:
        if record.path:
            assert record.thread_id in started - ended, f"a record of {record.thread_id} is out of order"
        match record.event:
            case ChildStarted(thread_id=thread, call_id=call_id, agent_id=str()):
                started.add(thread)
                if call_id is not None:
                    calls[record.thread_id, call_id] = thread
            case ToolCallDone(id=id) if (record.thread_id, id) in calls:
                ended.add(calls[record.thread_id, id])
            case TaskChanged(task=task) if task.status.is_terminal and task.thread_id:
                ended.add(task.thread_id)
            case _:
                pass
    return len(started)
