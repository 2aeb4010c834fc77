"""What anybody may send to a thread. A handler appends a fact and returns; what is not understood is a fact, too."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

from wakeful.contract import names
from wakeful.contract.errors import CallerError
from wakeful.contract.requests import (
    parse_cancel,
    parse_decisions,
    parse_grant,
    parse_letters,
    parse_loan,
    parse_mail,
    parse_returned,
    parse_settled,
    parse_submission,
)
from wakeful.loop.machine.facts import (
    CancelRequested,
    ChildSettled,
    DecisionsReceived,
    Fact,
    Granted,
    LetterReturned,
    LettersWanted,
    LoanAsked,
    MailReceived,
    MessagesSubmitted,
    SignalNotUnderstood,
    Submitted,
)

INLINE_BYTES = 2_000


class Signals:
    """The signal handlers of a thread, and the facts that wait to be taken in."""

    def __init__(self) -> None:
        self._facts: deque[Fact] = deque()
        self._signals = 0
        self._submissions = 0

    @workflow.signal(name=names.SIGNAL_SUBMIT, description='Messages for the run: {"input": "…"}')
    def submit(self, *args: Any) -> None:
        group = f"submit:{self._submissions}"
        self._submissions += 1
        self._signal(names.SIGNAL_SUBMIT, args, lambda written: _submitted(written, group))

    @workflow.signal(
        name=names.SIGNAL_DECIDE, description='Answer a suspended call: {"call_id": "…", "action": "resume" | "cancel"}'
    )
    def decide(self, *args: Any) -> None:
        self._signal(names.SIGNAL_DECIDE, args, lambda written: DecisionsReceived(parse_decisions(written)))

    @workflow.signal(name=names.SIGNAL_CANCEL, description='Cancel the run: {"reason": "…"}')
    def cancel(self, *args: Any) -> None:
        self._signal(names.SIGNAL_CANCEL, args, lambda written: CancelRequested(parse_cancel(written).reason))

    @workflow.signal(name=names.SIGNAL_LETTERS, description='Dead letters: {"action": "replay" | "clear"}')
    def letters(self, *args: Any) -> None:
        self._signal(names.SIGNAL_LETTERS, args, lambda written: LettersWanted(parse_letters(written).action))

    @workflow.signal(name=names.SIGNAL_DELIVER, description="Mail from another agent, or from a running task")
    def deliver(self, *args: Any) -> None:
        self._signal(names.SIGNAL_DELIVER, args, lambda written: MailReceived(parse_mail(written)))

    @workflow.signal(name=names.SIGNAL_SETTLED, description="A sub-agent or a task has ended")
    def settled(self, *args: Any) -> None:
        self._signal(names.SIGNAL_SETTLED, args, lambda written: ChildSettled(parse_settled(written)))

    @workflow.signal(name=names.SIGNAL_RETURNED, description="A message could not be read: its recipient had ended")
    def returned(self, *args: Any) -> None:
        self._signal(names.SIGNAL_RETURNED, args, _returned)

    @workflow.signal(name=names.SIGNAL_LEND, description="A sub-agent has spent what it may and asks for more")
    def lend(self, *args: Any) -> None:
        self._signal(names.SIGNAL_LEND, args, lambda written: LoanAsked(parse_loan(written)))

    @workflow.signal(name=names.SIGNAL_GRANT, description="The parent's answer: what may be spent in all, or no more")
    def grant(self, *args: Any) -> None:
        self._signal(names.SIGNAL_GRANT, args, lambda written: Granted(parse_grant(written)))

    @workflow.signal(dynamic=True)
    def unknown_signal(self, name: str, _args: Sequence[RawValue]) -> None:
        self._signals += 1
        known = ", ".join((names.SIGNAL_SUBMIT, names.SIGNAL_DECIDE, names.SIGNAL_CANCEL))
        self._facts.append(SignalNotUnderstood(name, f"there is no signal {name!r}; known: {known}"))

    def _signal(self, name: str, args: Sequence[Any], understood: Callable[[Any], Fact]) -> None:
        """Append what was sent as a fact. Handlers take any arguments, since one that raises would hang the run."""
        self._signals += 1
        try:
            self._facts.append(understood(single(args)))
        except Exception as error:  # whatever anybody may send must not be able to hang the run
            self._facts.append(SignalNotUnderstood(name, str(error)))


def single(args: Sequence[Any]) -> Any:
    """The one value that was sent, or nothing.

    Raises:
        CallerError: there are several.
    """
    if len(args) > 1:
        raise CallerError(f"it takes one JSON value, got {len(args)}")
    return args[0] if args else None


def _submitted(written: Any, group: str) -> Fact:
    submission = parse_submission(written)
    messages = []
    for index, written_message in enumerate(submission.messages):
        place = f"{group}:{index}"
        message = written_message.as_message(place)
        # A short message rides along with the next inference, whose worker need not read history for it.
        is_short = len(message.model_dump_json()) <= INLINE_BYTES
        source = message if is_short else place
        messages.append(Submitted(message, source, group, submission.agent_id, submission.overrides))
    return MessagesSubmitted(tuple(messages), submission.on_busy)


def _returned(written: Any) -> Fact:
    returned = parse_returned(written)
    return LetterReturned(returned.letter, returned.error)
