"""`ScheduledMessage`: what a schedule with a thread starts at each firing. It sends the message, and completes.

Runs unsandboxed, like `AgentRun` and for the same reasons.
"""

from temporalio import workflow

from wakeful.contract import ids, names
from wakeful.contract.mail import DeliverInput
from wakeful.contract.requests import ScheduledSend
from wakeful_workflows.signalling import RETRY_FOREVER, start_delivery


@workflow.defn(name=names.WORKFLOW_SCHEDULED, sandboxed=False)
class ScheduledMessage:
    """One firing. If the thread cannot be sent the message, the workflow fails with the reason."""

    @workflow.run
    async def run(self, input: ScheduledSend) -> None:
        # An id of the firing's own, also after a reset: a repeated delivery has no effect. The workflow's id would not
        # be one: a schedule that is triggered twice within a second starts two firings with the same id.
        submission = input.submission.with_message_id(workflow.info().first_execution_run_id)
        delivery = DeliverInput(
            thread_id=input.thread_id,
            signal=names.SIGNAL_SUBMIT,
            payload=submission.model_dump(mode="json"),
            agent_id=submission.agent_id,
        )
        await start_delivery(delivery, id=ids.SCHEDULED_DELIVERY, retries=RETRY_FOREVER)
