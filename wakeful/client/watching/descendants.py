"""Follow a thread and every sub-agent below it as one stream, in causal order.

What a sub-agent says comes after its parent's `child_started`, and before the record with which its parent takes its
end up. Threads that have nothing to do with each other are told as they come. Background tools are workflows without
events: their parent tells their beginning and their end.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from wakeful.client.watching.live import PROGRESS, REWOUND
from wakeful.client.watching.watcher import Reach, Watcher
from wakeful.contract.errors import ThreadNotFound, WakefulError
from wakeful.contract.events import (
    ActivitySnapshot,
    AgentEvent,
    ChildStarted,
    EventRecord,
    StreamReset,
    TaskChanged,
    ToolCallDone,
)

CHILD_PATIENCE = 30.0
"""Seconds that a sub-agent is given to have its first execution: it is named a moment before it is started."""
LOOK_AGAIN_SECONDS = 0.2
AHEAD = 256
"""Records that are read before somebody takes them."""


class FamilyWatcher:
    """A thread and those below it; each has a stream of its own, and all of them end in one queue."""

    def __init__(self, reach: Reach, root: str, *, after: Mapping[str, int], live: bool) -> None:
        self._reach = reach
        self._root = root
        self._after = after
        self._is_live = live
        self._room = asyncio.Semaphore(AHEAD)
        self._queue: asyncio.Queue[EventRecord | None] = asyncio.Queue()
        self._streams: dict[str, asyncio.Task[None]] = {}

    async def records(self) -> AsyncGenerator[EventRecord, None]:
        """Their events as they come, until the root has ended and those below it have been read to their ends."""
        telling = asyncio.create_task(self._tell_all())
        telling.add_done_callback(lambda _: self._queue.put_nowait(None))
        try:
            while (record := await self._queue.get()) is not None:
                self._room.release()
                yield record
            await telling
        finally:
            for task in (telling, *self._streams.values()):
                task.cancel()

    async def _tell_all(self) -> None:
        await _Stream(self, self._root).tell(self._after.get(self._root, 0))
        while below := {stream for stream in self._streams.values() if not stream.done()}:
            await asyncio.wait(below)

    def watcher(self, thread_id: str, *, after: int, past: bool = False) -> Watcher:
        live = self._is_live and not past
        return Watcher(self._reach, thread_id, after=after, live=live, past=past)

    async def say(self, record: EventRecord) -> None:
        await self._room.acquire()
        self._queue.put_nowait(record)

    def begin(self, thread_id: str) -> asyncio.Task[None]:
        """The stream of a sub-agent, which begins with the first record that whoever watches has not seen."""
        if thread_id not in self._streams:
            self._streams[thread_id] = asyncio.create_task(self._tell_child(thread_id))
        return self._streams[thread_id]

    async def _tell_child(self, thread_id: str) -> None:
        """Sub-agents are named a moment before they are started. One that cannot be read is left out, and told of."""
        for _ in range(int(CHILD_PATIENCE / LOOK_AGAIN_SECONDS)):
            try:
                await _Stream(self, thread_id).tell(self._after.get(thread_id, 0))
                break
            except ThreadNotFound:
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
            except WakefulError as error:
                self._reach.troubles.begin(thread_id, error)
                self._reach.troubles.end(thread_id)
                break

    def drop(self, thread_id: str) -> None:
        """Tell no more of a sub-agent whose start was undone, nor of those below it."""
        for other, stream in self._streams.items():
            if f"{other}/".startswith(f"{thread_id}/"):
                stream.cancel()


class _Stream:
    """One thread's part, and what it knows of the sub-agents that it has started."""

    def __init__(self, family: FamilyWatcher, thread_id: str) -> None:
        self._family = family
        self._thread_id = thread_id
        self._started: dict[str, int] = {}
        """The threads of its sub-agents, with the numbers of the records that told so."""
        self._calls: dict[str, str] = {}
        """The threads of sub-agents that calls wait for."""

    async def tell(self, after: int) -> None:
        if after:
            await self._go_on(after)
        watcher = self._family.watcher(self._thread_id, after=after)
        async with aclosing(watcher.records()) as records:
            async for record in records:
                if (child := self._ended(record.event)) is not None:
                    await asyncio.wait({self._family.begin(child)})
                await self._family.say(record)
                self._note(record)
                if isinstance(record.event, ChildStarted) and record.event.agent_id:
                    self._family.begin(record.event.thread_id)

    async def _go_on(self, after: int) -> None:
        """Go on with the sub-agents that had been started by then, and whose ends had not been told."""
        watcher = self._family.watcher(self._thread_id, after=0, past=True)
        async with aclosing(watcher.records()) as records:
            async for record in records:
                if record.seq > after:
                    break
                self._note(record)
                if (child := self._ended(record.event)) is not None:
                    self._started.pop(child, None)
        for child in self._started:
            self._family.begin(child)

    def _note(self, record: EventRecord) -> None:
        match record.event:
            case ChildStarted(thread_id=thread_id, agent_id=str(), call_id=call_id):
                self._started[thread_id] = record.seq
                if call_id is not None:
                    self._calls[call_id] = thread_id
            case StreamReset(reason=reason) if record.provisional and reason == REWOUND:
                for child in [child for child, seq in self._started.items() if seq > record.seq]:
                    del self._started[child]
                    self._family.drop(child)
            case _:
                pass

    def _ended(self, event: AgentEvent) -> str | None:
        """The sub-agent whose end an event tells. A run of an older revision has not told its start."""
        match event:
            case ToolCallDone(id=id, result=result):
                child = result.metadata.get("child_thread_id") if result.metadata else None
                return self._calls.get(id) or (child if isinstance(child, str) else None)
            case ActivitySnapshot(message_id=id, activity_type=kind, content={"status": status}) if (
                kind == PROGRESS and status != "running"
            ):
                return self._calls.get(id)
            case TaskChanged(task=task) if task.status.is_terminal and task.agent_id:
                return task.thread_id
            case _:
                return None


def watch(
    reach: Reach, thread_id: str, *, after: int | Mapping[str, int], live: bool, below: bool
) -> AsyncGenerator[EventRecord, None]:
    """A thread's events as they come, and those of its sub-agents with `below`."""
    seen = {thread_id: after} if isinstance(after, int) else after
    if below:
        return FamilyWatcher(reach, thread_id, after=seen, live=live).records()
    return Watcher(reach, thread_id, after=seen.get(thread_id, 0), live=live).records()
