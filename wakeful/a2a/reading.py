"""Read the tasks of a thread from Temporal, whether a worker runs or not."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from itertools import accumulate

from a2a.types import Task, TaskState
from temporalio.client import WorkflowExecutionDescription as Description
from temporalio.client import WorkflowExecutionStatus

from wakeful.a2a.projection import Phase, ThreadRecord, TreeRecord
from wakeful.a2a.tasks import TaskRef, refs_of, task_of, waiting_task
from wakeful.client.client import Client
from wakeful.client.files import find_files
from wakeful.client.recent_submissions import recent_submissions
from wakeful.client.thread_reader import ThreadReader
from wakeful.client.wake import describe
from wakeful.client.watching.heartbeat_feed import HeartbeatFeeds
from wakeful.client.watching.retrying import OutageReporter, SharedCalls
from wakeful.client.watching.watcher import WatchContext, Watcher
from wakeful.contract import names
from wakeful.contract.base import json_bytes
from wakeful.contract.decisions import ClientDecisions
from wakeful.contract.errors import CallerError, NoAnswer, ThreadNotFound
from wakeful.contract.files import FileRef
from wakeful.contract.ids import a2a_context_id, a2a_thread_id
from wakeful.contract.messages import MediaBlock, Message
from wakeful.contract.outcomes import Outcome, OutcomeStatus, remembered_id
from wakeful.contract.runs import Adapter, Errored
from wakeful.contract.views import OutcomesView
from wakeful.history.pending_task import pending_task

MAX_KEPT = 32
MAX_KEPT_EVENTS = 20_000
"""Threads that a server keeps in memory, and events of all of them."""


MAX_FILES_BYTES = 4_000_000
"""Of the files of a task's tools, as JSON: clients read tasks whole, and may read one again and again."""


