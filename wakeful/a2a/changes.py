"""The states of a task in their order, from its first to its last: the same whenever and wherever they are read.

Push notifications are made of them. `following.py` is for a client that is connected: it begins with the task as it is,
and shows the answer while it is written.
"""

import hashlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from a2a.types import Task
from google.protobuf.timestamp_pb2 import Timestamp

from wakeful.a2a.following import is_rewind, shown
from wakeful.a2a.projection import TreeRecord
from wakeful.a2a.reading import read_refusal, read_task
from wakeful.a2a.tasks import TERMINAL, TaskRef, rejected
from wakeful.client.watching.descendants import watch
from wakeful.client.watching.watcher import WatchContext
from wakeful.contract import names
from wakeful.contract.decisions import ClientDecisions
from wakeful.contract.events import EventRecord, SignalRefused

KEY_LENGTH = 16


@dataclass(frozen=True)
class TaskChange:
    """A task with another state, or another question, than before."""

    key: str
    """Tells it from every other change of the task."""
    task: Task

    @property
    def is_last(self) -> bool:
        return self.task.status.state in TERMINAL


async def task_changes(
    context: WatchContext, ref: TaskRef, decisions: ClientDecisions
) -> AsyncGenerator[TaskChange, None]:
    """Every change of the task, from its first state to its last, or until its thread ends. It waits for history.

    After a rewind they begin again: those that the rewind has left have the same keys.

    Args:
        decisions: what the clients who are shown the changes may decide.

    Raises:
        ThreadNotFound: there is no such thread.
    """
    is_rewound = True
    while is_rewound:
        is_rewound = False
        fold = _Fold(context, ref, decisions)
        async with aclosing(watch(context, ref.thread_id, after=0, live=False, descendants=True)) as records:
            async for record in records:
                if is_rewound := is_rewind(record):
                    break
                change = await fold.on_record(record)
                if change is not None:
                    yield change
                    if change.is_last:
                        return


class _Fold:
    """Takes the events of a thread and its sub-agents, and notices what changes in one task."""

    def __init__(self, context: WatchContext, ref: TaskRef, decisions: ClientDecisions) -> None:
        self._reader = context.reader
        self._ref = ref
        self._tree = TreeRecord(ref.thread_id, decisions)
        self._task: Task | None = None

    async def on_record(self, record: EventRecord) -> TaskChange | None:
        self._tree.on_record(record)
        task = await read_task(self._reader, self._tree, self._ref)
        if task is None and isinstance(record.event, SignalRefused) and record.event.signal == names.SIGNAL_SUBMIT:
            task = await self._refused(record)
        before, self._task = self._task, task
        if task is None or (before is not None and shown(task) == shown(before)):
            return None
        return TaskChange(_key(task, record), task)

    async def _refused(self, record: EventRecord) -> Task | None:
        if (reason := await read_refusal(self._reader, self._ref)) is None:
            return None
        at = Timestamp()
        at.FromMilliseconds(record.at)
        task = rejected(Task(id=self._ref.id, context_id=self._ref.context_id), reason)
        task.status.timestamp.CopyFrom(at)
        return task


def _key(task: Task, record: EventRecord) -> str:
    """Of the state and of the event that brought it. After a rewind, another event may have the same number."""
    thread_id = record.path[-1] if record.path else ""
    parts = (*map(str, shown(task)), thread_id, str(record.seq), str(record.at))
    return hashlib.sha256("\n".join(parts).encode(errors="surrogatepass")).hexdigest()[:KEY_LENGTH]
