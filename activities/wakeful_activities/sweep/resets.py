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

from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import ListWorkflowExecutionsRequest
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

PAGE_SIZE = 1000
"""Executions that one list request returns."""

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
        started = await self._started()
        new = [listed for run_id, listed in started.items() if run_id not in self._seen]
        closed = await self._closed_before({listed.execution.workflow_id for listed in new})
        found: dict[str, datetime] = {}
        for listed in new:
            thread_id, at = listed.execution.workflow_id, _start_of(listed)
            before = [each for each in closed.get(thread_id, ()) if _precedes(each, listed)]
            if before and await self._has_lost_signals(listed, max(before, key=lambda each: each.start_time)):
                found[thread_id] = max(at, found.get(thread_id, at))
        self._seen, self._since = set(started), now - OVERLAP
        return found

    async def _started(self) -> dict[str, WorkflowExecutionInfo]:
        """The executions that have started since the last round, by run id, as the server lists them.

        Because rounds overlap, few of them are new: to decode the search attributes of all would take most of a round.
        """
        query = f"{self._scope} AND StartTime > '{self._since.isoformat()}'"
        request = ListWorkflowExecutionsRequest(namespace=self._client.namespace, query=query, page_size=PAGE_SIZE)
        started: dict[str, WorkflowExecutionInfo] = {}
        while True:
            page = await self._client.workflow_service.list_workflow_executions(request, retry=True)
            started |= {listed.execution.run_id: listed for listed in page.executions}
            if not page.next_page_token:
                return started
            request.next_page_token = page.next_page_token

    async def _closed_before(self, thread_ids: Iterable[str]) -> dict[str, list[WorkflowExecution]]:
        """The closed executions of these threads, but for those that continued as new: a new thread has none."""
        closed: dict[str, list[WorkflowExecution]] = {}
        for condition in any_of("WorkflowId", sorted(thread_ids)):
            for execution in await self._list(f"{condition} AND {_CLOSED_QUERY}"):
                closed.setdefault(execution.id, []).append(execution)
        return closed

    async def _has_lost_signals(self, listed: WorkflowExecutionInfo, before: WorkflowExecution) -> bool:
        """Whether the execution may not have been sent all that the one before it was sent, or would have been."""
        if was_closed_from_outside(before):
            return True
        memo = listed.memo.fields
        woken_from = await Payloads(self._client.data_converter).text(memo.get(names.MEMO_WOKEN_FROM))
        # A thread that had ended and was woken has everything: the end of a task would have woken it.
        return woken_from != before.run_id and await self._was_reset(listed)

    async def _was_reset(self, listed: WorkflowExecutionInfo) -> bool:
        """Whether the execution's first event says that its history was copied."""
        run_id = listed.execution.run_id
        handle = self._client.get_workflow_handle(listed.execution.workflow_id, run_id=run_id)
        try:
            async for event in handle.fetch_history_events(page_size=1):
                started = event.workflow_execution_started_event_attributes
                return started.original_execution_run_id not in ("", run_id)
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


def _start_of(listed: WorkflowExecutionInfo) -> datetime:
    return listed.start_time.ToDatetime(UTC)


def _precedes(closed: WorkflowExecution, listed: WorkflowExecutionInfo) -> bool:
    return closed.run_id != listed.execution.run_id and closed.start_time <= _start_of(listed)
