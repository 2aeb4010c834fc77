"""The sweep: cancel sub-agents whose parents ended without cancelling them, and report ends that parents have missed.

A thread that Wakeful cancels cancels its children by signals. Terminating, resetting or timing out a workflow sends no
signal, and an execution that continued as new has lost the handles of its children. So every worker regularly checks
Temporal's visibility lists. The sweep writes to no history unless it has something to repair. `resets.py` is the part
for threads that were reset, and `child_ends.py` reports a child's end.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from enum import Enum

from temporalio.client import WorkflowExecution, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.statuses import MAX_CONCURRENT_READS, Statuses
from wakeful.client.thread_reader import ThreadReader
from wakeful.contract import names
from wakeful.contract.errors import WakefulError
from wakeful.contract.views import StatusView
from wakeful.history.list_queries import quoted
from wakeful.rpc_errors import describe_execution
from wakeful_activities.sweep.child_ends import CLOSED_FROM_OUTSIDE, report_end, result_in_place_of
from wakeful_activities.sweep.resets import GRACE, ResetSweep, utc_now

PARENT_ENDED = "its parent has ended"
UNKNOWN_TO_PARENT = "its parent no longer knows it"

LOOKBACK = timedelta(minutes=15)
"""How far back a round looks for closed children."""
FIRST_LOOKBACK = timedelta(days=1)
"""The same for a worker's first round: perhaps no worker has been running for a while."""

_CHILDREN = f"WorkflowType IN ('{names.WORKFLOW}', '{names.WORKFLOW_TOOL_TASK}') AND ParentWorkflowId IS NOT NULL"
_CLOSED = "ExecutionStatus IN ('Terminated', 'Failed', 'TimedOut', 'Canceled')"

_logger = logging.getLogger("wakeful")

Parents = dict[str, WorkflowExecution | None]
"""The newest execution of each parent, by thread id; None if there is none any more."""


@contextlib.asynccontextmanager
async def sweeping(
    reader: ThreadReader, task_queue: str, interval: timedelta | None, *, jitter: Callable[[], float] = random.random
) -> AsyncIterator[None]:
    """Sweep about every `interval` while the body runs; None means never."""
    if interval is None:
        yield
        return
    task = asyncio.create_task(_sweep_forever(OrphanSweep(reader, task_queue), interval, jitter))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class Assessment(Enum):
    """Whether an open child is an orphan, as far as its parent's newest execution shows."""

    NO_ORPHAN = "no orphan"
    ORPHAN = "orphan"
    UNLESS_TASK = "orphan, unless it is a background task"
    """The parent completed: the end of a task will wake it, but nothing waits for a delegate."""
    UNLESS_KNOWN = "orphan, unless its parent knows it"
    """The parent continued as new, was woken, or was reset to before it had the child."""


def assess(child: WorkflowExecution, parent: WorkflowExecution | None) -> Assessment:
    """Whether an open child is an orphan, if `parent` is the newest execution of its parent."""
    if parent is None or parent.status in CLOSED_FROM_OUTSIDE:
        return Assessment.ORPHAN
    if parent.status is WorkflowExecutionStatus.COMPLETED:
        is_tool_task = child.workflow_type == names.WORKFLOW_TOOL_TASK
        return Assessment.NO_ORPHAN if is_tool_task else Assessment.UNLESS_TASK
    return Assessment.NO_ORPHAN if parent.run_id == child.parent_run_id else Assessment.UNLESS_KNOWN


def may_have_missed_end(child: WorkflowExecution, parent: WorkflowExecution | None) -> bool:
    """Whether the parent may still wait for a child that was closed from outside.

    The execution that started the child has its handle, which reports the end.
    """
    if parent is None or parent.status in CLOSED_FROM_OUTSIDE:
        return False
    return parent.status is WorkflowExecutionStatus.COMPLETED or parent.run_id != child.parent_run_id


