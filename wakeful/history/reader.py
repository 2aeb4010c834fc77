"""Read threads from history alone, without a worker: `HistoryReader` replays an execution and queries the result.

The answers are those of the execution's last completed workflow task, computed by the workflow itself on what the SDK
made of its history. Nothing is written anywhere. Unlike a query that a worker answers, reading cannot make a run handle
events before their workflow task.
"""

import asyncio
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client
from temporalio.client import WorkflowExecutionDescription as Description
from temporalio.service import RPCError
from temporalio.workflow import NondeterminismError

from wakeful.contract import names
from wakeful.contract.errors import CallerError, DoesNotReplay, NotStarted
from wakeful.contract.views import Sent, StatusView
from wakeful.history.completed_part import last_completed_task
from wakeful.history.decoder import ExecutionRef
from wakeful.history.latest_execution import latest_started
from wakeful.history.pending_task import pending_task, wait_for_new_task
from wakeful.history.read_only_replayer import NO_THREADS, OURS, WORKFLOWS, ReadOnlyReplayer
from wakeful.history.replayed_execution import ReplayedExecution, ThreadReading, drop_all, replay_execution
from wakeful.history.unhandled import read_unhandled
from wakeful.rpc_errors import error_of
from wakeful.undecodable import check_decodable

V = TypeVar("V")
A = TypeVar("A")

MAX_KEPT = 32
"""Executions that a reader keeps in memory."""

MAX_KEPT_BYTES = 64 * 2**20
"""Of their histories; a replayed execution takes several times as much memory."""

NEWEST_EVENTS = 50
"""A page of newest events; the newest workflow task is usually among them."""


