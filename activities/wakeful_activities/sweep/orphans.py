"""The sweep: what is done about sub-agents whose parents, and parents whose sub-agents, were ended from outside.

Who is cancelled by Wakeful hears of it by signals. Terminating, resetting and timing out tell nobody, and an execution
that has continued as new has lost the handles of its children. So every worker looks, now and then, at the lists that
the server keeps anyway. Where nothing is wrong this leaves no trace in any history. `resets.py` is the part for threads
that were reset, `ends.py` says how a parent is told.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.queries import MAX_CONCURRENT_QUERIES, StatusQueries, quoted
from wakeful.contract import names
from wakeful.contract.errors import WakefulError
from wakeful.contract.views import StatusView
from wakeful_activities.sweep.child_ends import ENDED_FROM_OUTSIDE, is_told, last_word
from wakeful_activities.sweep.resets import GRACE, ResetSweep

PARENT_GONE = "its parent is gone"
FORGOTTEN = "its parent does not know it any more"

LOOKBACK = timedelta(minutes=15)
FIRST_LOOKBACK = timedelta(days=1)
"""How far back a worker that has just come up looks: perhaps none has been running for long."""

_OURS = f"WorkflowType IN ('{names.WORKFLOW}', '{names.WORKFLOW_TOOL_TASK}') AND ParentWorkflowId IS NOT NULL"
_CLOSED = "ExecutionStatus IN ('Terminated', 'Failed', 'TimedOut', 'Canceled')"

_logger = logging.getLogger("wakeful")


class Suspicion(Enum):
    """What an open child's parent makes one think."""

    NONE = "none"
    ORPHANED = "orphaned"
    UNLESS_TASK = "unless it is a background task"
    """The parent came to its own end: a task's end will wake it, but nobody waits for a delegate."""
    UNLESS_KNOWN = "unless its parent knows it"
    """The parent continued as new, was woken, or was reset to before it had the child."""


def suspicion(child: WorkflowExecution, parent: WorkflowExecution | None) -> Suspicion:
    """What to think of an open `child` whose parent's newest execution is this one."""
    if parent is None or parent.status in ENDED_FROM_OUTSIDE:
        return Suspicion.ORPHANED
    if parent.status is WorkflowExecutionStatus.COMPLETED:
        is_task = child.workflow_type == names.WORKFLOW_TOOL_TASK
        return Suspicion.NONE if is_task else Suspicion.UNLESS_TASK
    return Suspicion.NONE if parent.run_id == child.parent_run_id else Suspicion.UNLESS_KNOWN


def is_task(view: StatusView) -> bool:
    """The run is a background task itself, and not a delegate within one."""
    return view.identity.is_task


def may_not_hear(child: WorkflowExecution, parent: WorkflowExecution | None) -> bool:
    """Whether the parent may still wait for a `child` that was ended from outside: the one that began it was told."""
    if parent is None or parent.status in ENDED_FROM_OUTSIDE:
        return False
    return parent.status is WorkflowExecutionStatus.COMPLETED or parent.run_id != child.parent_run_id


