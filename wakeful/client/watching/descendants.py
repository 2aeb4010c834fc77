"""Watch a thread and all its descendants as one stream, in causal order.

The records of a sub-agent come after its parent's `child_started`, and before the record with which its parent takes up
its end. Unrelated threads come in any order. Background tools are workflows without events: their parent emits their
start and their end, and a live watcher shows in between what they report.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing

from wakeful.client.watching.background_calls import BackgroundCalls
from wakeful.client.watching.live import REWOUND
from wakeful.client.watching.watcher import WatchContext, Watcher
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
from wakeful.contract.ids import is_descendant
from wakeful.contract.tool_progress import PROGRESS

CHILD_START_SECONDS = 30.0
"""How long a sub-agent may take to have its first execution: its parent names it a moment before it is started."""
RETRY_SECONDS = 0.2
BUFFERED_RECORDS = 256
"""Records that are read ahead of the consumer."""


def watch(
    context: WatchContext, thread_id: str, *, after: int | Mapping[str, int], live: bool, descendants: bool
) -> AsyncGenerator[EventRecord, None]:
    """A thread's events, and with `descendants` those of its sub-agents at any depth."""
    seen = {thread_id: after} if isinstance(after, int) else after
    if descendants:
        return TreeWatcher(context, thread_id, after=seen, live=live).records()
    return Watcher(context, thread_id, after=seen.get(thread_id, 0), live=live).records()


class TreeWatcher:
    """Watches a thread and its descendants: each has a stream of its own, and all of them end in one queue.

    Args:
        children: the sub-agents that the root has at event `after`, if the caller knows them; else the root is read
            from its first event on.
    """

    def __init__(
        self,
        context: WatchContext,
        root: str,
        *,
        after: Mapping[str, int],
        live: bool,
        children: Sequence[str] | None = None,
    ) -> None:
        self._context = context
        self._root = root
        self._after = after
        self._is_live = live
        self._children = children
        self._free = asyncio.Semaphore(BUFFERED_RECORDS)
        self._queue: asyncio.Queue[EventRecord | None] = asyncio.Queue()
        self._streams: dict[str, asyncio.Task[None]] = {}

    async def records(self) -> AsyncGenerator[EventRecord, None]:
        """The events of all of them, until the root has ended and its descendants have been read to their ends."""
        reading = asyncio.create_task(self._read_all())
        reading.add_done_callback(lambda _: self._queue.put_nowait(None))
        try:
            while (record := await self._queue.get()) is not None:
                self._free.release()
                yield record
            await reading
        finally:
            for task in (reading, *self._streams.values()):
                task.cancel()

    async def _read_all(self) -> None:
        root = _ThreadStream(self, self._root)
        await root.read(self._after.get(self._root, 0), children=self._children)
        while open_streams := {stream for stream in self._streams.values() if not stream.done()}:
            await asyncio.wait(open_streams)

    def watcher(self, thread_id: str, *, after: int, stop_at_newest: bool = False) -> Watcher:
        live = self._is_live and not stop_at_newest
        return Watcher(self._context, thread_id, after=after, live=live, stop_at_newest=stop_at_newest)

    async def emit(self, record: EventRecord | Callable[[], EventRecord]) -> None:
        """Yield a record; one that depends on those before it is made when there is room for it."""
        await self._free.acquire()
        self._queue.put_nowait(record if isinstance(record, EventRecord) else record())

    def background_calls(self) -> BackgroundCalls | None:
        """What follows the background tools of a thread; None if only events are wanted."""
        return BackgroundCalls(self._context, self.emit) if self._is_live else None

    def start_stream(self, thread_id: str) -> asyncio.Task[None]:
        """The stream of a sub-agent, from the first record that the caller has not seen."""
        if thread_id not in self._streams:
            self._streams[thread_id] = asyncio.create_task(self._read_child(thread_id))
        return self._streams[thread_id]

    async def _read_child(self, thread_id: str) -> None:
        """Read a sub-agent, once it exists. One that cannot be read is reported as an outage and left out."""
        for _ in range(int(CHILD_START_SECONDS / RETRY_SECONDS)):
            try:
                await _ThreadStream(self, thread_id).read(self._after.get(thread_id, 0))
                break
            except ThreadNotFound:
                await asyncio.sleep(RETRY_SECONDS)
            except WakefulError as error:
                self._context.outages.call_failed(thread_id, error)
                self._context.outages.call_ended(thread_id)
                break

    def stop_stream(self, thread_id: str) -> None:
        """Stop the stream of a sub-agent whose start was undone, and those of its descendants."""
        for other, stream in self._streams.items():
            if other == thread_id or is_descendant(other, thread_id):
                stream.cancel()


class _ThreadStream:
    """The records of one thread, and the sub-agents that they say it has started."""

    def __init__(self, tree: TreeWatcher, thread_id: str) -> None:
        self._tree = tree
        self._thread_id = thread_id
        self._started: dict[str, int] = {}
        """The threads of its sub-agents, with the numbers of their `child_started` events."""
        self._delegates: dict[str, str] = {}
        """The threads of the sub-agents that calls wait for, by call id."""
        self._background = tree.background_calls()

    async def read(self, after: int, *, children: Sequence[str] | None = None) -> None:
        try:
            if children is not None:
                for running in children:
                    self._tree.start_stream(running)
            elif after:
                await self._resume_children(after)
            await self._read_own(after)
        finally:
            if self._background is not None:
                self._background.stop()

    async def _read_own(self, after: int) -> None:
        watcher = self._tree.watcher(self._thread_id, after=after)
        async with aclosing(watcher.records()) as records:
            async for record in records:
                if (child := self._ended_child(record.event)) is not None:
                    await asyncio.wait({self._tree.start_stream(child)})
                if self._background is not None:
                    await self._background.before(record)
                await self._tree.emit(record)
                self._track_children(record)
                if isinstance(record.event, ChildStarted) and record.event.agent_id:
                    self._tree.start_stream(record.event.thread_id)

    async def _resume_children(self, after: int) -> None:
        """Start the streams of the sub-agents that were running at event `after`."""
        watcher = self._tree.watcher(self._thread_id, after=0, stop_at_newest=True)
        async with aclosing(watcher.records()) as records:
            async for record in records:
                if record.seq > after:
                    break
                if self._background is not None:
                    await self._background.before(record)
                self._track_children(record)
                if (child := self._ended_child(record.event)) is not None:
                    self._started.pop(child, None)
        for child in self._started:
            self._tree.start_stream(child)

    def _track_children(self, record: EventRecord) -> None:
        if self._background is not None:
            self._background.after(record)
        match record.event:
            case ChildStarted(thread_id=thread_id, agent_id=str(), call_id=call_id):
                self._started[thread_id] = record.seq
                if call_id is not None:
                    self._delegates[call_id] = thread_id
            case StreamReset(reason=reason) if record.provisional and reason == REWOUND:
                for child in [child for child, seq in self._started.items() if seq > record.seq]:
                    del self._started[child]
                    self._tree.stop_stream(child)
            case _:
                pass

    def _ended_child(self, event: AgentEvent) -> str | None:
        """The sub-agent whose end this event reports."""
        match event:
            case ToolCallDone(id=id):
                return self._delegates.get(id)
            case ActivitySnapshot(message_id=id, activity_type=kind, content={"status": status}) if (
                kind == PROGRESS and status != "running"
            ):
                return self._delegates.get(id)
            case TaskChanged(task=task) if task.status.is_terminal and task.agent_id:
                return task.thread_id
            case _:
                return None
