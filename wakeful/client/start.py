"""Start a run on a thread, and wait for its result."""

import uuid
from typing import Any

from temporalio.client import (
    Client,
    WorkflowContinuedAsNewError,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import CancelledError, TerminatedError, WorkflowAlreadyStartedError
from temporalio.service import RPCError

from wakeful.client.arguments import check_rules, check_thread_id
from wakeful.client.branching.rewind import has_continued
from wakeful.client.cancel import mode_of
from wakeful.client.queries import QUERY_TIMEOUT
from wakeful.client.thread_reader import ThreadReader
from wakeful.client.wake import Described, describe, is_closing, temporal_priority
from wakeful.client.watching.execution import Execution
from wakeful.client.watching.retrying import Retrier
from wakeful.client.watching.watcher import WatchContext
from wakeful.contract import names
from wakeful.contract.errors import (
    NotStarted,
    OtherTenant,
    ThreadBusy,
    ThreadExists,
    ThreadExpired,
    ThreadNotFound,
    WakefulError,
)
from wakeful.contract.requests import RunRequest, title_of
from wakeful.contract.runs import Cancelled, RunResult, ThreadMode
from wakeful.contract.views import StatusView
from wakeful.history.archive import end_archive, last_archive, open_archives, read_last_archive
from wakeful.history.close_states import memo_result
from wakeful.history.decoder import ExecutionRef
from wakeful.history.latest_execution import latest_started, read_tenant
from wakeful.history.pending_task import pending_task
from wakeful.rpc_errors import describe_execution, error_of
from wakeful_workflows.closing import failure_result

Handle = WorkflowHandle[Any, RunResult]


async def start_thread(
    temporal: Client, request: RunRequest, thread_id: str | None, *, task_queue: str, again: bool = False
) -> str:
    """Start a run and return its thread's id.

    Args:
        again: start a closed thread over: its conversation is left behind.

    Raises:
        ThreadBusy: the thread already has an active run.
        ThreadExists: the thread is closed and has a conversation, and `again` does not allow to leave it behind.
        ThreadExpired: the same, and the server has deleted the closed thread.
        OtherTenant: `again`, and the thread belongs to another tenant.
        CallerError: a permission rule cannot be parsed, or no thread can have this id.
    """
    check_rules(request.permissions)
    if thread_id is None:
        return await _start(temporal, request, new_thread_id(request.agent_id), task_queue=task_queue)
    check_thread_id(thread_id)
    if again:
        return await _start_over(temporal, request, thread_id, task_queue=task_queue)
    if await last_archive(temporal, thread_id) is not None and await describe(temporal, thread_id) is None:
        raise ThreadExpired(thread_id)
    try:
        policy = WorkflowIDReusePolicy.REJECT_DUPLICATE
        return await _start(temporal, request, thread_id, task_queue=task_queue, policy=policy)
    except ThreadBusy:
        if not await _is_unused(temporal, thread_id):
            raise
    return await _start(temporal, request, thread_id, task_queue=task_queue)


async def _start_over(temporal: Client, request: RunRequest, thread_id: str, *, task_queue: str) -> str:
    await _check_tenant(temporal, request, thread_id)
    # Before the start: the new thread may close, and write a last archive of its own.
    archives = [archive async for archive in open_archives(temporal, thread_id)]
    await _start(temporal, request, thread_id, task_queue=task_queue)
    for archive in archives:
        await end_archive(temporal, archive, reason="its thread was started over")
    return thread_id


async def _check_tenant(temporal: Client, request: RunRequest, thread_id: str) -> None:
    """Raise `OtherTenant` if a closed thread belongs to another tenant than the request, or only one has one."""
    described = await describe(temporal, thread_id)
    if described is not None and described.status is WorkflowExecutionStatus.RUNNING:
        return  # it cannot be started over
    start = None if described is None else await latest_started(temporal, thread_id, described.run_id)
    if start is not None and (start.has_started or start.snapshot is not None):
        tenant = await read_tenant(temporal, thread_id, start)
    elif await last_archive(temporal, thread_id) is not None:  # the server has deleted the thread
        kept = (await read_last_archive(temporal, thread_id)).carryover
        tenant = kept.tenant if kept else None
    else:
        return  # there is no conversation
    if tenant != request.tenant:
        raise OtherTenant(thread_id, request.tenant)


async def _is_unused(temporal: Client, thread_id: str) -> bool:
    """Whether the thread is closed and no worker ever ran it.

    Raises:
        ThreadExists: it is closed, and has a conversation.
    """
    described = await describe(temporal, thread_id)
    if described is None or described.status is WorkflowExecutionStatus.RUNNING:
        return described is None
    start = await latest_started(temporal, thread_id, described.run_id)
    if start.has_started or start.snapshot is not None:
        raise ThreadExists(thread_id)
    if start.predecessor is not None:  # the server has deleted it, but not what it archived
        raise ThreadExpired(thread_id)
    return True


async def _start(
    temporal: Client,
    request: RunRequest,
    thread_id: str,
    *,
    task_queue: str,
    policy: WorkflowIDReusePolicy = WorkflowIDReusePolicy.ALLOW_DUPLICATE,
) -> str:
    try:
        await temporal.start_workflow(
            names.WORKFLOW,
            request,
            id=thread_id,
            task_queue=task_queue,
            id_reuse_policy=policy,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            memo={names.MEMO_TITLE: title_of(request)},
            priority=temporal_priority(request),
            static_summary=f"{request.agent_id}: {title_of(request)}",
        )
    except WorkflowAlreadyStartedError as error:
        raise ThreadBusy(thread_id) from error
    return thread_id


def new_thread_id(agent_id: str) -> str:
    """The id of a thread that the caller gave none."""
    return f"{agent_id}-{uuid.uuid4().hex[:12]}"


async def wait_for_last_result(context: WatchContext, thread_id: str) -> RunResult:
    """The result of a thread's newest run, once the thread has nothing more to do.

    In `run` mode the workflow closes with its run. In `thread` mode it stays open.
    """
    reader, retrier = context.reader, Retrier(thread_id, context.outages)
    try:
        while True:
            described = await describe_execution(reader.temporal, thread_id)
            if described is None:
                raise ThreadNotFound(thread_id)
            if not await _stays_open(reader.temporal, described):
                # By its run id: the thread may be started over meanwhile.
                return await _wait_from(reader, thread_id, described.run_id)
            execution = Execution(reader.temporal, thread_id, described.run_id, retrier)
            await execution.open()
            if (result := await _idle_result(reader, thread_id, described.run_id)) is not None:
                return await whole_result(reader, result)
            await execution.wait_for_change()
    except RPCError as error:
        raise error_of(error, thread_id) from error


async def _stays_open(temporal: Client, described: Described) -> bool:
    """Whether the execution is of a thread in `thread` mode, and neither closed nor about to be."""
    if described.workflow_type != names.WORKFLOW or described.status is not WorkflowExecutionStatus.RUNNING:
        return False
    if is_closing(described):
        return False
    return await mode_of(temporal, ExecutionRef(described.id, described.run_id)) is ThreadMode.THREAD


async def _idle_result(reader: ThreadReader, thread_id: str, run_id: str) -> RunResult | None:
    """The result of the newest run of an execution; None if a run is under way or may start, or there was none."""
    described = await describe_execution(reader.temporal, thread_id)
    # A pending task may handle a message or a close. It is looked for first: the status is then not older.
    if described is None or described.run_id != run_id or pending_task(described) is not None or is_closing(described):
        return None
    try:
        return (await reader.query(thread_id, names.QUERY_STATUS, StatusView, run_id=run_id)).result
    except NotStarted:  # it is being restored
        return None


async def wait_for_result(reader: ThreadReader, thread_id: str) -> RunResult:
    """The result of a thread's run, however its workflow closes; if the thread is reset meanwhile, of the next one."""
    try:
        newest = await reader.temporal.get_workflow_handle(thread_id).describe()
        return await _wait_from(reader, thread_id, newest.run_id)
    except RPCError as error:
        raise error_of(error, thread_id) from error


async def _wait_from(reader: ThreadReader, thread_id: str, run_id: str) -> RunResult:
    """Wait for the end of an execution and of those that it continues as."""
    while True:
        handle: Handle = reader.temporal.get_workflow_handle(thread_id, run_id=run_id, result_type=RunResult)
        try:
            return await handle.result(follow_runs=False)
        except WorkflowContinuedAsNewError as continued:
            run_id = continued.new_execution_run_id
        except WorkflowFailureError as error:
            return await _result_in(reader, handle, error)


async def _result_in(reader: ThreadReader, handle: Handle, error: WorkflowFailureError) -> RunResult:
    """The result of an execution that did not complete."""
    if isinstance(error.cause, TerminatedError) and await has_continued(reader.temporal, handle.id):
        return await wait_for_result(reader, handle.id)
    if isinstance(error.cause, CancelledError):
        # By its run id: the thread may have been woken or started over since.
        result = await memo_result(reader.temporal, await handle.describe())
        return _never_started(handle.id) if result is None else await whole_result(reader, result)
    if (result := failure_result(error.cause)) is not None:
        return await whole_result(reader, result)
    raise WakefulError(f"the run on thread {handle.id!r} failed: {error.cause}") from error


async def whole_result(reader: ThreadReader, result: RunResult) -> RunResult:
    """The result as the run made it, if what Temporal has of it is cut: the thread's status has it."""
    if not result.cut:
        return result
    try:
        view = await reader.query(result.thread_id, names.QUERY_STATUS, StatusView, within=QUERY_TIMEOUT)
    except WakefulError:  # it does not replay here, and no worker answers
        return result
    return view.result if view.result is not None and view.result.run_id == result.run_id else result


def _never_started(thread_id: str) -> RunResult:
    """The result of a run that was cancelled in Temporal before a worker ran its first workflow task."""
    return RunResult(thread_id=thread_id, run_id="", agent_id="", status_reason="cancelled", termination=Cancelled())
