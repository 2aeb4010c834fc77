"""Find the threads below a thread and ask each where it stands.

Temporal's visibility lists who was started by whom, and the threads themselves say the rest. Visibility lags by
moments: a child that a status names already and no list has yet is looked up by its id.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.queries import PATIENCE, StatusQueries, Unanswered, in_tree
from wakeful.client.tree import Seen, TreeNode, grown
from wakeful.contract import names
from wakeful.contract.runs import RunResult, RunStatus
from wakeful.contract.views import StatusView
from wakeful.rpc_errors import error_of

_AGENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT)
_STATUS = SearchAttributeKey.for_keyword(names.ATTRIBUTE_STATUS)
_PENDING = SearchAttributeKey.for_keyword_list(names.ATTRIBUTE_PENDING)

_BROKEN = {
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.CANCELED: "cancelled",
    WorkflowExecutionStatus.TERMINATED: "terminated",
    WorkflowExecutionStatus.TIMED_OUT: "timed out",
}
_OPEN = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW)


class TreeReader:
    """Reads trees, also again and again: a run that has ended is asked once."""

    def __init__(self, temporal: Client) -> None:
        self._temporal = temporal
        self._ended: dict[tuple[str, str], Seen] = {}

    async def read(self, thread_id: str) -> TreeNode:
        """The tree from a thread down, as it stands now.

        Raises:
            ThreadNotFound: no workflow has this id.
        """
        try:
            described = await self._temporal.get_workflow_handle(thread_id).describe()
            listed = [found async for found in self._temporal.list_workflows(in_tree(thread_id, described.root_id))]
        except RPCError as error:
            raise error_of(error, thread_id) from error
        executions, parents = _family(thread_id, [described, *listed])
        asking = StatusQueries(self._temporal)
        seen: dict[str, Seen] = {}
        while executions:
            for known in await self._asked(asking, executions, parents):
                seen[known.thread_id] = known
            named = {child: known.thread_id for known in seen.values() if known.view for child in known.view.children}
            missing = {child: parent for child, parent in named.items() if child not in seen}
            parents |= missing
            executions = []
            for child, found in zip(missing, await self._described(list(missing)), strict=True):
                if found is None:
                    seen[child] = Seen(child, parent_id=missing[child])
                else:
                    executions.append(found)
        return grown(thread_id, seen)

    async def watch(self, thread_id: str, *, every: float) -> AsyncIterator[TreeNode]:
        """The tree, and again whenever it has changed, until its root has ended."""
        shown: TreeNode | None = None
        while shown is None or shown.status is not RunStatus.DONE:
            if shown is not None:
                await asyncio.sleep(every)
            tree = await self.read(thread_id)
            if tree != shown:
                yield tree
            shown = tree

    async def _asked(
        self, asking: StatusQueries, executions: list[WorkflowExecution], parents: dict[str, str]
    ) -> list[Seen]:
        remembered = [self._ended[_key(each)] for each in executions if _key(each) in self._ended]
        rest = [each for each in executions if _key(each) not in self._ended]
        runs = [each for each in rest if each.workflow_type == names.WORKFLOW]
        tools = [_seen(each, parents.get(each.id)) for each in rest if each.workflow_type != names.WORKFLOW]
        answers = await asking.statuses(runs)
        told = [
            await self._heard(each, parents.get(each.id), answer) for each, answer in zip(runs, answers, strict=True)
        ]
        return [*remembered, *tools, *told]

    async def _heard(
        self, execution: WorkflowExecution, parent_id: str | None, answer: StatusView | Unanswered | None
    ) -> Seen:
        is_closed = execution.status not in _OPEN
        if isinstance(answer, StatusView):
            known = _seen(execution, parent_id, view=answer)
            if is_closed and (known.broken or answer.status is RunStatus.DONE):
                self._ended[_key(execution)] = known
            return known
        if execution.status is WorkflowExecutionStatus.COMPLETED and (result := await self._result(execution)):
            self._ended[_key(execution)] = known = _seen(execution, parent_id, result=result)
            return known
        reason = answer.reason if answer else "it is gone"
        return _seen(execution, parent_id, unknown=None if is_closed and execution.status in _BROKEN else reason)

    async def _result(self, execution: WorkflowExecution) -> RunResult | None:
        """What a run ended as, which history says without a worker."""
        handle = self._temporal.get_workflow_handle(execution.id, run_id=execution.run_id, result_type=RunResult)
        try:
            result: RunResult = await handle.result(follow_runs=False, rpc_timeout=PATIENCE)
            return result
        except (WorkflowFailureError, RPCError):
            return None

    async def _described(self, threads: list[str]) -> list[WorkflowExecution | None]:
        return list(await asyncio.gather(*(self._describe(thread) for thread in threads)))

    async def _describe(self, thread_id: str) -> WorkflowExecution | None:
        try:
            return await self._temporal.get_workflow_handle(thread_id).describe(rpc_timeout=PATIENCE)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise error_of(error, thread_id) from error


def _family(thread_id: str, executions: list[WorkflowExecution]) -> tuple[list[WorkflowExecution], dict[str, str]]:
    """The newest execution of the thread and of each thread below it, and who stands above whom."""
    newest: dict[str, WorkflowExecution] = {}
    parents: dict[str, str] = {}
    for execution in executions:
        if execution.id not in newest or execution.start_time > newest[execution.id].start_time:
            newest[execution.id] = execution
        if execution.parent_id is not None:  # an execution that woke a thread has none: an older one had
            parents.setdefault(execution.id, execution.parent_id)
    return [each for each in newest.values() if _stands_below(each.id, thread_id, parents)], parents


def _stands_below(id: str, thread_id: str, parents: dict[str, str]) -> bool:
    above: str | None = id
    while above is not None and above != thread_id:
        above = parents.get(above)
    return above is not None


def _key(execution: WorkflowExecution) -> tuple[str, str]:
    return execution.id, execution.run_id


def _seen(
    execution: WorkflowExecution,
    parent_id: str | None,
    *,
    view: StatusView | None = None,
    result: RunResult | None = None,
    unknown: str | None = None,
) -> Seen:
    attributes = execution.typed_search_attributes
    is_open = execution.status in _OPEN
    shown = attributes.get(_STATUS)
    return Seen(
        execution.id,
        parent_id=parent_id or (view.identity.parent_thread_id if view else None),
        is_tool=execution.workflow_type == names.WORKFLOW_TOOL_TASK,
        run_id=execution.run_id,
        agent_id=attributes.get(_AGENT) or "",
        status=(RunStatus.WAITING if shown == RunStatus.WAITING else RunStatus.RUNNING) if is_open else RunStatus.DONE,
        broken=_BROKEN.get(execution.status) if execution.status else None,
        calls=tuple(attributes.get(_PENDING) or ()) if is_open else (),
        started_at=_millis(execution.start_time),
        view=view,
        result=result,
        unknown=unknown,
    )


def _millis(time: datetime) -> int:
    return int(time.timestamp() * 1000)
