"""The part of the sweep that looks after threads which were reset, as a rewind does.

What their children told after the point is undone with the rest. Whoever rewinds tells the ends again; if that process
dies, or somebody else has reset the thread, the workers do. A child's own history still has what it said.
"""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.queries import MAX_CONCURRENT_QUERIES, StatusQueries, quoted
from wakeful.contract import names
from wakeful.contract.subagents import ChildResult
from wakeful.contract.views import StatusView
from wakeful_activities.sweep.child_ends import ENDED_FROM_OUTSIDE, is_told, last_word, own_word

GRACE = timedelta(seconds=10)
"""How long whoever has reset a thread, or a child that has just ended, is given to speak for itself."""

FIRST_LOOKBACK = timedelta(hours=1)
"""How far back a worker that has just come up looks for new executions; each is looked at once."""
OVERLAP = timedelta(minutes=1)
"""How far rounds overlap: lists come some time after what they list."""

_ENDED = {WorkflowExecutionStatus.COMPLETED, *ENDED_FROM_OUTSIDE}


class ResetSweep:
    """The executions that one worker has seen begin, and the reset threads that may not have heard of all ends yet."""

    def __init__(self, client: Client, task_queue: str, *, grace: timedelta = GRACE) -> None:
        self._client = client
        self._scope = f"WorkflowType = '{names.WORKFLOW}' AND TaskQueue = {quoted(task_queue)}"
        self._grace = grace
        self._since = datetime.now(UTC) - FIRST_LOOKBACK
        self._seen: set[str] = set()
        """Run ids of executions that are no news."""
        self._doubtful: dict[str, datetime] = {}
        """Threads that were reset, and when."""

    async def sweep(self) -> None:
        """Look once.

        Raises:
            RPCError: the server refused, or is away.
        """
        now = datetime.now(UTC)
        await self._find_resets()
        self._since = now - OVERLAP
        due = [thread_id for thread_id, reset in self._doubtful.items() if reset <= now - self._grace]
        for thread_id in due:
            if await self._has_heard(thread_id, ended_before=now - self._grace):
                del self._doubtful[thread_id]

    async def _find_resets(self) -> None:
        began = await self._list(f"{self._scope} AND StartTime > '{self._since.isoformat()}'")
        new = [execution for execution in began if execution.run_id not in self._seen]
        turn = asyncio.Semaphore(MAX_CONCURRENT_QUERIES)

        async def looked_at(execution: WorkflowExecution) -> bool:
            async with turn:
                return await self._was_reset(execution)

        for execution, was_reset in zip(new, await asyncio.gather(*map(looked_at, new)), strict=True):
            if was_reset:
                newest = self._doubtful.get(execution.id, execution.start_time)
                self._doubtful[execution.id] = max(newest, execution.start_time)
        self._seen = {execution.run_id for execution in began}

    async def _was_reset(self, execution: WorkflowExecution) -> bool:
        """Whether its history begins with that of another one, by its first event."""
        handle = self._client.get_workflow_handle(execution.id, run_id=execution.run_id)
        try:
            async for event in handle.fetch_history_events(page_size=1):
                began = event.workflow_execution_started_event_attributes
                return began.original_execution_run_id not in ("", execution.run_id)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
        return False

    async def _has_heard(self, thread_id: str, *, ended_before: datetime) -> bool:
        """Whether nothing is left to be told: of each child that it counts as running, it knows, or is told now."""
        thread = await self._newest(thread_id)
        if thread is None or thread.status in ENDED_FROM_OUTSIDE:
            return True
        (view,) = await StatusQueries(self._client).statuses([thread])
        if not isinstance(view, StatusView) or view.runs == 0:  # it does not answer, or is just being woken
            return False
        has_heard = True
        for child in await self._children(view.children):
            if child.status not in _ENDED or child.close_time is None:
                continue
            if child.close_time > ended_before:
                has_heard = False  # what it said may be on its way
            elif word := await self._word(child, view):
                has_heard = await is_told(self._client, thread_id, word) and has_heard
        return has_heard

    async def _word(self, child: WorkflowExecution, parent: StatusView) -> ChildResult | None:
        if (in_its_place := last_word(child, parent)) is None or child.status in ENDED_FROM_OUTSIDE:
            return in_its_place
        return await own_word(self._client, child) or in_its_place

    async def _children(self, thread_ids: Iterable[str]) -> list[WorkflowExecution]:
        """The newest execution of each that was started by its parent: one that was woken since has nothing to tell."""
        found = []
        for thread_id in thread_ids:
            executions = await self._list(f"WorkflowId = {quoted(thread_id)} AND ParentWorkflowId IS NOT NULL")
            found += sorted(executions, key=lambda execution: execution.start_time)[-1:]
        return found

    async def _newest(self, thread_id: str) -> WorkflowExecution | None:
        try:
            return await self._client.get_workflow_handle(thread_id).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return None

    async def _list(self, query: str) -> list[WorkflowExecution]:
        return [execution async for execution in self._client.list_workflows(query)]
