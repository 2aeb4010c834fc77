"""Cancel what a thread is doing, and wait until it has stopped: its run, or the tasks that an idle thread still has.

A thread may stay open after its run, so its workflow's result says nothing: the events do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from temporalio.client import Client as TemporalClient
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.arguments import rejecting_invalid
from wakeful.client.queries import QUERY_TIMEOUT
from wakeful.client.thread_reader import ThreadReader
from wakeful.client.wake import WakeSignal, signal_or_wake
from wakeful.contract import names
from wakeful.contract.errors import CallerError, CannotDecode, NoAnswer, WakefulError
from wakeful.contract.events import EventRecord, FinishSummary, RunFinish, SignalRefused, TaskChanged
from wakeful.contract.requests import CancelRequest
from wakeful.contract.runs import Cancelled, CancelReceipt, RunStatus, ThreadMode
from wakeful.contract.views import StatusView
from wakeful.history.close_states import has_ended
from wakeful.history.decoder import ExecutionRef
from wakeful.history.latest_execution import read_start
from wakeful.loop.thread.continue_as_new import unpack
from wakeful.rpc_errors import describe_execution, error_of

if TYPE_CHECKING:
    from wakeful.client.client import Client  # which imports this module

_AFTER_ALL = 2**31


@dataclass(frozen=True)
class StoppedWork:
    """What a cancel has stopped."""

    run: RunFinish | None
    """The end of the run; None if the thread was idle and only its tasks were stopped."""
    tasks: tuple[str, ...] = ()
    receipt: CancelReceipt | None = None

    @property
    def was_cancelled(self) -> bool:
        """Whether the run, or the tasks, ended by the cancel and not by themselves before it."""
        return self.run is None or isinstance(self.run.termination, Cancelled)


async def cancel_and_wait(
    client: "Client",
    thread_id: str,
    *,
    reason: str | None,
    run_id: str | None = None,
    on_trouble: Callable[[WakefulError], None],
) -> StoppedWork:
    """Cancel, and return when the run that is under way has ended, or the tasks of an idle thread have.

    Raises:
        CallerError: the thread is idle and has no tasks, or `run_id` is not its newest run.
    """
    last, tasks = await _last_event(client, thread_id), await _idle_tasks(client, thread_id)
    await client.cancel(thread_id, reason=reason, run_id=run_id)
    left = set(tasks)
    async for record in client.watch(thread_id, after=last, on_trouble=on_trouble):
        match record.event:
            case RunFinish(result=FinishSummary(status=RunStatus.DONE)) as finished:
                return StoppedWork(finished, receipt=await _receipt(client, thread_id, record))
            case SignalRefused(signal=names.SIGNAL_CANCEL | names.SIGNAL_CLOSE, reason=why):
                raise CallerError(f"nothing to cancel on thread {thread_id!r}: {why}")
            case TaskChanged(task=task) if task.status.is_terminal and task.task_id in left:
                left.remove(task.task_id)
                if not left:
                    return StoppedWork(None, tasks)
            case _:
                pass
    raise CallerError(f"nothing to cancel on thread {thread_id!r}: it has been closed")


async def _last_event(client: "Client", thread_id: str) -> int:
    """The number of the newest event; 0 if the thread has not started, or is being restored."""
    try:
        page = await client.events(thread_id, after=_AFTER_ALL)
    except NoAnswer:
        return 0
    return 0 if page.restoring else page.last


async def _idle_tasks(client: "Client", thread_id: str) -> tuple[str, ...]:
    """The running tasks of a thread between two runs."""
    view = await _status(client, thread_id)
    if view is None or view.status is not RunStatus.DONE:
        return ()
    return tuple(task.task_id for task in view.tasks if not task.status.is_terminal)


async def _receipt(client: "Client", thread_id: str, ended: EventRecord) -> CancelReceipt | None:
    """Which descendants were cancelled with the run, unless the next run has already started."""
    view = await _status(client, thread_id)
    result = view.result if view is not None else None
    return result.receipt if result is not None and result.run_id == ended.run_id else None


async def _status(client: "Client", thread_id: str) -> StatusView | None:
    try:
        return await client.status(thread_id)
    except NoAnswer:
        return None


async def cancel_run(temporal: TemporalClient, thread_id: str, *, reason: str | None = None) -> bool:
    """Request the cancellation of the run that is under way. Requesting it again has no effect.

    In `run` mode the workflow closes with its run: there it is Temporal's own cancel, as for a background tool. The
    workflow of a thread in `thread` mode would close, too, so it gets the `cancel` signal.

    Returns:
        Whether the mode could be decoded. If not, Temporal's own cancel is requested, which needs no codec.

    Raises:
        ThreadNotFound: no open workflow has this id.
    """
    try:
        described = await temporal.get_workflow_handle(thread_id).describe()
        is_tool = described.workflow_type == names.WORKFLOW_TOOL_TASK
        mode = ThreadMode.RUN if is_tool else await mode_of(temporal, ExecutionRef(thread_id, described.run_id))
        # Not a run that a message has started meanwhile.
        first_run_id = described.raw_description.workflow_execution_info.first_run_id or None
        handle = temporal.get_workflow_handle(thread_id, first_execution_run_id=first_run_id)
        if mode is ThreadMode.THREAD:
            await handle.signal(names.SIGNAL_CANCEL, {"reason": reason} if reason else None)
        else:
            await handle.cancel(reason=reason or "")
    except RPCError as error:
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            raise error_of(error, thread_id) from error
    return mode is not None


async def cancel_newest_run(
    temporal: TemporalClient, thread_id: str, run_id: str, *, reason: str | None = None
) -> None:
    """Send the `cancel` signal for this run alone, in either mode: the thread compares the id when it handles it.

    Temporal's own cancel cannot name a run, and another could begin between a look at the status and that cancel.

    Raises:
        ThreadNotFound: no open workflow has this id.
        CallerError: the workflow is a background tool, or the id can be no run's.
        CannotDecode: the workers of the thread could not read the signal.
    """
    with rejecting_invalid():
        request = CancelRequest(reason=reason, run_id=run_id)
    try:
        described = await temporal.get_workflow_handle(thread_id).describe()
        if described.workflow_type == names.WORKFLOW_TOOL_TASK:
            raise CallerError(f"{thread_id!r} is a background tool, which has no run: leave out run_id")
        await read_start(temporal, ExecutionRef(thread_id, described.run_id))
        await temporal.get_workflow_handle(thread_id).signal(names.SIGNAL_CANCEL, request)
    except RPCError as error:
        raise error_of(error, thread_id) from error


async def cancel_thread(
    reader: ThreadReader, thread_id: str, *, reason: str | None = None, run_id: str | None = None
) -> bool:
    """Cancel the run that is under way, or the tasks of a thread that has closed while they work on.

    Args:
        run_id: cancel this run alone, as `cancel_newest_run` does.

    Returns:
        As `cancel_run` does.

    Raises:
        ThreadNotFound: no workflow has this id.
        CallerError: the thread has closed, and has no tasks.
    """
    if run_id is not None:
        await cancel_newest_run(reader.temporal, thread_id, run_id, reason=reason)
        return True
    if await _cancel_tasks_of_closed(reader, thread_id, reason=reason):
        return True
    is_decoded = await cancel_run(reader.temporal, thread_id, reason=reason)
    await _cancel_tasks_of_closed(reader, thread_id, reason=reason)  # its run may have ended in between
    return is_decoded


async def _cancel_tasks_of_closed(reader: ThreadReader, thread_id: str, *, reason: str | None) -> bool:
    """Wake a closed thread to be closed with its tasks; the end of a task would otherwise wake it, and start a run."""
    closed = await describe_execution(reader.temporal, thread_id)
    if closed is None or closed.workflow_type != names.WORKFLOW or not has_ended(closed):
        return False
    try:
        name, run_id = names.QUERY_STATUS, closed.run_id
        view = await reader.query(thread_id, name, StatusView, run_id=run_id, within=QUERY_TIMEOUT)
    except (CannotDecode, NoAnswer):  # without its codec, or without a worker, nothing shows whether it has tasks
        return False
    if all(task.status.is_terminal for task in view.tasks):
        return False
    payload = {"reason": reason} if reason else None
    signal = WakeSignal(names.SIGNAL_CLOSE, payload, agent_id=view.identity.agent_id, title="cancel the tasks")
    await signal_or_wake(reader, thread_id, signal, queue_of=lambda _: closed.task_queue)
    return True


async def is_background_tool(temporal: TemporalClient, thread_id: str) -> bool:
    """Whether the workflow is a background tool, which has no run and no events."""
    try:
        described = await describe_execution(temporal, thread_id)
    except RPCError as error:
        raise error_of(error, thread_id) from error
    return described is not None and described.workflow_type == names.WORKFLOW_TOOL_TASK


async def mode_of(temporal: TemporalClient, execution: ExecutionRef) -> ThreadMode | None:
    """The mode of a thread's execution; None if this program does not have its payload codec."""
    try:
        start = await read_start(temporal, execution)
    except CannotDecode:
        return None
    if start.snapshot is not None:
        return unpack(start.snapshot).thread.mode
    return start.request.mode if start.request is not None else ThreadMode.RUN
