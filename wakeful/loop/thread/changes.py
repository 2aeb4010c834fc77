"""What clients change of what a thread has accepted: they withdraw and edit messages, and revoke permission rules.

A message can be changed until a run reads it. A change that comes too late is refused, with the reason; each change has
one outcome for each message or rule that it names, under the id of its request.
"""

from collections.abc import Callable
from typing import assert_never

from wakeful.contract import ids
from wakeful.contract.base import replace
from wakeful.contract.events import MessageEdited, MessagesWithdrawn, RulesRevoked
from wakeful.contract.names import SIGNAL_EDIT, SIGNAL_REVOKE, SIGNAL_WITHDRAW
from wakeful.contract.outcomes import OutcomeStatus, remembered_id
from wakeful.contract.permissions import Rule
from wakeful.loop.machine.events import refuse
from wakeful.loop.machine.facts import ChangeFact, EditRequested, RevocationRequested, Submitted, WithdrawalRequested
from wakeful.loop.machine.stages import Done
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.thread import ending
from wakeful.loop.thread.outcomes import record_change, record_messages, repeated_change, tenant_problem
from wakeful.loop.thread.submissions import source_of
from wakeful.loop.thread.waiting import no_room_for


def on_change_requested(thread: Thread, request: ChangeFact, *, now: int) -> Advance:
    """Apply a change, as far as it does not come too late. A change that was applied before is a no-op."""
    if (reason := tenant_problem(thread, request.tenant, "change")) is not None:
        return refuse_change(thread, request, reason, now=now)
    thread, subjects = _without_repeats(thread, request)
    match request:
        case WithdrawalRequested():
            return _withdraw(thread, request, subjects, now=now)
        case EditRequested():
            return _edit(thread, request, now=now) if subjects else Advance(thread)
        case RevocationRequested():
            return _revoke(thread, request, subjects, now=now)
        case _:
            assert_never(request)


def refuse_change(thread: Thread, request: ChangeFact, reason: str, *, now: int) -> Advance:
    """Refuse all of a change, except what was applied before."""
    thread, subjects = _without_repeats(thread, request)
    moved = Advance(thread)
    for subject in subjects:
        moved = moved.then(_refuse, request, subject, reason, now=now)
    return moved


def _without_repeats(thread: Thread, request: ChangeFact) -> tuple[Thread, list[str]]:
    """What a change names, each once, without that to which it was applied before: it is counted there."""
    subjects: list[str] = []
    for subject in dict.fromkeys(_subjects(request)):
        repeated = repeated_change(thread, request.request_id, subject)
        thread = thread if repeated is None else repeated
        subjects += [subject] if repeated is None else []
    return thread, subjects


def _subjects(request: ChangeFact) -> tuple[str, ...]:
    """The messages or rules that a change names."""
    match request:
        case WithdrawalRequested(message_ids=named) | RevocationRequested(tools=named):
            return named
        case EditRequested(message=message):
            return (message.id or "",)
        case _:
            assert_never(request)


def _refuse(thread: Thread, request: ChangeFact, subject: str, reason: str, *, now: int) -> Advance:
    signal = {WithdrawalRequested: SIGNAL_WITHDRAW, EditRequested: SIGNAL_EDIT, RevocationRequested: SIGNAL_REVOKE}
    thread = record_change(thread, request.request_id, subject, OutcomeStatus.REFUSED, reason=reason)
    return refuse(thread, signal[type(request)], reason, now=now)


def _withdraw(thread: Thread, request: WithdrawalRequested, message_ids: list[str], *, now: int) -> Advance:
    waiting = {later.message.id: later for later in _changeable(thread)}
    withdrawn = [waiting[id] for id in message_ids if id in waiting]
    moved = Advance(thread)
    if withdrawn:
        left = _mapping(thread, lambda later: None if later in withdrawn else later)
        event = MessagesWithdrawn(message_ids=tuple(later.message.id for later in withdrawn))
        moved = Advance(record_messages(left, withdrawn, OutcomeStatus.WITHDRAWN), events=(event,))
        moved = moved.then(ending.list_unread) if isinstance(thread.stage, Done) else moved
    for id in message_ids:
        if id in waiting or _status(thread, id) is OutcomeStatus.WITHDRAWN:
            moved = replace(moved, thread=record_change(moved.thread, request.request_id, id, OutcomeStatus.APPLIED))
        else:
            moved = moved.then(_refuse, request, id, _why_not(thread, id), now=now)
    return moved


