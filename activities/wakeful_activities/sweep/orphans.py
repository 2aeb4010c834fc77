"""The sweep: cancel sub-agents whose parents ended without cancelling them, and report ends that parents have missed.

A thread that Wakeful cancels cancels its children by signals. Terminating, resetting or timing out a workflow sends no
signal, and an execution that continued as new has lost the handles of its children. So workers regularly list the
executions that were closed from outside, reset or woken since the last round, and look for *their* children: a round
costs the same however many sub-agents are asleep. The sweep writes to no history unless it has something to repair.

The parent is a thread of ours, or the sweep leaves its children alone: agents that a user's own workflow has started
belong to that workflow. `resets.py` is the part for threads that were reset or woken, `child_ends.py` reports a child's
end, and `rounds.py` says when a worker sweeps.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from enum import Enum

from temporalio.client import WorkflowExecution, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.statuses import MAX_CONCURRENT_READS, Statuses
from wakeful.client.thread_reader import ThreadReader
from wakeful.contract import names
from wakeful.contract.views import StatusView
from wakeful.history.close_states import has_ended
from wakeful.history.list_queries import any_of, quoted
from wakeful.rpc_errors import describe_execution
from wakeful_activities.sweep.child_ends import report_end, result_in_place_of, was_closed_from_outside
from wakeful_activities.sweep.ownership import owner_of
from wakeful_activities.sweep.resets import GRACE, OVERLAP, ResetSweep, utc_now

PARENT_ENDED = "its parent has ended"
UNKNOWN_TO_PARENT = "its parent no longer knows it"

FIRST_LOOKBACK = timedelta(days=1)
"""How far back a worker's first round looks for executions that were closed from outside: perhaps no worker has been
running for a while. It is also for how long the sweep tries to read a parent that does not answer."""

_OURS = f"WorkflowType IN ('{names.WORKFLOW}', '{names.WORKFLOW_TOOL_TASK}')"
_CLOSED = "ExecutionStatus IN ('Terminated', 'Failed', 'TimedOut', 'Canceled')"

_logger = logging.getLogger("wakeful")

Parents = dict[str, WorkflowExecution | None]
"""The newest execution of each parent, by thread id; None if there is none any more."""


class Assessment(Enum):
    """Whether an open child is an orphan, as far as its parent's newest execution shows."""

    NO_ORPHAN = "no orphan"
    ORPHAN = "orphan"
    UNLESS_TASK = "orphan, unless it is a background task"
    """The parent has ended: the end of a task will wake it, but nothing waits for a delegate."""
    UNLESS_KNOWN = "orphan, unless its parent knows it"
    """The parent continued as new, was woken, or was reset to before it had the child."""


def assess(child: WorkflowExecution, parent: WorkflowExecution | None) -> Assessment:
    """Whether an open child of a thread is an orphan, if `parent` is the newest execution of that thread."""
    if parent is None or was_closed_from_outside(parent):
        return Assessment.ORPHAN
    if has_ended(parent):
        is_tool_task = child.workflow_type == names.WORKFLOW_TOOL_TASK
        return Assessment.NO_ORPHAN if is_tool_task else Assessment.UNLESS_TASK
    return Assessment.NO_ORPHAN if parent.run_id == child.parent_run_id else Assessment.UNLESS_KNOWN


def may_have_missed_end(child: WorkflowExecution, parent: WorkflowExecution | None) -> bool:
    """Whether the parent may still wait for a child that was closed from outside.

    The execution that started the child has its handle, which reports the end. A workflow that is not ours waits for
    the child by its handle, too.
    """
    if parent is None or parent.workflow_type != names.WORKFLOW or was_closed_from_outside(parent):
        return False
    return has_ended(parent) or parent.run_id != child.parent_run_id


