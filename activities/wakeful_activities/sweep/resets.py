"""The part of the sweep for threads that were reset, as a rewind does, or woken.

A reset undoes the signals in which children reported their ends after the reset point. The client that rewinds a thread
reports those ends again; if its process dies, or another tool has reset the thread, the sweep does. A thread that was
terminated and is woken later still waits for tasks that ended in between, and could not report. A child's own history
still has the result that it signalled.

Both start another execution of a thread that has a closed one, which two list queries show; histories are read only of
executions that were reset or started over.
"""

from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta

from temporalio.client import WorkflowExecution, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.statuses import Statuses
from wakeful.client.thread_reader import ThreadReader
from wakeful.contract import names
from wakeful.contract.subagents import ChildResult
from wakeful.contract.views import StatusView
from wakeful.history.decoder import Payloads
from wakeful.history.list_queries import any_of, quoted
from wakeful.rpc_errors import describe_execution
from wakeful_activities.sweep.child_ends import (
    CLOSED_FROM_OUTSIDE,
    report_end,
    result_in_place_of,
    signalled_result,
    was_closed_from_outside,
)

GRACE = timedelta(seconds=10)
"""How long the client that reset a thread, or a child that has just closed, has to report an end itself."""

FIRST_LOOKBACK = timedelta(hours=1)
"""How far back a worker's first round looks for new executions."""
OVERLAP = timedelta(minutes=1)
"""How far rounds overlap: visibility lists lag behind."""

LONGEST_WAIT = timedelta(days=1)
"""How long the sweep waits for a thread that does not answer."""

_CLOSED_QUERY = "ExecutionStatus IN ('Completed', 'Terminated', 'Failed', 'TimedOut', 'Canceled')"
_CLOSED = {WorkflowExecutionStatus.COMPLETED, *CLOSED_FROM_OUTSIDE}


def utc_now() -> datetime:
    return datetime.now(UTC)


