"""Reach another thread from a workflow: by an external signal if it is running, by an activity if it must be woken."""

from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from temporalio import workflow
from temporalio.common import Priority, RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.workflow import ActivityCancellationType, ActivityHandle

from wakeful.contract import names
from wakeful.contract.mail import DeliverInput
from wakeful.contract.subagents import ChildResult
from wakeful.loop.machine.commands import NOTIFY_PARENT_ID
from wakeful_workflows.run_log import logger
from wakeful_workflows.tools import failure_reason

NOT_FOUND = "ExternalWorkflowExecutionNotFound"

_MESSAGE_RETRIES = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=5), maximum_attempts=6
)
# Without a limit: a result is reported once, and a parent that has continued as new would wait for it forever. A parent
# that is gone is no transient failure, and ends the retries. The same holds for the message of a schedule.
RETRY_FOREVER = RetryPolicy(initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=30))


async def signal_thread(thread_id: str, signal: str, payload: BaseModel | RawValue | dict[str, str] | None) -> bool:
    """Signal a thread, and wait until the signal is in its history. False if the thread is closed or unknown."""
    try:
        await workflow.get_external_workflow_handle(thread_id).signal(signal, payload)
    except ApplicationError as error:
        if error.type != NOT_FOUND:
            raise
        return False
    return True


def start_delivery(
    input: DeliverInput,
    *,
    id: str,
    retries: RetryPolicy = _MESSAGE_RETRIES,
    encoded: RawValue | None = None,
    priority: Priority = Priority.default,
) -> ActivityHandle[Any]:
    """Schedule the activity that signals a thread and wakes it if it is closed."""
    return workflow.start_activity(
        names.ACTIVITY_DELIVER,
        encoded or input,
        activity_id=id,
        start_to_close_timeout=timedelta(seconds=30),
        retry_policy=retries,
        cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        priority=priority,
        summary=f"message to {input.thread_id}",
    )


def delivery_failure(error: ActivityError) -> str | None:
    """Why a delivery failed, as the sender reads it; None if it was cancelled."""
    refused = (names.RECIPIENT_NOT_FOUND, names.RECIPIENT_OF_OTHER_TENANT, names.RECIPIENT_UNAVAILABLE)
    if isinstance(error.cause, ApplicationError) and error.cause.type in refused:
        return error.cause.type
    reason = failure_reason(error)
    return None if reason is None else f"{names.TRANSPORT_FAILED}: {reason}"


async def notify_parent(parent_thread_id: str, result: ChildResult, *, wake: bool) -> None:
    """Report how a sub-agent or a background task ended; with `wake`, a closed parent is woken for it.

    It returns when the parent has the result, or when there is no parent any more that could wait for it.
    """
    try:
        if await signal_thread(parent_thread_id, names.SIGNAL_CHILD_SETTLED, result) or not wake:
            return
    except ApplicationError as error:  # for example too many signals for now; the activity retries for longer
        logger.warning(
            "the parent cannot be signalled; an activity retries",
            extra={"parent": parent_thread_id, "reason": str(error)},
        )
    input = DeliverInput(
        thread_id=parent_thread_id,
        signal=names.SIGNAL_CHILD_SETTLED,
        payload=result.model_dump(mode="json"),
        wake=wake,
    )
    try:
        await start_delivery(input, id=NOTIFY_PARENT_ID, retries=RETRY_FOREVER)
    except ActivityError as error:
        reason = delivery_failure(error)
        logger.warning("the parent was not notified of the end", extra={"parent": parent_thread_id, "reason": reason})
