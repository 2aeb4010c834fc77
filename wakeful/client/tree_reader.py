"""Find the descendants of a thread and read the status of each.

Temporal's visibility lists the threads and their parents, and their histories have the rest. Visibility is
eventually consistent: a child that a status names and no list has yet is described by its id.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime

from temporalio.client import WorkflowExecution, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.diagnosis import server_answers
from wakeful.client.queries import QUERY_TIMEOUT, in_tree
from wakeful.client.statuses import Statuses, Unanswered
from wakeful.client.thread_reader import ThreadReader
from wakeful.client.tree import KnownThread, RemoteTask, TreeNode, build_tree
from wakeful.contract import names
from wakeful.contract.runs import RunResult, RunStatus
from wakeful.contract.views import CALLING_REMOTE, StatusView
from wakeful.history.close_states import has_ended, read_result
from wakeful.rpc_errors import error_of
from wakeful.undecodable import check_decodable

_AGENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT)
_STATUS = SearchAttributeKey.for_keyword(names.ATTRIBUTE_STATUS)
_PENDING = SearchAttributeKey.for_keyword_list(names.ATTRIBUTE_PENDING)

_CLOSED_WITHOUT_RESULT = {
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.CANCELED: "cancelled",
    WorkflowExecutionStatus.TERMINATED: "terminated",
    WorkflowExecutionStatus.TIMED_OUT: "timed out",
}
_OPEN = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW)


class TreeReader:
    """Reads trees, also repeatedly: a run that has ended is read once."""

    def __init__(self, reader: ThreadReader) -> None:
        self._reader = reader
        self._temporal = reader.temporal
        self._ended: dict[tuple[str, str], KnownThread] = {}

    async def read(self, thread_id: str) -> TreeNode:
        """The tree whose root is this thread, as it is now.

        Raises:
            ThreadNotFound: no workflow has this id.
            CannotDecode: it needs a payload codec, and this client has none.
        """
        try:
            described = await self._temporal.get_workflow_handle(thread_id).describe()
            listed = [found async for found in self._temporal.list_workflows(in_tree(thread_id, described.root_id))]
        except RPCError as error:
            raise error_of(error, thread_id) from error
        check_decodable(self._temporal.data_converter, described)
        executions, parents = _tree_executions(thread_id, [described, *listed])
        statuses = Statuses(self._temporal, reader=self._reader)
        known: dict[str, KnownThread] = {}
        while executions:
            for thread in await self._read_threads(statuses, executions, parents):
                known[thread.thread_id] = thread
            named = {
                child: thread.thread_id for thread in known.values() if thread.view for child in thread.view.children
            }
            missing = {child: parent for child, parent in named.items() if child not in known}
            parents |= missing
            executions = []
            for child, found in zip(missing, await self._describe_all(list(missing)), strict=True):
                if found is None:
                    known[child] = KnownThread(child, parent_id=missing[child])
                else:
                    executions.append(found)
        return build_tree(thread_id, known)

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

    async def _read_threads(
        self, statuses: Statuses, executions: list[WorkflowExecution], parents: dict[str, str]
    ) -> list[KnownThread]:
        ended = [self._ended[_key(each)] for each in executions if _key(each) in self._ended]
        rest = [each for each in executions if _key(each) not in self._ended]
        runs = [each for each in rest if each.workflow_type == names.WORKFLOW]
        tools = [_known(each, parents.get(each.id)) for each in rest if each.workflow_type != names.WORKFLOW]
        answers = await statuses.of(runs)
        answered = [
            await self._with_answer(each, parents.get(each.id), answer)
            for each, answer in zip(runs, answers, strict=True)
        ]
        return [*ended, *tools, *answered]

    async def _with_answer(
        self, execution: WorkflowExecution, parent_id: str | None, answer: StatusView | Unanswered | None
    ) -> KnownThread:
        is_closed = execution.status not in _OPEN
        if isinstance(answer, StatusView):
            known = _known(execution, parent_id, view=answer)
            if not is_closed and answer.doing.startswith(CALLING_REMOTE):
                known = replace(known, remote=await self._remote_task(execution))
            if is_closed and (known.ended_by_temporal or answer.status is RunStatus.DONE):
                self._ended[_key(execution)] = known
            return known
        result = await read_result(self._temporal, execution, within=QUERY_TIMEOUT) if has_ended(execution) else None
        if result is not None:
            self._ended[_key(execution)] = known = _known(execution, parent_id, result=result)
            return known
        reason = answer.reason if answer else "the server has deleted it"
        return _known(execution, parent_id, unknown=reason if _ended_by_temporal(execution) is None else None)

    async def _remote_task(self, execution: WorkflowExecution) -> RemoteTask | None:
        """What the pending call of a remote agent has heartbeated."""
        try:
            described = await self._temporal.get_workflow_handle(execution.id).describe(rpc_timeout=QUERY_TIMEOUT)
        except RPCError:
            return None
        for pending in described.raw_description.pending_activities:
            activity = await server_answers.activity(self._temporal, pending)
            if (progress := activity.remote) is not None:
                return RemoteTask(
                    service=progress.service,
                    task_id=progress.task_id,
                    state=progress.state,
                    since=progress.state_since,
                    next_poll=activity.next_attempt_at,
                )
        return None

    async def _describe_all(self, threads: list[str]) -> list[WorkflowExecution | None]:
        return list(await asyncio.gather(*(self._describe(thread) for thread in threads)))

    async def _describe(self, thread_id: str) -> WorkflowExecution | None:
        try:
            return await self._temporal.get_workflow_handle(thread_id).describe(rpc_timeout=QUERY_TIMEOUT)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise error_of(error, thread_id) from error


def _tree_executions(
    thread_id: str, executions: list[WorkflowExecution]
) -> tuple[list[WorkflowExecution], dict[str, str]]:
    """The newest executions of the thread and of its descendants, and the parent of each thread."""
    newest: dict[str, WorkflowExecution] = {}
    parents: dict[str, str] = {}
    for execution in executions:
        if execution.id not in newest or execution.start_time > newest[execution.id].start_time:
            newest[execution.id] = execution
        if execution.parent_id is not None:  # the execution that wakes a thread has no parent: an older one had
            parents.setdefault(execution.id, execution.parent_id)
    return [each for each in newest.values() if _is_in_tree(each.id, thread_id, parents)], parents


def _is_in_tree(id: str, root: str, parents: dict[str, str]) -> bool:
    ancestor: str | None = id
    while ancestor is not None and ancestor != root:
        ancestor = parents.get(ancestor)
    return ancestor is not None


def _key(execution: WorkflowExecution) -> tuple[str, str]:
    return execution.id, execution.run_id


def _known(
    execution: WorkflowExecution,
    parent_id: str | None,
    *,
    view: StatusView | None = None,
    result: RunResult | None = None,
    unknown: str | None = None,
) -> KnownThread:
    attributes = execution.typed_search_attributes
    is_open = execution.status in _OPEN
    attribute = attributes.get(_STATUS)
    return KnownThread(
        execution.id,
        parent_id=parent_id or (view.identity.parent_thread_id if view else None),
        is_tool=execution.workflow_type == names.WORKFLOW_TOOL_TASK,
        run_id=execution.run_id,
        agent_id=attributes.get(_AGENT) or "",
        status=(RunStatus.WAITING if attribute == RunStatus.WAITING else RunStatus.RUNNING)
        if is_open
        else RunStatus.DONE,
        ended_by_temporal=_ended_by_temporal(execution),
        calls=tuple(attributes.get(_PENDING) or ()) if is_open else (),
        started_at=_millis(execution.start_time),
        view=view,
        result=result,
        unknown=unknown,
    )


def _ended_by_temporal(execution: WorkflowExecution) -> str | None:
    """How Temporal closed the execution, in place of its workflow."""
    if execution.status is None or has_ended(execution):
        return None
    return _CLOSED_WITHOUT_RESULT.get(execution.status)


def _millis(time: datetime) -> int:
    return int(time.timestamp() * 1000)