class OrphanSweep:
    """The sweep of one worker, with what it has seen in earlier rounds."""

    def __init__(
        self, reader: ThreadReader, task_queue: str, *, grace: timedelta = GRACE, now: Callable[[], datetime] = utc_now
    ) -> None:
        self._reader = reader
        self._client = reader.temporal
        self._now = now
        self._resets = ResetSweep(reader, task_queue, grace=grace, now=now)
        self._scope = f"{_OURS} AND TaskQueue = {quoted(task_queue)}"
        self._since = now() - FIRST_LOOKBACK
        self._seen: set[str] = set()
        """Run ids of executions that were closed from outside, as the last round listed them."""
        self._suspects: dict[str, datetime] = {}
        """Threads that were closed from outside, reset or woken, by id, and until when new children may be listed."""
        self._checked: set[tuple[str, str]] = set()
        """Open children that need no further check while their parent's execution stays the same (`_key`)."""
        self._unknown: set[tuple[str, str]] = set()
        """Open children that their parent did not know in an earlier round."""
        self._ended: dict[str, WorkflowExecution] = {}
        """Children that were closed from outside, by run id, whose parents may not know it."""

    @property
    def has_unfinished(self) -> bool:
        """Whether it has found something that the next round decides."""
        return bool(self._unknown or self._ended) or self._resets.has_unfinished

    async def sweep(self) -> None:
        """Do one round.

        Raises:
            RPCError: the server refused a request, or is unreachable.
        """
        await self._find_closed()
        self._suspect(await self._resets.find())
        await self._cancel_orphans()
        await self._report_ends()
        await self._resets.report()

    async def sweep_all(self) -> None:
        """Look at every open child: no list shows a parent that was deleted, or closed before the first lookback.

        Raises:
            RPCError: the server refused a request, or is unreachable.
        """
        children = await self._list("ExecutionStatus = 'Running' AND ParentWorkflowId IS NOT NULL")
        parents = await self._listed_parents(_parent_ids(children))
        for child in children:
            parent = parents[child.parent_id or ""]
            if parent is None:
                # Its type is gone with it, so the child says whose it is.
                if await owner_of(self._client, child) == child.parent_id:
                    await self._cancel(child, PARENT_ENDED)
            elif parent.workflow_type == names.WORKFLOW and parent.status is not WorkflowExecutionStatus.RUNNING:
                self._suspects[parent.id] = self._now()
        await self._cancel_orphans()

    async def _find_closed(self) -> None:
        now = self._now()
        closed = await self._list(f"{_CLOSED} AND CloseTime > '{self._since.isoformat()}'")
        unseen = [execution for execution in closed if execution.run_id not in self._seen]
        new = [execution for execution in unseen if was_closed_from_outside(execution)]
        self._ended |= {execution.run_id: execution for execution in new if execution.parent_id is not None}
        threads = [execution for execution in new if execution.workflow_type == names.WORKFLOW]
        self._suspect({thread.id: thread.close_time or now for thread in threads})
        self._seen, self._since = {execution.run_id for execution in closed}, now - OVERLAP

    def _suspect(self, disturbed: dict[str, datetime]) -> None:
        """Check the children of these threads: for a while, because a list lags behind."""
        for thread_id, at in disturbed.items():
            self._suspects[thread_id] = max(at + OVERLAP, self._suspects.get(thread_id, at))

    async def _cancel_orphans(self) -> None:
        """Cancel the orphans among the open children of all suspects, and drop the suspects that need no more check."""
        now, children = self._now(), await self._open_children(sorted(self._suspects))
        parents = await self._described(_parent_ids(children))
        by_key = {_key(child, parents): child for child in children}
        self._checked &= by_key.keys()
        self._unknown &= by_key.keys()
        assessed: dict[Assessment, list[WorkflowExecution]] = {assessment: [] for assessment in Assessment}
        for key, child in by_key.items():
            if key not in self._checked:
                assessed[assess(child, parents[child.parent_id or ""])].append(child)
        self._checked |= {_key(child, parents) for child in assessed[Assessment.NO_ORPHAN]}
        orphans = [(child, PARENT_ENDED) for child in assessed[Assessment.ORPHAN]]
        delegates = await self._delegates(assessed[Assessment.UNLESS_TASK], parents)
        orphans += [(child, PARENT_ENDED) for child in delegates]
        unknown = await self._unknown_to_parents(assessed[Assessment.UNLESS_KNOWN], parents)
        orphans += [(child, UNKNOWN_TO_PARENT) for child in unknown]
        for child, reason in orphans:
            await self._cancel(child, reason)
            self._checked.add(_key(child, parents))
        self._unknown -= self._checked
        undecided = {child.parent_id for key, child in by_key.items() if key not in self._checked}
        self._suspects = {
            thread_id: until
            for thread_id, until in self._suspects.items()
            if until > now or (thread_id in undecided and until > now - FIRST_LOOKBACK)
        }

    async def _delegates(self, children: Sequence[WorkflowExecution], parents: Parents) -> list[WorkflowExecution]:
        """The children that are not background tasks."""
        delegates = []
        for child, view in zip(children, await Statuses(self._client).of(children), strict=True):
            if not isinstance(view, StatusView):
                continue
            if view.identity.is_task:
                self._checked.add(_key(child, parents))
            else:
                delegates.append(child)
        return delegates

    async def _unknown_to_parents(
        self, children: Sequence[WorkflowExecution], parents: Parents
    ) -> list[WorkflowExecution]:
        """The children that their parents do not know, and did not know in the round before either."""
        unknown = []
        views = await self._views(children, parents)
        for child in children:
            key, view = _key(child, parents), views.get(child.parent_id or "")
            if view is None or view.runs == 0:  # a thread that is being woken does not have its carryover yet
                continue
            if child.id in view.children:
                self._checked.add(key)
            elif key in self._unknown:
                unknown.append(child)
            else:
                self._unknown.add(key)
        return unknown

    async def _cancel(self, child: WorkflowExecution, reason: str) -> None:
        _logger.info("orphan cancelled", extra={"thread_id": child.id, "reason": reason})
        try:
            await self._client.get_workflow_handle(child.id).signal(names.SIGNAL_CANCEL, {"reason": reason})
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:  # else it has just closed
                raise

    async def _report_ends(self) -> None:
        """Report the ends of children that were closed from outside, and keep those that have to be tried again."""
        now, ended = self._now(), list(self._ended.values())
        recent = [child for child in ended if (child.close_time or now) > now - OVERLAP]
        # A list is enough for what ended long ago, as a worker's first round may find in masses.
        parents = await self._listed_parents(_parent_ids(ended) - _parent_ids(recent))
        parents |= await self._described(_parent_ids(recent))
        missed = [child for child in ended if may_have_missed_end(child, parents[child.parent_id or ""])]
        views = await self._views(missed, parents)
        awaited = {child.run_id for child in missed}
        for child in ended:
            is_too_old = (child.close_time or now) < now - FIRST_LOOKBACK
            view = views.get(child.parent_id or "")
            if child.run_id not in awaited or await self._is_reported(child, view) or is_too_old:
                del self._ended[child.run_id]

    async def _is_reported(self, child: WorkflowExecution, parent: StatusView | None) -> bool:
        """Report the child's end to its parent; False if that must be tried again."""
        if parent is None or parent.runs == 0:
            return False
        result = result_in_place_of(child, parent)
        if result is None or await self._was_reset(child):
            return True
        return await report_end(self._reader, parent.identity.thread_id, result)

    async def _was_reset(self, child: WorkflowExecution) -> bool:
        """Whether a reset terminated the execution: the newer one has the same parent, and reports its own end to it.

        An execution that a message woke has no parent, and reports no end.
        """
        newest = await describe_execution(self._client, child.id)
        return newest is not None and newest.run_id != child.run_id and newest.parent_id is not None

    async def _open_children(self, thread_ids: Sequence[str]) -> list[WorkflowExecution]:
        """Our open children of these threads. A child that was woken has no parent any more, and belongs to itself."""
        found = []
        for condition in any_of("ParentWorkflowId", thread_ids):
            found += await self._list(f"ExecutionStatus = 'Running' AND {condition}")
        return found

    async def _list(self, condition: str) -> list[WorkflowExecution]:
        return [execution async for execution in self._client.list_workflows(f"{self._scope} AND {condition}")]

    async def _listed_parents(self, thread_ids: set[str]) -> Parents:
        """The newest execution of each, as lists show it; one that no list shows is described."""
        listed: Parents = {}
        for condition in any_of("WorkflowId", sorted(thread_ids)):
            async for execution in self._client.list_workflows(condition):
                newest = listed.get(execution.id)
                if newest is None or newest.start_time < execution.start_time:
                    listed[execution.id] = execution
        return listed | await self._described(thread_ids - listed.keys())

    async def _described(self, thread_ids: set[str]) -> Parents:
        limit = asyncio.Semaphore(MAX_CONCURRENT_READS)

        async def described(id: str) -> WorkflowExecution | None:
            async with limit:
                return await describe_execution(self._client, id)

        ids = sorted(thread_ids)
        return dict(zip(ids, await asyncio.gather(*map(described, ids)), strict=True))

    async def _views(self, children: Iterable[WorkflowExecution], parents: Parents) -> dict[str, StatusView]:
        """The status of these children's parents, by id; a parent that does not answer is absent."""
        queried = {parent.id: parent for child in children if (parent := parents[child.parent_id or ""]) is not None}
        answers = await Statuses(self._client).of(queried.values())
        return {id: view for id, view in zip(queried, answers, strict=True) if isinstance(view, StatusView)}


def _parent_ids(children: Iterable[WorkflowExecution]) -> set[str]:
    return {child.parent_id or "" for child in children}


def _key(child: WorkflowExecution, parents: Parents) -> tuple[str, str]:
    """The child, and its parent's execution: if that changes, the child is checked again."""
    parent = parents[child.parent_id or ""]
    return child.id, "" if parent is None else f"{parent.run_id} {parent.status}"
