"""The `deliver_message` activity: signal a thread, and wake it if it is closed.

It delivers messages between agents, the results of background tasks, and the messages of schedules. `wake_thread` wakes
a thread without a signal.
"""

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from wakeful.client.queries import QUERY_TIMEOUT
from wakeful.client.thread_reader import ThreadReader
from wakeful.client.wake import Described, WakeSignal, describe, signal_or_wake, wake
from wakeful.contract.archive import WakeInput
from wakeful.contract.errors import CallerError, NotStarted, OtherTenant, ThreadNotFound, WakefulError
from wakeful.contract.limits import cut
from wakeful.contract.mail import DeliverInput
from wakeful.contract.names import (
    ACTIVITY_DELIVER,
    ACTIVITY_WAKE,
    QUERY_STATUS,
    RECIPIENT_NOT_FOUND,
    RECIPIENT_OF_OTHER_TENANT,
    RECIPIENT_UNAVAILABLE,
    SIGNAL_CHILD_SETTLED,
    SIGNAL_DELIVER,
    SIGNAL_SUBMIT,
    TRANSPORT_FAILED,
)
from wakeful.contract.requests import TITLE_LENGTH, Submission, parse_child_settled
from wakeful.contract.views import StatusView
from wakeful.history.close_states import has_ended


class DeliverActivity:
    """The activities that reach other threads."""

    def __init__(self, reader: ThreadReader) -> None:
        self._reader = reader

    @activity.defn(name=ACTIVITY_DELIVER)
    async def deliver_message(self, input: DeliverInput) -> None:
        signal = _signal(input)
        try:
            await self._check_is_awaited(input)
            await self._check_is_in_tree(input)
            await signal_or_wake(
                self._reader, input.thread_id, signal, queue_of=lambda closed: _queue_of(closed, input)
            )
        except OtherTenant as error:
            raise ApplicationError(
                str(error),
                type=RECIPIENT_OF_OTHER_TENANT,
                non_retryable=True,
                category=ApplicationErrorCategory.BENIGN,
            ) from error
        except CallerError as error:
            # Benign: the sender's model named a thread that does not exist, and reads this error.
            raise ApplicationError(
                str(error), type=RECIPIENT_NOT_FOUND, non_retryable=True, category=ApplicationErrorCategory.BENIGN
            ) from error
        except WakefulError as error:
            raise ApplicationError(str(error), type=TRANSPORT_FAILED) from error

    @activity.defn(name=ACTIVITY_WAKE)
    async def wake_thread(self, input: WakeInput) -> None:
        """Wake a thread that closes, unless something else has woken it since: messages came after the close."""
        try:
            if not await wake(self._reader, input.thread_id, closed_run_id=input.run_id):
                raise ApplicationError("the thread is still closing", category=ApplicationErrorCategory.BENIGN)
        except CallerError as error:
            raise ApplicationError(str(error), non_retryable=True) from error
        except WakefulError as error:
            raise ApplicationError(str(error), type=TRANSPORT_FAILED) from error

    async def _check_is_awaited(self, input: DeliverInput) -> None:
        """Refuse to wake a thread for a task that it does not know, because a rewind has undone its start."""
        if input.signal != SIGNAL_CHILD_SETTLED or not input.wake:
            return
        owner = await describe(self._reader.temporal, input.thread_id)
        if owner is None or not has_ended(owner):
            return
        run_id, within = owner.run_id, QUERY_TIMEOUT
        view = await self._reader.query(owner.id, QUERY_STATUS, StatusView, run_id=run_id, within=within)
        if parse_child_settled(input.payload).thread_id not in view.children:
            raise ThreadNotFound(input.thread_id)

    async def _check_is_in_tree(self, input: DeliverInput) -> None:
        """Refuse to wake a sub-agent that has ended for mail: no budget of its tree, and no cancel, would reach it."""
        if input.signal != SIGNAL_DELIVER:
            return
        recipient = await describe(self._reader.temporal, input.thread_id)
        if recipient is None or not has_ended(recipient):
            return
        run_id, within = recipient.run_id, QUERY_TIMEOUT
        try:
            view = await self._reader.query(recipient.id, QUERY_STATUS, StatusView, run_id=run_id, within=within)
        except NotStarted:  # a sub-agent that never started is not woken at all
            return
        if view.identity.path:
            raise ApplicationError(
                f"thread {input.thread_id!r} is a sub-agent's that has ended",
                type=RECIPIENT_UNAVAILABLE,
                non_retryable=True,
                category=ApplicationErrorCategory.BENIGN,
            )


def _queue_of(closed: Described | None, input: DeliverInput) -> str:
    """The task queue on which to wake a closed thread, or to start a new one."""
    if not input.wake:
        raise ThreadNotFound(input.thread_id)
    if closed is None:
        return activity.info().task_queue
    # The tasks of a thread that was terminated or timed out are cancelled; their results must not wake it.
    if input.signal == SIGNAL_CHILD_SETTLED and not has_ended(closed):
        raise ThreadNotFound(input.thread_id)
    return closed.task_queue


def _signal(input: DeliverInput) -> WakeSignal:
    if input.signal != SIGNAL_SUBMIT:
        return WakeSignal(input.signal, input.payload, input.agent_id, _title(input), _tenant(input))
    # The message of a schedule's firing.
    submission = Submission.model_validate(input.payload)
    (message,) = submission.messages
    title = cut(" ".join(message.as_message("").text.split()), TITLE_LENGTH)
    return WakeSignal(input.signal, submission, input.agent_id, title, submission.tenant)


def _title(input: DeliverInput) -> str:
    content = input.payload.get("content") if isinstance(input.payload, dict) else None
    return " ".join(content.split())[:TITLE_LENGTH] if isinstance(content, str) else "a background task has ended"


def _tenant(input: DeliverInput) -> str | None:
    """Of the thread that sends a message to another; children report to their parent without one."""
    sender = input.payload.get("sender") if isinstance(input.payload, dict) else None
    tenant = sender.get("tenant") if isinstance(sender, dict) else None
    return tenant if isinstance(tenant, str) else None
