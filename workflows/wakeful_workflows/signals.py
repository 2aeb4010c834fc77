"""The signal handlers of a thread. A handler only appends a fact; a malformed signal is a fact, too."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

from wakeful.contract import names
from wakeful.contract.errors import CallerError
from wakeful.contract.requests import (
    parse_budget_grant,
    parse_budget_request,
    parse_cancel,
    parse_child_settled,
    parse_decisions,
    parse_mail,
    parse_mail_returned,
    parse_submission,
    parse_undelivered_request,
)
from wakeful.loop.machine.facts import (
    BudgetGranted,
    BudgetRequested,
    CancelRequested,
    ChildSettled,
    DecisionsReceived,
    Fact,
    MailReceived,
    MailReturned,
    MessagesSubmitted,
    SignalMalformed,
    UndeliveredRequested,
)
from wakeful_workflows.history_estimate import SIGNAL, HistoryEstimate, size_of


class Signals:
    """Collects facts until the workflow takes them."""

    def __init__(self, history: HistoryEstimate) -> None:
        self._facts: deque[Fact] = deque()
        self._signals = 0
        self._history = history

    @workflow.signal(name=names.SIGNAL_SUBMIT, description='Messages for the thread: {"input": "…"}')
    def submit(self, *args: Any) -> None:
        self._signal(names.SIGNAL_SUBMIT, args, _submitted)

    @workflow.signal(
        name=names.SIGNAL_DECIDE,
        description='Answer a suspended tool call: {"call_id": "…", "action": "resume" | "cancel"}',
    )
    def decide(self, *args: Any) -> None:
        self._signal(names.SIGNAL_DECIDE, args, lambda payload: DecisionsReceived(parse_decisions(payload)))

    @workflow.signal(name=names.SIGNAL_CANCEL, description='Cancel the run: {"reason": "…"}')
    def cancel(self, *args: Any) -> None:
        self._signal(names.SIGNAL_CANCEL, args, lambda payload: CancelRequested(parse_cancel(payload).reason))

    @workflow.signal(name=names.SIGNAL_CLOSE, description='Cancel the run and close the thread: {"reason": "…"}')
    def close(self, *args: Any) -> None:
        self._signal(
            names.SIGNAL_CLOSE, args, lambda payload: CancelRequested(parse_cancel(payload).reason, close=True)
        )

    @workflow.signal(name=names.SIGNAL_UNDELIVERED, description='Undelivered messages: {"action": "replay" | "clear"}')
    def undelivered(self, *args: Any) -> None:
        self._signal(
            names.SIGNAL_UNDELIVERED,
            args,
            lambda payload: UndeliveredRequested(parse_undelivered_request(payload).action),
        )

    @workflow.signal(name=names.SIGNAL_DELIVER, description="Mail from another agent or a background task")
    def deliver(self, *args: Any) -> None:
        self._signal(names.SIGNAL_DELIVER, args, lambda payload: MailReceived(parse_mail(payload)))

    @workflow.signal(name=names.SIGNAL_MAIL_RETURNED, description="A message whose recipient had ended")
    def mail_returned(self, *args: Any) -> None:
        self._signal(names.SIGNAL_MAIL_RETURNED, args, _mail_returned)

    @workflow.signal(name=names.SIGNAL_CHILD_SETTLED, description="The result of a sub-agent or a background task")
    def child_settled(self, *args: Any) -> None:
        self._signal(names.SIGNAL_CHILD_SETTLED, args, lambda payload: ChildSettled(parse_child_settled(payload)))

    @workflow.signal(name=names.SIGNAL_BUDGET_REQUEST, description="A sub-agent asks for more budget")
    def budget_request(self, *args: Any) -> None:
        self._signal(names.SIGNAL_BUDGET_REQUEST, args, lambda payload: BudgetRequested(parse_budget_request(payload)))

    @workflow.signal(name=names.SIGNAL_BUDGET_GRANT, description="The parent's answer to a budget request")
    def budget_grant(self, *args: Any) -> None:
        self._signal(names.SIGNAL_BUDGET_GRANT, args, lambda payload: BudgetGranted(parse_budget_grant(payload)))

    @workflow.signal(dynamic=True)
    def unknown_signal(self, name: str, args: Sequence[RawValue]) -> None:
        self._signals += 1
        self._history.add(SIGNAL, size=sum(arg.payload.ByteSize() for arg in args))
        known = ", ".join(names.PUBLIC_SIGNALS)
        self._facts.append(SignalMalformed(name, f"there is no signal {name!r}; known: {known}"))

    def _signal(self, name: str, args: Sequence[Any], parse: Callable[[Any], Fact]) -> None:
        """Append the signal as a fact. Handlers accept any arguments: one that raised would block the thread."""
        self._signals += 1
        self._history.add(SIGNAL, size=size_of(args))
        try:
            self._facts.append(parse(single(args)))
        except Exception as error:  # no signal, whatever its payload, may block the thread
            self._facts.append(SignalMalformed(name, str(error)))


def single(args: Sequence[Any]) -> Any:
    """The one argument, or None.

    Raises:
        CallerError: there are several.
    """
    if len(args) > 1:
        raise CallerError(f"it takes one JSON value, got {len(args)}")
    return args[0] if args else None


def _submitted(payload: Any) -> Fact:
    submission = parse_submission(payload)
    return MessagesSubmitted(submission.messages, submission.on_busy, submission.agent_id, submission.overrides)


def _mail_returned(payload: Any) -> Fact:
    returned = parse_mail_returned(payload)
    return MailReturned(returned.message, returned.error)
