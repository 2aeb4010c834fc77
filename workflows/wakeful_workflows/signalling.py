"""How a workflow reaches another thread: by a signal if it is awake, by an activity if it may have to be woken."""

from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.workflow import ActivityCancellationType, ActivityHandle

from wakeful.contract import names
from wakeful.contract.subagents import DeliverInput, Settled
from wakeful.loop.machine.commands import SETTLE_ID
from wakeful_workflows.tools import why

NOT_FOUND = "ExternalWorkflowExecutionNotFound"

_LETTER_RETRIES = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=5), maximum_attempts=6
)
# An end is told once, and a thread may be waiting for it: some minutes of trouble must not lose it.
_END_RETRIES = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=30), maximum_attempts=20
)


async def signalled(thread_id: str, signal: str, payload: BaseModel | dict[str, str] | None) -> bool:
    """Signal a thread, and wait until it is in its history. False if the thread is not awake, or was never there."""
    try:
        await workflow.get_external_workflow_handle(thread_id).signal(signal, payload)
    except ApplicationError as error:
        if error.type != NOT_FOUND:
            raise
        return False
    return True


def start_delivery(input: DeliverInput, *, id: str, retries: RetryPolicy = _LETTER_RETRIES) -> ActivityHandle[Any]:
    """Bring something to a thread, whether it is awake or not."""
    return workflow.start_activity(
        names.ACTIVITY_DELIVER,
        input,
        activity_id=id,
        start_to_close_timeout=timedelta(seconds=30),
        retry_policy=retries,
        cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=f"message to {input.thread_id}",
    )


def why_undelivered(error: ActivityError) -> str | None:
    """Why a delivery failed, as senders are told; None if it was told to stop."""
    if isinstance(error.cause, ApplicationError) and error.cause.type == names.RECIPIENT_NOT_FOUND:
        return names.RECIPIENT_NOT_FOUND
    reason = why(error)
    return None if reason is None else f"{names.TRANSPORT_FAILED}: {reason}"


async def tell_end(owner_thread_id: str, settled: Settled, *, wake: bool) -> None:
    """Tell an owner how the work has ended that it had started; with `wake`, also one that sleeps.

    It always returns: where nobody can be told, nobody waits.
    """
    try:
        if await signalled(owner_thread_id, names.SIGNAL_SETTLED, settled) or not wake:
            return
    except ApplicationError as error:  # for example too many signals for now; the activity tries for longer
        workflow.logger.warning("an end was not told yet", extra={"owner": owner_thread_id, "reason": str(error)})
    input = DeliverInput(
        thread_id=owner_thread_id, signal=names.SIGNAL_SETTLED, payload=settled.model_dump(mode="json"), wake=wake
    )
    try:
        await start_delivery(input, id=SETTLE_ID, retries=_END_RETRIES)
    except ActivityError as error:
        reason = why_undelivered(error)
        workflow.logger.warning("an end was not told", extra={"owner": owner_thread_id, "reason": reason})
