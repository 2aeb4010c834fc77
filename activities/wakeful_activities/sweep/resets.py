"""The part of the sweep for threads that were reset, as a rewind does, or woken.

A reset undoes the signals in which children reported their ends after the reset point. The client that rewinds a thread
reports those ends again; if its process dies, or another tool has reset the thread, the sweep does. A thread that was
terminated and is woken later still waits for tasks that ended in between, and could not report. A child's own history
still has the result that it signalled.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from temporalio.client import WorkflowExecution, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.statuses import MAX_CONCURRENT_READS, Statuses
from wakeful.client.thread_reader import ThreadReader
from wakeful.contract import names
from wakeful.contract.errors import CallerError
from wakeful.contract.subagents import ChildResult
from wakeful.contract.views import StatusView
from wakeful.history.decoder import Payloads
from wakeful.history.list_queries import quoted
from wakeful.rpc_errors import describe_execution
from wakeful_activities.sweep.child_ends import CLOSED_FROM_OUTSIDE, report_end, result_in_place_of, signalled_result

GRACE = timedelta(seconds=10)
"""How long the client that reset a thread, or a child that has just closed, has to report an end itself."""

FIRST_LOOKBACK = timedelta(hours=1)
"""How far back a worker's first round looks for new executions."""
OVERLAP = timedelta(minutes=1)
"""How far rounds overlap: visibility lists lag behind."""

RESTORE_FROM = "restore_from"
"""The field of a run request that names the closed execution which a woken thread continues."""

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

    async def sweep(self) -> None:
        """Do one round.

        Raises:
            RPCError: the server refused a request, or is unreachable.
        """
        now = self._now()
        await self._find_resets()
        self._since = now - OVERLAP
        due = [thread_id for thread_id, reset_at in self._reset.items() if reset_at <= now - self._grace]
        for thread_id in due:
            if await self._report_undone_ends(thread_id, closed_before=now - self._grace):
                del self._reset[thread_id]

    async def _find_resets(self) -> None:
        started = await self._list(f"{self._scope} AND StartTime > '{self._since.isoformat()}'")
        new = [execution for execution in started if execution.run_id not in self._seen]
        limit = asyncio.Semaphore(MAX_CONCURRENT_READS)

        async def was_reset(execution: WorkflowExecution) -> bool:
            async with limit:
                return await self._was_reset(execution)

        for execution, is_reset in zip(new, await asyncio.gather(*map(was_reset, new)), strict=True):
            if is_reset:
                newest = self._reset.get(execution.id, execution.start_time)
                self._reset[execution.id] = max(newest, execution.start_time)
        self._seen = {execution.run_id for execution in started}

    async def _was_reset(self, execution: WorkflowExecution) -> bool:
        """Whether the execution's first event says that its history was copied, or that it continues a closed one."""
        handle = self._client.get_workflow_handle(execution.id, run_id=execution.run_id)
        try:
            async for event in handle.fetch_history_events(page_size=1):
                started = event.workflow_execution_started_event_attributes
                if started.original_execution_run_id not in ("", execution.run_id):
                    return True
                with suppress(CallerError):  # it cannot be decoded, so it restores nothing
                    given = await Payloads(self._client.data_converter).json(started.input)
                    return isinstance(given, dict) and given.get(RESTORE_FROM) is not None
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
        return False

    async def _report_undone_ends(self, thread_id: str, *, closed_before: datetime) -> bool:
        """Report the end of every closed child that the thread counts as running; False if some must be tried again."""
        thread = await describe_execution(self._client, thread_id)
        if thread is None or thread.status in CLOSED_FROM_OUTSIDE:
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
        if in_its_place is None or child.status in CLOSED_FROM_OUTSIDE:
            return in_its_place
        return await signalled_result(self._client, child) or in_its_place

    async def _children(self, thread_ids: Iterable[str]) -> list[WorkflowExecution]:
        """The newest execution of each that its parent started; executions that a message woke report no end."""
        children = []
        for thread_id in thread_ids:
            executions = await self._list(f"WorkflowId = {quoted(thread_id)} AND ParentWorkflowId IS NOT NULL")
            children += sorted(executions, key=lambda execution: execution.start_time)[-1:]
        return children

    async def _list(self, query: str) -> list[WorkflowExecution]:
        return [execution async for execution in self._client.list_workflows(query)]