class ResetSweep:
    """Finds threads that were reset or woken, and reports the ends of their children that they have missed."""

    def __init__(
        self, reader: ThreadReader, task_queue: str, *, grace: timedelta = GRACE, now: Callable[[], datetime] = utc_now
    ) -> None:
        self._reader = reader
        self._client = reader.temporal
        self._now = now
        self._scope = f"WorkflowType = '{names.WORKFLOW}' AND TaskQueue = {quoted(task_queue)}"
        self._grace = grace
        self._since = now() - FIRST_LOOKBACK
        self._seen: set[str] = set()
        """Run ids of executions that were checked for a reset or a wake."""
        self._reset: dict[str, datetime] = {}
        """Threads that may have missed ends, by id, and when each was reset or woken."""

    @property
    def has_unfinished(self) -> bool:
        """Whether a thread may still have to be sent ends."""
        return bool(self._reset)

    async def find(self) -> dict[str, datetime]:
        """The threads that were reset or woken since the last round, by id, and when.

        Raises:
            RPCError: the server refused a request, or is unreachable.
        """
        found = await self._find_resets()
        for thread_id, at in found.items():
            self._reset[thread_id] = max(at, self._reset.get(thread_id, at))
        return found

    async def report(self) -> None:
        """Report the ends that the threads found so far have missed, once those who should report them had their time.

        Raises:
            RPCError: the server refused a request, or is unreachable.
        """
        now = self._now()
        due = [thread_id for thread_id, reset_at in self._reset.items() if reset_at <= now - self._grace]
        for thread_id in due:
            is_too_old = self._reset[thread_id] < now - LONGEST_WAIT
            if await self._report_undone_ends(thread_id, closed_before=now - self._grace) or is_too_old:
                del self._reset[thread_id]

    async def _find_resets(self) -> dict[str, datetime]:
        """Threads whose newest execution continues a closed one that could not pass everything on."""
        now = self._now()
        started = await self._list(f"{self._scope} AND StartTime > '{self._since.isoformat()}'")
        new = [execution for execution in started if execution.run_id not in self._seen]
        closed = await self._closed_before(new)
        found: dict[str, datetime] = {}
        for execution in new:
            before = [each for each in closed.get(execution.id, ()) if _precedes(each, execution)]
            if before and await self._has_lost_signals(execution, max(before, key=lambda each: each.start_time)):
                found[execution.id] = max(execution.start_time, found.get(execution.id, execution.start_time))
        self._seen, self._since = {execution.run_id for execution in started}, now - OVERLAP
        return found

    async def _closed_before(self, started: Iterable[WorkflowExecution]) -> dict[str, list[WorkflowExecution]]:
        """The closed executions of these threads, but for those that continued as new: a new thread has none."""
        closed: dict[str, list[WorkflowExecution]] = {}
        for condition in any_of("WorkflowId", sorted({execution.id for execution in started})):
            for execution in await self._list(f"{condition} AND {_CLOSED_QUERY}"):
                closed.setdefault(execution.id, []).append(execution)
        return closed

    async def _has_lost_signals(self, execution: WorkflowExecution, before: WorkflowExecution) -> bool:
        """Whether the execution may not have been sent all that the one before it was sent, or would have been."""
        if was_closed_from_outside(before):
            return True
        memo = execution.raw_info.memo.fields
        woken_from = await Payloads(self._client.data_converter).text(memo.get(names.MEMO_WOKEN_FROM))
        # A thread that had ended and was woken has everything: the end of a task would have woken it.
        return woken_from != before.run_id and await self._was_reset(execution)

    async def _was_reset(self, execution: WorkflowExecution) -> bool:
        """Whether the execution's first event says that its history was copied."""
        handle = self._client.get_workflow_handle(execution.id, run_id=execution.run_id)
        try:
            async for event in handle.fetch_history_events(page_size=1):
                started = event.workflow_execution_started_event_attributes
                return started.original_execution_run_id not in ("", execution.run_id)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
        return False

    async def _report_undone_ends(self, thread_id: str, *, closed_before: datetime) -> bool:
        """Report the end of every closed child that the thread counts as running; False if some must be tried again."""
        thread = await describe_execution(self._client, thread_id)
        if thread is None or was_closed_from_outside(thread):
            return True
        (view,) = await Statuses(self._client).of([thread])
        if not isinstance(view, StatusView) or view.runs == 0:  # it does not answer, or is being woken
            return False
        is_done = True
        for child in await self._children(view.children):
            if child.status not in _CLOSED or child.close_time is None:
                continue
            if child.close_time > closed_before:
                is_done = False  # its own signal may still arrive
            elif result := await self._result(child, view):
                is_done = await report_end(self._reader, thread_id, result) and is_done
        return is_done

    async def _result(self, child: WorkflowExecution, parent: StatusView) -> ChildResult | None:
        in_its_place = result_in_place_of(child, parent)
        if in_its_place is None or was_closed_from_outside(child):
            return in_its_place
        return await signalled_result(self._client, child) or in_its_place

    async def _children(self, thread_ids: Collection[str]) -> list[WorkflowExecution]:
        """The newest execution of each that its parent started; executions that a message woke report no end."""
        newest: dict[str, WorkflowExecution] = {}
        for condition in any_of("WorkflowId", sorted(thread_ids)):
            executions = await self._list(f"{condition} AND ParentWorkflowId IS NOT NULL")
            for execution in sorted(executions, key=lambda execution: execution.start_time):
                newest[execution.id] = execution
        return [newest[thread_id] for thread_id in thread_ids if thread_id in newest]

    async def _list(self, query: str) -> list[WorkflowExecution]:
        return [execution async for execution in self._client.list_workflows(query)]


def _precedes(closed: WorkflowExecution, execution: WorkflowExecution) -> bool:
    return closed.run_id != execution.run_id and closed.start_time <= execution.start_time