class HistoryReader:
    """Reads threads of one namespace. Use it in one event loop, and close it: it keeps what it has replayed.

    Args:
        temporal: has the data converter of the namespace's workers.
        workflows: the workflow code, if not the installed one.
        max_kept: how many executions it keeps in memory; it drops those that were read the longest time ago.
        max_kept_bytes: how many bytes the histories of those may have; the newest is kept in any case.
        handled_within: seconds for which a read waits for a workflow task that was just scheduled, so that it shows
            what was sent before it; without a worker, it then shows what the task before left.
    """

    def __init__(
        self,
        temporal: Client,
        *,
        workflows: Sequence[type] = WORKFLOWS,
        max_kept: int = MAX_KEPT,
        max_kept_bytes: int = MAX_KEPT_BYTES,
        handled_within: float = 0.0,
    ) -> None:
        self.temporal = temporal
        self._handled_within = handled_within
        self.replayer = ReadOnlyReplayer(temporal.data_converter, namespace=temporal.namespace, workflows=workflows)
        self._max_kept = max_kept
        self._max_kept_bytes = max_kept_bytes
        self._kept: OrderedDict[str, ReplayedExecution] = OrderedDict()
        """By Temporal's run id, the last read one last."""
        self._broken: OrderedDict[str, DoesNotReplay] = OrderedDict()
        """Executions that no later event can make replay."""
        self._replays: dict[str, asyncio.Task[None]] = {}
        weakref.finalize(self, drop_all, self._kept)

    async def query(
        self, thread_id: str, name: str, kind: type[V], argument: object = None, *, run_id: str | None = None
    ) -> V:
        """What a thread, or one execution of it, answers to a query.

        Raises:
            NotStarted: no workflow task has been completed, of the execution or of any that it continues.
            DoesNotReplay: the execution does not replay on the installed code.
            ThreadNotFound: there is no such execution.
        """
        return await self._answer(thread_id, run_id, lambda replayed: replayed.query(name, kind, argument))

    async def status(self, thread_id: str) -> StatusView:
        """A thread's status, since when a workflow task has been waiting for a worker, and what it will handle.

        Raises:
            NotStarted: no workflow task has been completed, of the execution or of any that it continues.
            DoesNotReplay: the execution does not replay on the installed code.
            ThreadNotFound: there is no such thread.
        """
        view = await self.query(thread_id, names.QUERY_STATUS, StatusView)
        described = await self._describe(thread_id, None)
        if (task := pending_task(described)) is None:
            return view
        unhandled = await self.unhandled(ExecutionRef(thread_id, described.run_id))
        since = None if task.is_started else min([task.since, *(sent.at for sent in unhandled)])
        return view.model_copy(update={"unhandled_since": since, "unhandled": unhandled})

    async def unhandled(self, execution: ExecutionRef) -> tuple[Sent, ...]:
        """What an execution was sent that no worker has handled yet.

        Raises:
            ThreadNotFound: there is no such execution.
        """
        try:
            return await read_unhandled(self.temporal, execution)
        except RPCError as error:
            raise error_of(error, execution.thread_id) from error

    async def read(self, thread_id: str, *, run_id: str | None = None) -> ThreadReading:
        """Everything that a thread, or one execution of it, has to show.

        Raises:
            NotStarted: no workflow task has been completed, of the execution or of any that it continues.
            DoesNotReplay: the execution does not replay on the installed code.
            ThreadNotFound: there is no such execution.
        """
        return await self._answer(thread_id, run_id, ReplayedExecution.reading)

    async def aclose(self) -> None:
        """Drop everything that it keeps."""
        if replays := tuple(self._replays.values()):
            await asyncio.wait(replays)
        await asyncio.to_thread(drop_all, self._kept)

    async def _answer(
        self, thread_id: str, run_id: str | None, answer: Callable[[ReplayedExecution], Awaitable[A]]
    ) -> A:
        described = await self._described_when_handled(thread_id, run_id)
        try:
            return await self._answer_of(described, answer)
        except NotStarted:
            # Until a worker takes the thread over or has restored it, the execution before this one has it.
            start = await latest_started(self.temporal, thread_id, described.run_id) if run_id is None else None
            if start is None or not start.has_started or start.run_id == described.run_id:
                raise
        return await self._answer_of(await self._describe(thread_id, start.run_id), answer)

    async def _answer_of(self, described: Description, answer: Callable[[ReplayedExecution], Awaitable[A]]) -> A:
        replayed = await self._replayed_execution(described)
        replayed.readers += 1  # it is not dropped meanwhile
        try:
            return await answer(replayed)
        finally:
            replayed.readers -= 1
            await self._drop_if_unused(replayed)

    async def _described_when_handled(self, thread_id: str, run_id: str | None) -> Description:
        """The execution, once the workflow task has been completed that was just scheduled."""
        describe = partial(self._describe, thread_id, run_id)
        described = await describe()
        return await wait_for_new_task(described, describe, seconds=self._handled_within)

    async def _replayed_execution(self, described: Description) -> ReplayedExecution:
        """The replayed execution. If it has no new event since its last replay, nothing has to be read.

        Each turn returns, raises or awaits a replay that has not ended, so that the event loop runs on. Replays of an
        execution follow one another: only the first that a reader awaits can have begun before its description. A
        third turn comes only if the execution was evicted in between.
        """
        execution, length = ExecutionRef(described.id, described.run_id), described.history_length
        # With a pending task, a description may count events that are not in history, and others come in their place.
        is_counted, is_fresh, has_waited = pending_task(described) is None, False, False
        while True:
            kept = self._kept.get(execution.run_id)
            if kept is not None and (is_fresh or (is_counted and kept.length >= length)):
                self._kept.move_to_end(execution.run_id)
                return kept
            if (broken := self._broken.get(execution.run_id)) is not None:
                raise broken.with_traceback(None)
            is_fresh = has_waited or self._under_way(execution.run_id) is None
            # Shared by all who read this execution now, and not cancelled with any of them.
            await asyncio.shield(self._replay_of(execution, kept, length))
            has_waited = True

    async def _describe(self, thread_id: str, run_id: str | None) -> Description:
        try:
            described = await self.temporal.get_workflow_handle(thread_id, run_id=run_id).describe()
        except RPCError as error:
            raise error_of(error, thread_id) from error
        if described.workflow_type not in OURS or described.workflow_type in NO_THREADS:
            raise CallerError(f"workflow {thread_id!r} is no thread but a {described.workflow_type!r}")
        check_decodable(self.temporal.data_converter, described)
        return described

    def _under_way(self, run_id: str) -> "asyncio.Task[None] | None":
        """The replay of an execution that has not ended: awaiting one that has would not yield to the event loop."""
        replay = self._replays.get(run_id)
        return replay if replay is not None and not replay.done() else None

    def _replay_of(self, execution: ExecutionRef, kept: ReplayedExecution | None, length: int) -> "asyncio.Task[None]":
        run_id = execution.run_id
        if (replay := self._under_way(run_id)) is None:
            replay = self._replays[run_id] = asyncio.create_task(self._replay(execution, kept, length))
            replay.add_done_callback(lambda done: self._on_replayed(run_id, done))
        return replay

    def _on_replayed(self, run_id: str, replay: "asyncio.Task[None]") -> None:
        if self._replays.get(run_id) is replay:  # else a reader came before this callback, and began the next
            del self._replays[run_id]
        if not replay.cancelled():
            replay.exception()  # all who wait for it may have been cancelled

    async def _replay(self, execution: ExecutionRef, kept: ReplayedExecution | None, length: int) -> None:
        try:
            if kept is not None and await self._last_completed(execution) == kept.completed:
                kept.length = max(length, kept.length)
                return
            handle = self.temporal.get_workflow_handle(execution.thread_id, run_id=execution.run_id)
            history = await handle.fetch_history()
        except RPCError as error:
            raise error_of(error, execution.thread_id) from error
        try:
            replayed = await replay_execution(self.replayer, execution, history.events)
        except DoesNotReplay as error:
            self._remember(error)
            raise
        # With a speculative workflow task, the description counts events that the history does not have.
        replayed.length = max(length, replayed.length)
        await self._keep(execution.run_id, replayed)

    async def _last_completed(self, execution: ExecutionRef) -> int | None:
        """The event that completed the execution's last workflow task, read from its end."""
        request = GetWorkflowExecutionHistoryReverseRequest(
            namespace=self.temporal.namespace,
            execution=WorkflowExecution(workflow_id=execution.thread_id, run_id=execution.run_id),
            maximum_page_size=NEWEST_EVENTS,
        )
        while True:
            page = await self.temporal.workflow_service.get_workflow_execution_history_reverse(request)
            completed = last_completed_task(page.history.events[::-1])
            if completed is not None or not page.next_page_token:
                return completed
            request.next_page_token = page.next_page_token

    def _remember(self, error: DoesNotReplay) -> None:
        """Events that are added later do not make it replay; but another failure may have been this machine's."""
        if isinstance(error.__cause__, NondeterminismError):
            self._broken[error.run_id] = error
            if len(self._broken) > self._max_kept:
                self._broken.popitem(last=False)

    async def _keep(self, run_id: str, replayed: ReplayedExecution) -> None:
        left = [before] if (before := self._kept.pop(run_id, None)) is not None else []
        self._kept[run_id] = replayed
        while len(self._kept) > 1 and self._is_full():
            left.append(self._kept.popitem(last=False)[1])
        for each in left:
            await self._drop_if_unused(each)

    def _is_full(self) -> bool:
        history_bytes = sum(replayed.history_bytes for replayed in self._kept.values())
        return len(self._kept) > self._max_kept or history_bytes > self._max_kept_bytes

    async def _drop_if_unused(self, replayed: ReplayedExecution) -> None:
        is_kept = self._kept.get(replayed.execution.run_id) is replayed
        if not is_kept and not replayed.readers:
            await replayed.drop()