class NotShared(CallerError):
    """The thread was not opened over A2A for one of the agents that are served: clients must not see it."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"context {a2a_context_id(thread_id)!r} is a thread that was not opened over A2A for an agent of this "
            "server: use another context id"
        )


@dataclass(frozen=True)
class FoundTask:
    """A task, and what names it."""

    ref: TaskRef
    task: Task


@dataclass(frozen=True)
class _KeptThread:
    """What was read of a thread, when its execution had this many events in history."""

    run_id: str
    thread: ThreadRecord
    length: int = -1


class TaskReader:
    """Reads the tasks of the threads that were opened over A2A for one of these agents, and of no others.

    It keeps what it has read last, so that a client which asks for a task again and again costs what is new.
    """

    def __init__(
        self, client: Client, agents: Iterable[str], *, tenant: str | None, decisions: ClientDecisions
    ) -> None:
        self._client = client
        self._agents = frozenset(agents)
        self._tenant = tenant
        self._decisions = decisions
        self._kept = OrderedDict[str, _KeptThread]()

    def empty_tree(self, thread_id: str) -> TreeRecord:
        """The record of a thread of which nothing was read."""
        return TreeRecord(thread_id, self._decisions)

    async def context(self, context_id: str) -> TreeRecord | None:
        """The record of a context's thread; None if there is none.

        Raises:
            NotShared: it is not one that may be shown.
        """
        tree = await self.tree(a2a_thread_id(context_id, self._tenant))
        if tree is None:
            # Older releases gave the thread of a context no prefix. None is opened that way any more.
            with suppress(NotShared, ThreadNotFound):
                return await self.tree(context_id)
        return tree

    async def tree(self, thread_id: str, *, with_ended: bool = False) -> TreeRecord | None:
        """The record of a thread; None if there is none.

        Args:
            with_ended: also read the delegates whose calls have ended.

        Raises:
            NotShared: it is not one that may be shown.
        """
        described = await describe(self._client.temporal, thread_id)
        if described is None:
            return None
        tree = self.empty_tree(thread_id)
        await self._read(tree, described, with_ended=with_ended)
        if described.status is not WorkflowExecutionStatus.RUNNING and described.close_time is not None:
            # It was closed before its events were read: a run without an end was ended from outside.
            how = described.status.name.lower() if described.status is not None else "closed"
            at = int(described.close_time.timestamp() * 1000)
            tree.root.end(Errored(value=f"the thread was {how} in Temporal"), at)
        if not await self._may_show(tree):
            raise NotShared(thread_id)
        return tree

    async def find(self, tree: TreeRecord, id: str) -> FoundTask | None:
        """The task with this id."""
        for message_id in tree.root.messages:
            ref = TaskRef(tree.thread_id, message_id)
            if ref.id == id:
                task = await read_task(self._client.reader, tree, ref)
                return FoundTask(ref, task) if task is not None else None
        return next((found for found in await self._unhandled(tree) if found.ref.id == id), None)

    async def tasks(self, tree: TreeRecord) -> list[Task]:
        """All tasks of a thread, the oldest first, without the files of their tools."""
        known = [task for ref in refs_of(tree) if (task := task_of(tree, ref)) is not None]
        return [*known, *(found.task for found in await self._unhandled(tree))]

    async def task(self, tree: TreeRecord, ref: TaskRef) -> Task | None:
        """The task that a message names, with the files of its tools once it has ended."""
        return await read_task(self._client.reader, tree, ref)

    async def outcome(self, thread_id: str, id: str) -> Outcome | None:
        """What became of the message or the decision with this id; None if the thread does not know it."""
        return await read_outcome(self._client.reader, thread_id, id)

    async def refusal(self, ref: TaskRef) -> str | None:
        """Why a thread has refused the message that names a task; None if it has not."""
        return await read_refusal(self._client.reader, ref)

    async def _read(self, tree: TreeRecord, described: Description, *, with_ended: bool) -> None:
        thread = tree.threads[described.id] = await self._thread(described)
        for delegate in sorted(thread.all_delegates if with_ended else thread.delegates.values()):
            # Its parent names it a moment before it is started, and may outlive it.
            with suppress(ThreadNotFound):
                if (child := await describe(self._client.temporal, delegate)) is not None:
                    await self._read(tree, child, with_ended=with_ended)

    async def _thread(self, described: Description) -> ThreadRecord:
        """The record of one thread. Of what was read before, only what came since is read."""
        kept = self._kept.pop(described.id, None)
        if kept is None or kept.run_id != described.run_id:  # another execution may have undone events
            kept = _KeptThread(described.run_id, ThreadRecord())
        if kept.length != described.history_length or pending_task(described) is not None:
            thread = kept.thread.copy()
            context = WatchContext(self._client.reader, SharedCalls(), HeartbeatFeeds(), OutageReporter(None))
            watcher = Watcher(context, described.id, after=thread.position, live=False, stop_at_newest=True)
            async with aclosing(watcher.records()) as records:
                async for record in records:
                    thread.on_record(record)
            # With a pending task, a description may count events that are not in history.
            length = described.history_length if pending_task(described) is None else -1
            kept = _KeptThread(described.run_id, thread, length)
        self._kept[described.id] = kept
        while len(self._kept) > 1 and self._is_full():
            self._kept.popitem(last=False)
        return kept.thread.copy()

    def _is_full(self) -> bool:
        events = sum(kept.thread.position for kept in self._kept.values())
        return len(self._kept) > MAX_KEPT or events > MAX_KEPT_EVENTS

    async def _may_show(self, tree: TreeRecord) -> bool:
        if tree.root.runs:
            first = tree.root.runs[0].identity
            is_own = first.adapter is Adapter.A2A and first.agent_id in self._agents
            return is_own and first.tenant == self._tenant
        submissions = [recent.submission for recent in await recent_submissions(self._client.temporal, tree.thread_id)]
        is_own = bool(submissions) and submissions[0].adapter is Adapter.A2A and submissions[0].agent_id in self._agents
        return is_own and submissions[0].tenant == self._tenant

    async def _unhandled(self, tree: TreeRecord) -> list[FoundTask]:
        """The tasks of messages that no worker has handled, and of those that the thread has refused."""
        found = dict[str, FoundTask]()
        for recent in await recent_submissions(self._client.temporal, tree.thread_id):
            if recent.submission.adapter is not Adapter.A2A:
                continue
            for written in recent.submission.messages:
                if written.id is not None and written.id not in {*tree.root.messages, *found}:
                    ref = TaskRef(tree.thread_id, written.id)
                    task = await self._unhandled_task(tree, ref, written.as_message(written.id), recent.at)
                    found[written.id] = FoundTask(ref, task)
        return list(found.values())

    async def _unhandled_task(self, tree: TreeRecord, ref: TaskRef, message: Message, at: int) -> Task:
        # A thread that no worker has started has refused nothing, and would be waited for.
        reason = await self.refusal(ref) if tree.root.runs else None
        if reason is None:
            return waiting_task(ref, message, at)
        return waiting_task(ref, message, at, state=TaskState.TASK_STATE_REJECTED, reason=reason)


async def read_task(reader: ThreadReader, tree: TreeRecord, ref: TaskRef) -> Task | None:
    """The task that a message names; once it has ended, with the files that its tools returned."""
    run = tree.root.run_of(ref.message_id)
    if run is not None and run.is_over_a2a and run.phase is Phase.DONE and run.summary and run.files is None:
        run.files = await _read_files(reader, run.summary.tool_files)
    return task_of(tree, ref)


async def _read_files(reader: ThreadReader, refs: Sequence[FileRef]) -> tuple[MediaBlock, ...]:
    """The newest of these files that fit a task."""
    found = dict[FileRef, MediaBlock]()
    for thread_id in dict.fromkeys(ref.thread_id for ref in refs):
        with suppress(ThreadNotFound):  # of a sub-agent that was deleted
            found |= await find_files(reader, (ref for ref in refs if ref.thread_id == thread_id))
    return _newest_fitting([found[ref] for ref in refs if ref in found])


def _newest_fitting(files: Sequence[MediaBlock]) -> tuple[MediaBlock, ...]:
    sizes = accumulate(json_bytes(file) for file in reversed(files))
    count = sum(size <= MAX_FILES_BYTES for size in sizes)
    return tuple(files[len(files) - count :])


async def read_outcome(reader: ThreadReader, thread_id: str, id: str) -> Outcome | None:
    """What became of the message or the decision with this id; None if the thread does not know it."""
    try:
        view = await reader.query(thread_id, names.QUERY_OUTCOMES, OutcomesView, {"ids": [id]})
    except (NoAnswer, ThreadNotFound):  # no worker has started or restored it
        return None
    return next((outcome for outcome in view.outcomes if outcome.id == remembered_id(id)), None)


async def read_refusal(reader: ThreadReader, ref: TaskRef) -> str | None:
    """Why a thread has refused the message that names a task; None if it has not."""
    outcome = await read_outcome(reader, ref.thread_id, ref.message_id)
    return outcome.reason if outcome is not None and outcome.status is OutcomeStatus.REFUSED else None
