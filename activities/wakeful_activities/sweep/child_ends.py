"""How the sweep tells a parent of a child's end, in the child's place: what it says, and how it brings it."""

import logging

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.wake import Word, reach
from wakeful.contract import names
from wakeful.contract.errors import WakefulError
from wakeful.contract.subagents import FAILED_SILENTLY, TERMINATED, TIMED_OUT, WITHOUT_A_WORD, Settled
from wakeful.contract.tasks import TaskStatus
from wakeful.contract.views import StatusView

ENDED_FROM_OUTSIDE = {
    WorkflowExecutionStatus.TERMINATED: TERMINATED,
    WorkflowExecutionStatus.FAILED: FAILED_SILENTLY,
    WorkflowExecutionStatus.TIMED_OUT: TIMED_OUT,
    WorkflowExecutionStatus.CANCELED: "it was cancelled from outside",
}
_AGENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT)

_logger = logging.getLogger("wakeful")


def last_word(child: WorkflowExecution, parent: StatusView) -> Settled | None:
    """What the parent is told of a closed child that said nothing; nothing if it does not wait for it."""
    delegates = (call.work_id for call in parent.calls if call.child == child.id)
    tasks = (task for task in parent.tasks if task.thread_id == child.id and not task.status.is_terminal)
    task = next(tasks, None)
    work_id = task.task_id if task else next(delegates, None)
    if work_id is None:
        return None
    return Settled(
        work_id=work_id,
        thread_id=child.id,
        agent_id=child.typed_search_attributes.get(_AGENT),
        name=task.name if task else None,
        status=TaskStatus.FAILED,
        error=ENDED_FROM_OUTSIDE.get(child.status, WITHOUT_A_WORD) if child.status else WITHOUT_A_WORD,
    )


async def own_word(client: Client, child: WorkflowExecution) -> Settled | None:
    """What a child has told its owner itself, as its history has it; nothing if it did not, or history is gone."""
    run_id = child.run_id
    while run_id:
        before = ""
        try:
            async for event in client.get_workflow_handle(child.id, run_id=run_id).fetch_history_events():
                if event.HasField("workflow_execution_started_event_attributes"):
                    before = event.workflow_execution_started_event_attributes.continued_execution_run_id
                elif event.HasField("signal_external_workflow_execution_initiated_event_attributes"):
                    sent = event.signal_external_workflow_execution_initiated_event_attributes
                    if sent.signal_name == names.SIGNAL_SETTLED:
                        (settled,) = await client.data_converter.decode(sent.input.payloads, [Settled])
                        assert isinstance(settled, Settled)
                        return settled
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return None
        run_id = before
    return None


async def is_told(client: Client, parent_id: str, word: Settled) -> bool:
    """Bring it to the parent, which is woken for it if it sleeps."""
    spoken = Word(names.SIGNAL_SETTLED, word, None, "a background task has ended")
    try:
        await reach(client, parent_id, spoken, queue_of=lambda closed: closed.task_queue if closed else "")
    except WakefulError as error:
        _logger.warning("end not told", extra={"thread_id": word.thread_id, "reason": str(error)})
        return False
    _logger.info("end told in its place", extra={"thread_id": word.thread_id, "parent": parent_id})
    return True