class OrphanSweep:
    """What one worker has seen, from round to round."""

    def __init__(self, client: Client, task_queue: str, *, grace: timedelta = GRACE) -> None:
        self._client = client
        self._resets = ResetSweep(client, task_queue, grace=grace)
        self._scope = f"{_OURS} AND TaskQueue = {quoted(task_queue)}"
        self._lookback = FIRST_LOOKBACK
        self._settled: set[tuple[str, str]] = set()
        """Open children by their id and their parent's run id that need not be looked at again."""
        self._forgotten: set[tuple[str, str]] = set()
        """The same for those that their parent did not know when it was asked."""
        self._told: set[tuple[str, str]] = set()
        """Children that have ended, by id and run id, whose parents know."""

    async def sweep(self) -> None:
        """Look once.

        Raises:
            RPCError: the server refused, or is away.
        """
        await self._stop_orphans(await self._list("ExecutionStatus = 'Running'"))
        since = datetime.now(UTC) - self._lookback
        await self._tell_parents(await self._list(f"{_CLOSED} AND CloseTime > '{since.isoformat()}'"))
        self._lookback = LOOKBACK
        await self._resets.sweep()

    async def _stop_orphans(self, children: Sequence[WorkflowExecution]) -> None:
        parents = await self._parents(children)
        seen = {_pair(child, parents): child for child in children}
        self._settled &= seen.keys()
        self._forgotten &= seen.keys()
        doubts: dict[Suspicion, list[WorkflowExecution]] = {kind: [] for kind in Suspicion}
        for pair, child in seen.items():
            if pair not in self._settled:
                doubts[suspicion(child, parents[child.parent_id or ""])].append(child)
        orphans = [(child, PARENT_GONE) for child in doubts[Suspicion.ORPHANED]]
        orphans += [(child, PARENT_GONE) for child in await self._delegates(doubts[Suspicion.UNLESS_TASK], parents)]
        orphans += [(child, FORGOTTEN) for child in await self._unknown(doubts[Suspicion.UNLESS_KNOWN], parents)]
        for child, reason in orphans:
            await self._cancel(child, reason)
            self._settled.add(_pair(child, parents))

    async def _delegates(self, children: Sequence[WorkflowExecution], parents: "Parents") -> list[WorkflowExecution]:
        """Those that are no background tasks."""
        found = []
        for child, answer in zip(children, await StatusQueries(self._client).statuses(children), strict=True):
            if isinstance(answer, StatusView) and is_task(answer):
                self._settled.add(_pair(child, parents))
            elif isinstance(answer, StatusView):
                found.append(child)
        return found

    async def _unknown(self, children: Sequence[WorkflowExecution], parents: "Parents") -> list[WorkflowExecution]:
        """Those that their parents do not know, and did not know a round before either."""
        found = []
        views = await self._views(children, parents)
        for child in children:
            pair, view = _pair(child, parents), views.get(child.parent_id or "")
            if view is None or view.runs == 0:  # one that is just being woken does not know yet what it keeps
                continue
            if child.id in view.children:
                self._settled.add(pair)
            elif pair in self._forgotten:
                found.append(child)
            else:
                self._forgotten.add(pair)
        return found

    async def _tell_parents(self, closed: Sequence[WorkflowExecution]) -> None:
        self._told &= {(child.id, child.run_id) for child in closed}
        new = [child for child in closed if (child.id, child.run_id) not in self._told]
        parents = await self._parents(new)
        unheard = [child for child in new if may_not_hear(child, parents[child.parent_id or ""])]
        views = await self._views(unheard, parents)
        waiting = {(child.id, child.run_id) for child in unheard}
        for child in unheard:
            view = views.get(child.parent_id or "")
            if view is None or view.runs == 0:
                continue
            word = last_word(child, view)
            if word is None or await self._goes_on(child) or await is_told(self._client, view.identity.thread_id, word):
                waiting.discard((child.id, child.run_id))
        self._told |= {(child.id, child.run_id) for child in new} - waiting

    async def _goes_on(self, child: WorkflowExecution) -> bool:
        """Whether it has a newer execution, which speaks for itself: resetting terminates the one before."""
        newest = await self._describe(child.id)
        return newest is not None and newest.run_id != child.run_id

    async def _list(self, condition: str) -> list[WorkflowExecution]:
        return [execution async for execution in self._client.list_workflows(f"{self._scope} AND {condition}")]

    async def _parents(self, children: Iterable[WorkflowExecution]) -> "Parents":
        """The newest executions of their parents, by id."""
        listed = {child.id: child for child in children}
        wanted = sorted({child.parent_id or "" for child in listed.values()})
        turn = asyncio.Semaphore(MAX_CONCURRENT_QUERIES)

        async def described(id: str) -> WorkflowExecution | None:
            if (known := listed.get(id)) is not None and known.status is WorkflowExecutionStatus.RUNNING:
                return known
            async with turn:
                return await self._describe(id)

        return dict(zip(wanted, await asyncio.gather(*map(described, wanted)), strict=True))

    async def _describe(self, id: str) -> WorkflowExecution | None:
        try:
            return await self._client.get_workflow_handle(id).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return None

    async def _views(self, children: Iterable[WorkflowExecution], parents: "Parents") -> dict[str, StatusView]:
        """What the parents of these say of themselves; one that does not answer is asked again in the next round."""
        asked = {parent.id: parent for child in children if (parent := parents[child.parent_id or ""]) is not None}
        answers = await StatusQueries(self._client).statuses(asked.values())
        return {id: view for id, view in zip(asked, answers, strict=True) if isinstance(view, StatusView)}

    async def _cancel(self, child: WorkflowExecution, reason: str) -> None:
        _logger.info("orphan cancelled", extra={"thread_id": child.id, "reason": reason})
        try:
            await self._client.get_workflow_handle(child.id).signal(names.SIGNAL_CANCEL, {"reason": reason})
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:  # else it has just ended
                raise


Parents = dict[str, WorkflowExecution | None]


def _pair(child: WorkflowExecution, parents: Parents) -> tuple[str, str]:
    parent = parents[child.parent_id or ""]
    return child.id, "" if parent is None else f"{parent.run_id} {parent.status}"


@contextlib.asynccontextmanager
async def sweeping(
    client: Client, task_queue: str, interval: timedelta | None, *, chance: Callable[[], float] = random.random
) -> AsyncIterator[None]:
    """Sweep while the body runs, about every `interval`; never, without one."""
    if interval is None:
        yield
        return
    task = asyncio.create_task(_sweep_on(OrphanSweep(client, task_queue), interval, chance))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _sweep_on(sweep: OrphanSweep, interval: timedelta, chance: Callable[[], float]) -> None:
    is_well = True
    while True:
        # By chance, so that the workers of a queue do not all find the same orphan at the same moment.
        await asyncio.sleep(interval.total_seconds() * (0.5 + chance()))
        try:
            await sweep.sweep()
            is_well = True
        except Exception as error:  # whatever it is, the worker's own work goes on; said once, until it is well again
            if is_well:
                _logger.warning("orphans cannot be looked for", extra={"reason": str(error)}, exc_info=_bug(error))
            is_well = False


def _bug(error: Exception) -> Exception | None:
    """Only what we did not expect is told with its traceback."""
    return None if isinstance(error, RPCError | WakefulError) else error
