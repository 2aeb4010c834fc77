"""The signal handler of a thread. It only appends facts; a malformed signal is a fact, too."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

from wakeful.contract import names
from wakeful.contract.errors import CallerError
from wakeful.contract.missing import Missing
from wakeful.contract.requests import (
    parse_budget_grant,
    parse_budget_request,
    parse_cancel,
    parse_child_settled,
    parse_close,
    parse_decide,
    parse_edit,
    parse_mail,
    parse_mail_returned,
    parse_missing_report,
    parse_revoke,
    parse_submission,
    parse_undelivered_request,
    parse_withdraw,
    read_signal,
)
from wakeful.loop.machine.facts import (
    BudgetGranted,
    BudgetRequested,
    CancelRequested,
    ChildSettled,
    DecisionsReceived,
    EditRequested,
    Fact,
    MailReceived,
    MailReturned,
    MessagesSubmitted,
    RevocationRequested,
    SignalMalformed,
    UndeliveredRequested,
    WithdrawalRequested,
)
from wakeful.undecodable import checked
from wakeful_workflows.history_estimate import SIGNAL, HistoryEstimate
from wakeful_workflows.run_trace import RunTrace

SIGNALS_DESCRIPTION = (
    'submit {"input": "…"}: messages for the thread; '
    'decide {"call_id": "…", "action": "resume" | "cancel"}: answer a suspended tool call; '
    'cancel {"reason": "…"}: cancel the run; close: cancel the run and close the thread; '
    'undelivered {"action": "replay" | "clear"}: send undelivered messages again, or drop them; '
    'withdraw {"message_ids": ["…"]}, edit {"message": {"id": "…", "content": "…"}}: messages that no run has read; '
    'revoke {"tools": ["…"]}: permission rules of the thread'
)


class Signals:
    """Collects facts until the workflow takes them.

    One dynamic handler takes every signal, because it alone gets raw payloads: what the SDK cannot decode for a named
    handler it drops, so that neither the sender nor the thread would know of it.
    """

    def __init__(self, history: HistoryEstimate) -> None:
        self._facts: deque[Fact] = deque()
        self._signals = 0
        self._history = history
        self._missing: dict[str, Missing] = {}
        """What workers lacked for activities, by activity: for the details only."""
        self._has_report = False
        self._trace: RunTrace | None = None

    @workflow.signal(dynamic=True, description=SIGNALS_DESCRIPTION)
    def on_signal(self, name: str, args: Sequence[RawValue]) -> None:
        """Append the signal as a fact; one that cannot be read is a fact, too. It never raises."""
        self._signals += 1
        payloads = [arg.payload for arg in args]
        self._history.add(SIGNAL, size=sum(payload.ByteSize() for payload in payloads))
        if name == names.SIGNAL_MISSING:
            self._take_report(payloads)
        else:
            self._facts.append(_fact(name, payloads))
            if self._trace is not None:
                self._trace.on_sent(self._facts[-1])

    def _take_report(self, payloads: Sequence[Payload]) -> None:
        """Not a fact: it changes what the thread shows, and nothing that it does."""
        with suppress(CallerError):
            report = read_signal(payloads, _decoded, parse_missing_report)
            self._missing[report.activity_id] = report.missing
            self._has_report = True


def _fact(name: str, payloads: Sequence[Payload]) -> Fact:
    parse = _PARSERS.get(name)
    if parse is None:
        known = ", ".join(names.PUBLIC_SIGNALS)
        return SignalMalformed(name, f"there is no signal {name!r}; known: {known}")
    try:
        return read_signal(payloads, _decoded, parse)
    except CallerError as error:
        return SignalMalformed(name, str(error))


def _decoded(payload: Payload) -> Any:
    return workflow.payload_converter().from_payload(checked(payload))


def _submitted(payload: object) -> Fact:
    submission = parse_submission(payload)
    return MessagesSubmitted(
        submission.messages,
        submission.on_busy,
        submission.agent_id,
        submission.run_mode,
        submission.caller,
        submission.settings,
    )


def _decisions(payload: object) -> Fact:
    request = parse_decide(payload)
    return DecisionsReceived(request.decisions, request.tenant, request.run_id)


def _cancel(payload: object) -> Fact:
    request = parse_cancel(payload)
    return CancelRequested(request.reason, run_id=request.run_id)


def _withdrawal(payload: object) -> Fact:
    request = parse_withdraw(payload)
    return WithdrawalRequested(request.message_ids, request.request_id, request.tenant)


def _edit(payload: object) -> Fact:
    request = parse_edit(payload)
    return EditRequested(request.message, request.request_id, request.tenant)


def _revocation(payload: object) -> Fact:
    request = parse_revoke(payload)
    return RevocationRequested(
        request.tools, request.request_id, request.tenant, request.inherited, request.actor, request.reason
    )


def _mail_returned(payload: object) -> Fact:
    returned = parse_mail_returned(payload)
    return MailReturned(returned.message, returned.error)


_PARSERS: Mapping[str, Callable[[object], Fact]] = {
    names.SIGNAL_SUBMIT: _submitted,
    names.SIGNAL_DECIDE: _decisions,
    names.SIGNAL_CANCEL: _cancel,
    names.SIGNAL_CLOSE: lambda payload: CancelRequested(parse_close(payload).reason, close=True),
    names.SIGNAL_UNDELIVERED: lambda payload: UndeliveredRequested(parse_undelivered_request(payload).action),
    names.SIGNAL_WITHDRAW: _withdrawal,
    names.SIGNAL_EDIT: _edit,
    names.SIGNAL_REVOKE: _revocation,
    names.SIGNAL_DELIVER: lambda payload: MailReceived(parse_mail(payload)),
    names.SIGNAL_MAIL_RETURNED: _mail_returned,
    names.SIGNAL_CHILD_SETTLED: lambda payload: ChildSettled(parse_child_settled(payload)),
    names.SIGNAL_BUDGET_REQUEST: lambda payload: BudgetRequested(parse_budget_request(payload)),
    names.SIGNAL_BUDGET_GRANT: lambda payload: BudgetGranted(parse_budget_grant(payload)),
}
