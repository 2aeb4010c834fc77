"""Report a child's end to its parent in the child's place."""

import logging
from contextlib import suppress
from dataclasses import dataclass

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.thread_reader import ThreadReader
from wakeful.client.wake import WakeSignal, signal_or_wake
from wakeful.contract import names
from wakeful.contract.errors import CallerError, WakefulError
from wakeful.contract.requests import parse_child_settled
from wakeful.contract.subagents import CLOSED_SILENTLY, FAILED_SILENTLY, TERMINATED, TIMED_OUT, ChildResult
from wakeful.contract.tasks import TaskStatus
from wakeful.contract.views import StatusView
from wakeful.history.close_states import has_ended
from wakeful.history.decoder import ExecutionRef, Payloads, read_moments, walk_chain
from wakeful.history.moments import SignalSent, Started

CLOSED_FROM_OUTSIDE = {
    WorkflowExecutionStatus.TERMINATED: TERMINATED,
    WorkflowExecutionStatus.FAILED: FAILED_SILENTLY,
    WorkflowExecutionStatus.TIMED_OUT: TIMED_OUT,
    WorkflowExecutionStatus.CANCELED: "it was cancelled from outside",
}
"""The statuses of executions that could not report their own end, and what their parents' models read. A run that
ended in an error or was cancelled has one of them, too: see `was_closed_from_outside`."""

_AGENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT)

_logger = logging.getLogger("wakeful")


def was_closed_from_outside(execution: WorkflowExecution) -> bool:
    """Whether the execution could not report its end: Temporal closed it, and not its workflow."""
    return execution.status in CLOSED_FROM_OUTSIDE and not has_ended(execution)


def result_in_place_of(child: WorkflowExecution, parent: StatusView) -> ChildResult | None:
    """The result of a closed child that reported none; None if its parent does not wait for it."""
    delegates = (call.work_id for call in parent.calls if call.child_thread_id == child.id)
    tasks = (task for task in parent.tasks if task.thread_id == child.id and not task.status.is_terminal)
    task = next(tasks, None)
    work_id = task.task_id if task else next(delegates, None)
    if work_id is None:
        return None
    return ChildResult(
        work_id=work_id,
        thread_id=child.id,
        agent_id=child.typed_search_attributes.get(_AGENT),
        name=task.name if task else None,
        status=TaskStatus.FAILED,
        error=CLOSED_FROM_OUTSIDE.get(child.status, CLOSED_SILENTLY) if child.status else CLOSED_SILENTLY,
    )


async def signalled_result(client: Client, child: WorkflowExecution) -> ChildResult | None:
    """The result that the child signalled to its parent, from the child's history; None if it signalled none."""

    async def read(execution: ExecutionRef) -> _Signalled:
        return await _read_signalled(client, execution)

    try:
        async for signalled in walk_chain(read, ExecutionRef(child.id, child.run_id)):
            if signalled.result is not None:
                return signalled.result
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
    return None


async def report_end(reader: ThreadReader, parent_id: str, result: ChildResult) -> bool:
    """Signal the result to the parent, which wakes it if it is closed; False if that failed."""
    signal = WakeSignal(names.SIGNAL_CHILD_SETTLED, result, None, "a background task has ended")
    about = {"thread_id": result.thread_id, "parent": parent_id}
    try:
        await signal_or_wake(reader, parent_id, signal, queue_of=lambda closed: closed.task_queue if closed else "")
    except WakefulError as error:
        _logger.warning("could not report a child's end to its parent", extra=about | {"reason": str(error)})
        return False
    _logger.info("reported a child's end to its parent", extra=about)
    return True


@dataclass
class _Signalled:
    """What one execution of a child has signalled to its parent."""

    predecessor: ExecutionRef | None = None
    result: ChildResult | None = None


async def _read_signalled(client: Client, execution: ExecutionRef) -> _Signalled:
    signalled, payloads = _Signalled(), Payloads(client.data_converter)
    async for moment in read_moments(client, execution):
        match moment:
            case Started(continued_run_id=run_id) if run_id:
                signalled.predecessor = ExecutionRef(execution.thread_id, run_id)
            case SignalSent(signal=names.SIGNAL_CHILD_SETTLED, input=input):
                with suppress(CallerError):  # the parent has refused it
                    signalled.result = await payloads.signal(input, parse_child_settled)
                break
            case _:
                pass
    return signalled
