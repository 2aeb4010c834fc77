"""What clients change of what a thread has accepted: they withdraw and edit messages, and revoke permission rules.

A message can be changed until a run reads it. A change that comes too late is refused, with the reason; each change has
one outcome for each message or rule that it names, under the id of its request.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from wakeful.contract import ids
from wakeful.contract.base import replace
from wakeful.contract.carryover import AgentRules
from wakeful.contract.events import MessageEdited, MessagesWithdrawn, RulesRevoked
from wakeful.contract.limits import cut
from wakeful.contract.names import SIGNAL_EDIT, SIGNAL_REVOKE, SIGNAL_WITHDRAW
from wakeful.contract.outcomes import OutcomeStatus
from wakeful.contract.permissions import Rule
from wakeful.loop.machine.events import refuse
from wakeful.loop.machine.facts import ChangeFact, EditRequested, RevocationRequested, Submitted, WithdrawalRequested
from wakeful.loop.machine.stages import Done
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.thread import ending
from wakeful.loop.thread.outcomes import (
    count_repeated_changes,
    message_status,
    record_changes,
    record_messages,
    tenant_problem,
)
from wakeful.loop.thread.submissions import source_of
from wakeful.loop.thread.waiting import no_room_for


def on_change_requested(thread: Thread, request: ChangeFact, *, now: int) -> Advance:
    """Apply a change, as far as it does not come too late. A change that was applied before is a no-op."""
    if (reason := tenant_problem(thread, request.tenant, "change")) is not None:
        return refuse_change(thread, request, reason, now=now)
    thread, subjects = count_repeated_changes(thread, request.request_id, _subjects(request))
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
    thread, subjects = count_repeated_changes(thread, request.request_id, _subjects(request))
    return _with_outcomes(Advance(thread), request, dict.fromkeys(subjects, reason), now=now)


def _subjects(request: ChangeFact) -> tuple[str, ...]:
    """The messages or rules that a change names."""
    match request:
        case WithdrawalRequested(message_ids=named) | RevocationRequested(tools=named):
            return named
        case EditRequested(message=message):
            return (message.id or "",)
        case _:
            assert_never(request)


def _with_outcomes(moved: Advance, request: ChangeFact, refusals: Mapping[str, str | None], *, now: int) -> Advance:
    """Record what became of each subject: why it is refused, or None if the change is applied."""
    signal = {WithdrawalRequested: SIGNAL_WITHDRAW, EditRequested: SIGNAL_EDIT, RevocationRequested: SIGNAL_REVOKE}
    moved = replace(moved, thread=record_changes(moved.thread, request.request_id, refusals))
    return moved.then(refuse, signal[type(request)], *filter(None, refusals.values()), now=now)


def _withdraw(thread: Thread, request: WithdrawalRequested, message_ids: Sequence[str], *, now: int) -> Advance:
    waiting = {later.message.id: later for later in _changeable(thread)}
    withdrawn = [waiting[named] for named in message_ids if named in waiting]
    refusals = dict[str, str | None]()
    for named in message_ids:
        status = message_status(thread, named)
        is_applied = named in waiting or status is OutcomeStatus.WITHDRAWN
        refusals[named] = None if is_applied else _why_not(named, status)
    moved = Advance(thread)
    if withdrawn:
        gone = set(map(id, withdrawn))
        left = _mapping(thread, lambda later: None if id(later) in gone else later)
        event = MessagesWithdrawn(message_ids=tuple(later.message.id for later in withdrawn))
        moved = Advance(record_messages(left, withdrawn, OutcomeStatus.WITHDRAWN), events=(event,))
        moved = moved.then(ending.list_unread) if isinstance(thread.stage, Done) else moved
    return _with_outcomes(moved, request, refusals, now=now)


def _edit(thread: Thread, request: EditRequested, *, now: int) -> Advance:
    [id] = _subjects(request)
    before = next((later for later in _changeable(thread) if later.message.id == id), None)
    if before is None:
        reason = _why_not(id, message_status(thread, id))
        return _with_outcomes(Advance(thread), request, {id: reason}, now=now)
    message = request.message.as_message(id)
    source = source_of(message, ids.FromSubmit(thread.counters.submissions, 0))
    edited = before.model_copy(update={"message": message, "source": source})
    others = _mapping(thread, lambda later: None if later is before else later)
    if (problem := no_room_for(others, (edited,))) is not None:
        return _with_outcomes(Advance(thread), request, {id: problem}, now=now)
    thread = _mapping(thread, lambda later: edited if later is before else later)
    return _with_outcomes(Advance(thread, events=(MessageEdited(message=message),)), request, {id: None}, now=now)


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


def _why_not(message_id: str, status: OutcomeStatus | None) -> str:
    """Why a message with this status cannot be changed."""
    match status:
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


def _revoke(thread: Thread, request: RevocationRequested, tools: Sequence[str], *, now: int) -> Advance:
    rules = thread.inherited_rules if request.inherited else thread.permissions
    revoked = tuple(rule for rule in rules if rule.tool in tools)
    left = (_without_inherited if request.inherited else _without)(thread, revoked)
    event = RulesRevoked(rules=revoked, inherited=request.inherited, actor=request.actor, reason=request.reason)
    known = {rule.tool for rule in revoked}
    why_not = _WhyNot.of(left)
    reason = why_not.inherited if request.inherited else why_not.own
    refusals = {tool: None if tool in known else reason(tool) for tool in tools}
    return _with_outcomes(Advance(left, events=(event,) if revoked else ()), request, refusals, now=now)


def _without(thread: Thread, revoked: tuple[Rule, ...]) -> Thread:
    """The thread without these rules, also after a rollback of its run."""

    def left(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        return tuple(rule for rule in rules if rule not in revoked)

    thread = replace(thread, permissions=left(thread.permissions))
    if (run := thread.run) is None or run.before is None:
        return thread
    return thread.with_run(replace(run, before=replace(run.before, permissions=left(run.before.permissions))))


def _without_inherited(thread: Thread, lifted: tuple[Rule, ...]) -> Thread:
    """The thread without these rules of its ancestors. Those of its first request are the same ones."""

    def left(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        return tuple(rule for rule in rules if rule not in lifted)

    def left_by(agents: tuple[AgentRules, ...]) -> tuple[AgentRules, ...]:
        return tuple(each.model_copy(update={"rules": left(each.rules)}) for each in agents)

    thread = replace(thread, authority=left(thread.authority), handed_over=left_by(thread.handed_over))
    if (run := thread.run) is None:
        return thread
    run = replace(run, permissions=left(run.permissions), requested=left(run.requested), authority=left(run.authority))
    if run.before is not None:
        run = replace(run, before=replace(run.before, handed_over=left_by(run.before.handed_over)))
    return thread.with_run(run)


@dataclass(frozen=True)
class _WhyNot:
    """Why a thread has no rule to revoke, by the `tool` of the rules that it does have."""

    of_run: frozenset[str]
    of_ancestors: tuple[str, ...]

    @classmethod
    def of(cls, thread: Thread) -> "_WhyNot":
        ancestors = dict.fromkeys(rule.tool for rule in thread.inherited_rules)
        return cls(frozenset(rule.tool for rule in thread.own_rules), tuple(ancestors))

    def inherited(self, tool: str) -> str:
        known = cut(", ".join(map(repr, self.of_ancestors))) or "none"
        return f"the thread has inherited no rule for {tool!r}; inherited: {known}"

    def own(self, tool: str) -> str:
        if tool in self.of_run:
            return f"the rule for {tool!r} is of the run, and ends with it"
        if tool in self.of_ancestors:
            holds = "and holds in every run of this thread; inherited=True lifts it"
            return f"the rule for {tool!r} is an ancestor's, {holds}"
        return f"the thread has no rule for {tool!r}; an agent's own rules are changed where the agent is defined"