def _edit(thread: Thread, request: EditRequested, *, now: int) -> Advance:
    [id] = _subjects(request)
    before = next((later for later in _changeable(thread) if later.message.id == id), None)
    if before is None:
        return _refuse(thread, request, id, _why_not(thread, id), now=now)
    message = request.message.as_message(id)
    edited = replace(before, message=message, source=source_of(message, ids.FromSubmit(thread.counters.submissions, 0)))
    others = _mapping(thread, lambda later: None if later is before else later)
    if (problem := no_room_for(others, (edited,))) is not None:
        return _refuse(thread, request, id, problem, now=now)
    thread = _mapping(thread, lambda later: edited if later is before else later)
    thread = record_change(thread, request.request_id, id, OutcomeStatus.APPLIED)
    return Advance(thread, events=(MessageEdited(message=message),))


def _changeable(thread: Thread) -> tuple[Submitted, ...]:
    """The messages of clients that no run has read; mail belongs to its sender."""
    return tuple(later for later in (*thread.steering, *thread.queued) if not later.internal)


def _mapping(thread: Thread, change: Callable[[Submitted], Submitted | None]) -> Thread:
    """The thread with what `change` makes of each message that waits."""
    queued, steering = map(change, thread.queued), map(change, thread.steering)
    return replace(
        thread,
        queued=tuple(later for later in queued if later is not None),
        steering=tuple(later for later in steering if later is not None),
    )


def _status(thread: Thread, message_id: str) -> OutcomeStatus | None:
    id = remembered_id(message_id)
    return next((outcome.status for outcome in thread.outcomes if outcome.id == id and outcome.is_message), None)


def _why_not(thread: Thread, message_id: str) -> str:
    """Why a message cannot be changed."""
    match _status(thread, message_id):
        case OutcomeStatus.READ:
            return f"it is too late: a run has read message {message_id!r}"
        case OutcomeStatus.ROLLED_BACK:
            return f"it is too late: a run had read message {message_id!r}, and was rolled back"
        case OutcomeStatus.WITHDRAWN:
            return f"message {message_id!r} was withdrawn: send another one"
        case OutcomeStatus.REFUSED | None:
            return f"no message {message_id!r} waits in the thread"
        case _:
            return f"{message_id!r} is mail of another agent or a task: it is read as it was sent"


def _revoke(thread: Thread, request: RevocationRequested, tools: list[str], *, now: int) -> Advance:
    revoked = tuple(rule for rule in thread.permissions if rule.tool in tools)
    moved = Advance(_without(thread, revoked), events=(RulesRevoked(rules=revoked),) if revoked else ())
    for tool in tools:
        if tool in {rule.tool for rule in revoked}:
            moved = replace(moved, thread=record_change(moved.thread, request.request_id, tool, OutcomeStatus.APPLIED))
        else:
            moved = moved.then(_refuse, request, tool, _why_no_rule(thread, tool), now=now)
    return moved


def _without(thread: Thread, revoked: tuple[Rule, ...]) -> Thread:
    """The thread without these rules, also after a rollback of its run."""

    def left(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        return tuple(rule for rule in rules if rule not in revoked)

    thread = replace(thread, permissions=left(thread.permissions))
    if (run := thread.run) is None or run.before is None:
        return thread
    return thread.with_run(replace(run, before=replace(run.before, permissions=left(run.before.permissions))))


def _why_no_rule(thread: Thread, tool: str) -> str:
    of_run = thread.run.permissions if thread.run else thread.inherited_permissions
    if any(rule.tool == tool for rule in of_run):
        return f"the rule for {tool!r} is of the run, and ends with it"
    return f"the thread has no rule for {tool!r}; an agent's own rules are changed where the agent is defined"
