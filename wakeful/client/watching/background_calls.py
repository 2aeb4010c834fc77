"""What running background tools show, as provisional records of the thread that owns them.

Such a tool runs in a workflow without events of its own. Its activity heartbeats there, as every tool does.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from temporalio.service import RPCError

from wakeful.client.watching.execution import read_heartbeats
from wakeful.client.watching.live import REWOUND
from wakeful.client.watching.tool_output import WatchedCall
from wakeful.client.watching.watcher import WatchContext
from wakeful.contract.events import AgentEvent, ChildStarted, EventRecord, StreamReset, TaskChanged
from wakeful.contract.tasks import Task, TaskType

Emit = Callable[[Callable[[], EventRecord]], Awaitable[None]]
"""Takes what makes a record, and calls it when there is room: it has the number of the last record before it."""


@dataclass
class _Running:
    """A background tool that has started."""

    task: Task
    seq: int
    """The number of the event that says so."""
    reading: asyncio.Task[None] | None = None
    shown: WatchedCall | None = None


class BackgroundCalls:
    """Follows the background tools of one thread, of which it gets each record before it is shown and after that."""

    def __init__(self, context: WatchContext, emit: Emit) -> None:
        self._context = context
        self._emit = emit
        self._newest: EventRecord | None = None
        self._running: dict[str, _Running] = {}

    async def before(self, record: EventRecord) -> None:
        """If the record is the end of a tool that has reported progress, show the last status of that first."""
        match record.event:
            case TaskChanged(task=task) if task.status.is_terminal and (ended := self._stop(task.task_id)) is not None:
                for event in ended.shown.on_task_end(task.status) if ended.shown is not None else ():
                    await self._show(event, at=record.at)
            case StreamReset(reason=reason) if record.provisional and reason == REWOUND:
                for id in [id for id, running in self._running.items() if running.seq > record.seq]:
                    self._stop(id)
            case _:
                pass

    def after(self, record: EventRecord) -> None:
        """Begin to follow the tool whose start the record says."""
        self._newest = record
        match record.event:
            case TaskChanged(task=task) if task.task_type is TaskType.TOOL and not task.status.is_terminal:
                self._running[task.task_id] = _Running(task, record.seq)
            case ChildStarted(work_id=id, thread_id=thread_id) if (running := self._running.get(id)) is not None:
                running.reading = asyncio.create_task(self._follow(running, thread_id))
            case _:
                pass

    def stop(self) -> None:
        """Follow none any more."""
        for id in tuple(self._running):
            self._stop(id)

    def _stop(self, task_id: str) -> _Running | None:
        running = self._running.pop(task_id, None)
        if running is not None and running.reading is not None:
            running.reading.cancel()
        return running

    async def _follow(self, running: _Running, thread_id: str) -> None:
        temporal = self._context.reader.temporal
        handle = temporal.get_workflow_handle(thread_id)
        feed = self._context.feeds.feed(thread_id, lambda: read_heartbeats(temporal, handle))
        while True:
            try:
                heartbeats = await feed.next()
            except RPCError:
                continue  # it is not started yet, or Temporal is away: the feed waits before it asks again
            for heartbeat in heartbeats:
                if heartbeat.id == running.task.task_id:
                    running.shown = running.shown or _watched(running.task, heartbeat.type)
                    for event in running.shown.on_heartbeat(heartbeat.details):
                        await self._show(event, at=heartbeat.at)

    async def _show(self, event: AgentEvent, *, at: int) -> None:
        def record() -> EventRecord:
            assert self._newest is not None  # the record of its start
            return self._newest.model_copy(update={"event": event, "at": at, "provisional": True})

        await self._emit(record)


def _watched(task: Task, tool_name: str) -> WatchedCall:
    started = task.parent_context
    call_id, run_id = started.call_id or task.task_id, started.run_id or ""
    return WatchedCall(call_id, tool_name, thread_id=task.owner_thread_id, run_id=run_id)
