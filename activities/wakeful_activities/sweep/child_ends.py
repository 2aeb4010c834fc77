"""How the sweep tells a parent of a child's end, in the child's place: what it says, and how it brings it."""

import logging
from dataclasses import dataclass

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.wake import WakeSignal, signal_or_wake
from wakeful.contract import names
from wakeful.contract.errors import WakefulError
from wakeful.contract.subagents import CLOSED_SILENTLY, FAILED_SILENTLY, TERMINATED, TIMED_OUT, ChildResult
from wakeful.contract.tasks import TaskStatus
from wakeful.contract.views import StatusView
from wakeful.history.decoder import ExecutionRef, Payloads, read_moments, walk_chain
from wakeful.history.moments import SignalSent, Started

ENDED_FROM_OUTSIDE = {
    WorkflowExecutionStatus.TERMINATED: TERMINATED,
    WorkflowExecutionStatus.FAILED: FAILED_SILENTLY,
    WorkflowExecutionStatus.TIMED_OUT: TIMED_OUT,
    WorkflowExecutionStatus.CANCELED: "it was cancelled from outside",
}
_AGENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT)

_logger = logging.getLogger("wakeful")


def last_word(child: WorkflowExecution, parent: StatusView) -> ChildResult | None:
    """What the parent is told of a closed child that said nothing; nothing if it does not wait for it."""
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
        error=ENDED_FROM_OUTSIDE.get(child.status, CLOSED_SILENTLY) if child.status else CLOSED_SILENTLY,
    )


async def own_word(client: Client, child: WorkflowExecution) -> ChildResult | None:
    """The result that a child has signalled itself, as its history records it; None if it did not."""

    async def read(execution: ExecutionRef) -> _Sent:
        return await _read_sent(client, execution)

    try:
        async for sent in walk_chain(read, ExecutionRef(child.id, child.run_id)):
            if sent.result is not None:
                return sent.result
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
    return None


@dataclass
class _Sent:
    """What one execution of a child has signalled to its parent."""

    predecessor: ExecutionRef | None = None
    result: ChildResult | None = None


async def _read_sent(client: Client, execution: ExecutionRef) -> _Sent:
    sent, payloads = _Sent(), Payloads(client.data_converter)
    async for moment in read_moments(client, execution):
        match moment:
            case Started(continued_run_id=run_id) if run_id:
                sent.predecessor = ExecutionRef(execution.thread_id, run_id)
            case SignalSent(signal=names.SIGNAL_CHILD_SETTLED, input=input):
                sent.result = await payloads.value(input, ChildResult)
                break
            case _:
                pass
    return sent


async def is_told(client: Client, parent_id: str, word: ChildResult) -> bool:
    """Bring it to the parent, which is woken for it if it sleeps."""
    spoken = WakeSignal(names.SIGNAL_CHILD_SETTLED, word, None, "a background task has ended")
    try:
        await signal_or_wake(client, parent_id, spoken, queue_of=lambda closed: closed.task_queue if closed else "")
    except WakefulError as error:
        _logger.warning("end not told", extra={"thread_id": word.thread_id, "reason": str(error)})
        return False
    _logger.info("end told in its place", extra={"thread_id": word.thread_id, "parent": parent_id})
    return True