class OrphanSweep:
    """The sweep of one worker, with what it has seen in earlier rounds."""

    def __init__(
        self, reader: ThreadReader, task_queue: str, *, grace: timedelta = GRACE, now: Callable[[], datetime] = utc_now
    ) -> None:
        self._reader = reader
        self._client = reader.temporal
        self._now = now
        self._resets = ResetSweep(reader, task_queue, grace=grace, now=now)
        self._scope = f"{_CHILDREN} AND TaskQueue = {quoted(task_queue)}"
        self._lookback = FIRST_LOOKBACK
        self._checked: set[tuple[str, str]] = set()
        """Open children that need no further check while their parent's execution stays the same (`_key`)."""
        self._unknown: set[tuple[str, str]] = set()
        """Open children that their parent did not know in an earlier round."""
        self._reported: set[tuple[str, str]] = set()
        """Closed children, by id and run id, whose ends their parents know."""

    async def sweep(self) -> None:
        """Do one round.

        Raises:
            RPCError: the server refused a request, or is unreachable.
        """
        await self._cancel_orphans(await self._list("ExecutionStatus = 'Running'"))
        since = self._now() - self._lookback
        await self._report_ends(await self._list(f"{_CLOSED} AND CloseTime > '{since.isoformat()}'"))
        self._lookback = LOOKBACK
        await self._resets.sweep()

    async def _cancel_orphans(self, children: Sequence[WorkflowExecution]) -> None:
        parents = await self._parents(children)
        by_key = {_key(child, parents): child for child in children}
        self._checked &= by_key.keys()
        self._unknown &= by_key.keys()
        assessed: dict[Assessment, list[WorkflowExecution]] = {assessment: [] for assessment in Assessment}
        for key, child in by_key.items():
            if key not in self._checked:
                assessed[assess(child, parents[child.parent_id or ""])].append(child)
        orphans = [(child, PARENT_ENDED) for child in assessed[Assessment.ORPHAN]]
        delegates = await self._delegates(assessed[Assessment.UNLESS_TASK], parents)
        orphans += [(child, PARENT_ENDED) for child in delegates]
        unknown = await self._unknown_to_parents(assessed[Assessment.UNLESS_KNOWN], parents)
        orphans += [(child, UNKNOWN_TO_PARENT) for child in unknown]
        for child, reason in orphans:
            await self._cancel(child, reason)
            self._checked.add(_key(child, parents))

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

    async def _report_ends(self, closed: Sequence[WorkflowExecution]) -> None:
        self._reported &= {(child.id, child.run_id) for child in closed}
        new = [child for child in closed if (child.id, child.run_id) not in self._reported]
        parents = await self._parents(new)
        missed = [child for child in new if may_have_missed_end(child, parents[child.parent_id or ""])]
        views = await self._views(missed, parents)
        unreported = {(child.id, child.run_id) for child in missed}
        for child in missed:
            view = views.get(child.parent_id or "")
            if view is None or view.runs == 0:
                continue
            result = result_in_place_of(child, view)
            if (
                result is None
                or await self._was_reset(child)
                or await report_end(self._reader, view.identity.thread_id, result)
            ):
                unreported.discard((child.id, child.run_id))
        self._reported |= {(child.id, child.run_id) for child in new} - unreported

    async def _was_reset(self, child: WorkflowExecution) -> bool:
        """Whether a reset terminated the execution: the newer one has the same parent, and reports its own end to it.

        An execution that a message woke has no parent, and reports no end.
        """
        newest = await describe_execution(self._client, child.id)
        return newest is not None and newest.run_id != child.run_id and newest.parent_id is not None

    async def _list(self, condition: str) -> list[WorkflowExecution]:
        return [execution async for execution in self._client.list_workflows(f"{self._scope} AND {condition}")]

    async def _parents(self, children: Iterable[WorkflowExecution]) -> Parents:
        listed = {child.id: child for child in children}
        parent_ids = sorted({child.parent_id or "" for child in listed.values()})
        limit = asyncio.Semaphore(MAX_CONCURRENT_READS)

        async def described(id: str) -> WorkflowExecution | None:
            if (known := listed.get(id)) is not None and known.status is WorkflowExecutionStatus.RUNNING:
                return known
            async with limit:
                return await describe_execution(self._client, id)

        return dict(zip(parent_ids, await asyncio.gather(*map(described, parent_ids)), strict=True))

    async def _views(self, children: Iterable[WorkflowExecution], parents: Parents) -> dict[str, StatusView]:
        """The status of these children's parents, by id; a parent that does not answer is absent."""
        queried = {parent.id: parent for child in children if (parent := parents[child.parent_id or ""]) is not None}
        answers = await Statuses(self._client).of(queried.values())
        return {id: view for id, view in zip(queried, answers, strict=True) if isinstance(view, StatusView)}


def _key(child: WorkflowExecution, parents: Parents) -> tuple[str, str]:
    """The child, and its parent's execution: if that changes, the child is checked again."""
    parent = parents[child.parent_id or ""]
    return child.id, "" if parent is None else f"{parent.run_id} {parent.status}"


async def _sweep_forever(sweep: OrphanSweep, interval: timedelta, jitter: Callable[[], float]) -> None:
    has_failed = False
    while True:
        # Jitter: the workers of a task queue should not all find the same orphan at the same time.
        await asyncio.sleep(interval.total_seconds() * (0.5 + jitter()))
        try:
            await sweep.sweep()
            has_failed = False
        except Exception as error:  # a failed sweep must not stop the worker; logged once, until a sweep succeeds
            if not has_failed:
                _logger.warning("orphan sweep failed", extra={"reason": str(error)}, exc_info=_unexpected(error))
            has_failed = True


def _unexpected(error: Exception) -> Exception | None:
    """The error, if its traceback is worth logging."""
    return None if isinstance(error, RPCError | WakefulError) else error
