"""Record what becomes of decisions, messages and changes. A thread remembers the newest of them.

Accepted messages are counted apart from everything else: what a thread has forgotten it would read again. Decisions and
changes name what can be decided or changed once, so a forgotten one is at most refused where it would be a repeat.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wakeful.contract.base import replace
from wakeful.contract.decisions import Decision
from wakeful.contract.errors import other_tenant_reason
from wakeful.contract.limits import cut
from wakeful.contract.names import SIGNAL_DECIDE, SIGNAL_SUBMIT
from wakeful.contract.outcomes import (
    ACTOR_LENGTH,
    REASON_LENGTH,
    AppliedDecision,
    Outcome,
    OutcomeStatus,
    remembered_id,
)
from wakeful.loop.machine.events import refuse
from wakeful.loop.machine.facts import Submitted
from wakeful.loop.machine.state import Advance, Thread

REMEMBERED_OUTCOMES = 1000
OUTCOMES_BYTES = 100_000
"""How many outcomes of accepted messages a thread remembers, and how many others, and the size of each; the oldest are
dropped. A thread may live for years."""

_OVERHEAD = 60
_DECIDED_OVERHEAD = 60
"""Bytes of an outcome's JSON besides its texts, and of what it says of a decision."""


def record(thread: Thread, outcomes: Iterable[Outcome]) -> Thread:
    """The thread with these outcomes as its newest, in place of the earlier ones of the same."""
    new = tuple(outcomes)
    if not new:
        return thread
    by_id: dict[str, list[Outcome]] = {}
    for outcome in new:
        by_id.setdefault(outcome.id, []).append(outcome)
    others = [known for known in thread.outcomes if not any(_is_same(known, it) for it in by_id.get(known.id, ()))]
    return replace(thread, outcomes=newest((*others, *new)))


def record_messages(thread: Thread, messages: Iterable[Submitted], status: OutcomeStatus, *, run: int = 0) -> Thread:
    """The thread with this outcome of accepted messages."""
    known = {outcome.id: outcome.repeats for outcome in thread.outcomes if outcome.is_accepted_message}
    ids = (remembered_id(submitted.message.id) for submitted in messages)
    return record(thread, (Outcome(id=id, status=status, run=run, repeats=known.get(id, 0)) for id in ids))


def accepted_ids(thread: Thread) -> frozenset[str]:
    """The ids of messages that would be repeats, as they are remembered."""
    return frozenset(outcome.id for outcome in thread.outcomes if outcome.is_accepted_message)


def count_repeats(thread: Thread, ids: Iterable[str]) -> Thread:
    """The thread after messages were sent again; a repeat has no other effect."""
    repeated = frozenset(map(remembered_id, ids))
    known = (outcome for outcome in thread.outcomes if outcome.id in repeated and outcome.is_accepted_message)
    return record(thread, map(_repeated, known))


def tenant_problem(thread: Thread, tenant: str | None, sent: str) -> str | None:
    """Why the thread refuses what a client of this tenant has sent; a client that names none is the thread's own."""
    return None if tenant in (None, thread.identity.tenant) else other_tenant_reason(tenant, sent)


def refuse_messages(thread: Thread, ids: Iterable[str], reason: str, *, now: int) -> Advance:
    """Refuse a submission; what became of a message that was accepted before does not change."""
    accepted, sent = accepted_ids(thread), tuple(dict.fromkeys(map(remembered_id, ids)))
    refused = [
        Outcome(id=id, status=OutcomeStatus.REFUSED, reason=cut(reason, REASON_LENGTH))
        for id in sent
        if id not in accepted
    ]
    return refuse(count_repeats(record(thread, refused), sent), SIGNAL_SUBMIT, reason, now=now)


def refuse_decisions(
    thread: Thread, batch: tuple[Decision, ...], reason: str, *, now: int, decided: AppliedDecision | None = None
) -> Advance:
    """Refuse a batch of decisions; what became of one that was applied before, in any run, does not change.

    Args:
        decided: the earlier decision on a call of the batch, if that is the reason.
    """
    applied = [outcome for outcome in thread.outcomes if outcome.status is OutcomeStatus.APPLIED]
    new = (
        decision
        for decision in batch
        if not any(_is_of(outcome, decision.decision_id, decision.target) for outcome in applied)
    )
    refused = _of_decisions(thread, new, OutcomeStatus.REFUSED, reason=cut(reason, REASON_LENGTH), decided=decided)
    return refuse(record(thread, refused), SIGNAL_DECIDE, reason, now=now)


def record_held(thread: Thread, batch: tuple[Decision, ...]) -> Thread:
    """The thread with a batch that waits for its calls."""
    new = (decision for decision in batch if not was_applied(thread, decision, decision.target))
    held = _of_decisions(thread, new, OutcomeStatus.HELD)
    return record(thread, (outcome for outcome in held if outcome not in thread.outcomes))


def record_applied(thread: Thread, decision: Decision, *calls: str, now: int) -> Thread:
    """The thread with a decision applied to a call, which has these ids. One that has no id is recorded without."""
    actor = None if decision.actor is None else cut(decision.actor, ACTOR_LENGTH)
    applied = Outcome(
        id=remembered_id(decision.decision_id or ""),
        status=OutcomeStatus.APPLIED,
        calls=tuple(map(remembered_id, calls)),
        run=thread.current.number,
        decided=AppliedDecision(action=decision.action, actor=actor, at=now),
    )
    return record(thread, (applied,))


def record_repeated(thread: Thread, decision: Decision, *calls: str) -> Thread:
    """The thread after a decision was sent again that had been applied to the call with one of these ids, if it was."""
    applied = (it for it in thread.outcomes if _is_applied(thread, it, decision.decision_id, *calls))
    named = tuple(map(remembered_id, calls))
    return record(
        thread,
        (_repeated(it).model_copy(update={"calls": tuple(dict.fromkeys((*it.calls, *named)))}) for it in applied),
    )


def record_changes(thread: Thread, request_id: str | None, refusals: Mapping[str, str | None]) -> Thread:
    """The thread with what became of a change, by subject: why it was refused, or None if it was applied.

    All of them at once: the time that a thread takes for each is that of all that it remembers. A request without an id
    has no outcome.
    """
    if request_id is None:
        return thread
    run, id = thread.run.number if thread.run else 0, remembered_id(request_id)
    return record(thread, (_of_change(id, subject, reason, run=run) for subject, reason in refusals.items()))


def _of_change(id: str, subject: str, reason: str | None, *, run: int) -> Outcome:
    status = OutcomeStatus.APPLIED if reason is None else OutcomeStatus.REFUSED
    return Outcome(
        id=id, status=status, reason=cut(reason or "", REASON_LENGTH), subject=remembered_id(subject), run=run
    )


def count_repeated_changes(
    thread: Thread, request_id: str | None, subjects: Iterable[str]
) -> tuple[Thread, tuple[str, ...]]:
    """The thread after a change was sent again, and those of its subjects to which it was not applied before."""
    id = None if request_id is None else remembered_id(request_id)
    applied = {it.subject: it for it in thread.outcomes if it.id == id and it.status is OutcomeStatus.APPLIED}
    new, repeated = list[str](), list[Outcome]()
    for subject in dict.fromkeys(subjects):
        known = applied.get(remembered_id(subject))
        if known is None:
            new.append(subject)
        else:
            repeated.append(_repeated(known))
    return record(thread, repeated), tuple(new)


def was_applied(thread: Thread, decision: Decision, *calls: str) -> bool:
    """Whether the newest run has applied the same decision id to the call with one of these ids."""
    return any(_is_applied(thread, outcome, decision.decision_id, *calls) for outcome in thread.outcomes)


def without_unread(thread: Thread) -> Thread:
    """A thread that has ended: no run reads what is queued. Mail is kept for the execution that wakes the thread."""
    unread = [later for later in (*thread.queued, *thread.steering) if not later.internal]
    waiting = {outcome.id for outcome in thread.outcomes if outcome.status is not OutcomeStatus.UNREAD}
    new = [later for later in unread if remembered_id(later.message.id) in waiting]
    return record_messages(thread, new, OutcomeStatus.UNREAD)


def after_rollback(thread: Thread, mail: Iterable[Submitted]) -> Thread:
    """The thread without what its newest run has read; the next run reads the `mail` again."""
    undone = (
        outcome.model_copy(update={"status": OutcomeStatus.ROLLED_BACK})
        for outcome in thread.outcomes
        if outcome.status is OutcomeStatus.READ and outcome.run == thread.current.number
    )
    return record_messages(record(thread, undone), mail, OutcomeStatus.STEERING)


def _is_applied(thread: Thread, outcome: Outcome, decision_id: str | None, *calls: str) -> bool:
    return (
        outcome.status is OutcomeStatus.APPLIED
        and thread.run is not None
        and outcome.run == thread.run.number
        and _is_of(outcome, decision_id, *calls)
    )


def _is_of(outcome: Outcome, decision_id: str | None, *calls: str) -> bool:
    """Whether it is the outcome of this decision for the call with one of these ids."""
    if decision_id is None or outcome.id != remembered_id(decision_id):
        return False
    return not set(outcome.calls).isdisjoint(map(remembered_id, calls))


def _of_decisions(
    thread: Thread,
    decisions: Iterable[Decision],
    status: OutcomeStatus,
    *,
    reason: str = "",
    decided: AppliedDecision | None = None,
) -> list[Outcome]:
    """The outcomes of decisions, each once; those without an id have none."""
    run = thread.run.number if thread.run else 0
    named = {(decision.decision_id, decision.target): decision for decision in decisions}
    same = Outcome(id="", status=status, reason=reason, run=run, decided=decided)
    return [
        same.model_copy(update={"id": remembered_id(id), "calls": (remembered_id(target),)})
        for id, target in named
        if id is not None
    ]


def _repeated(outcome: Outcome) -> Outcome:
    return outcome.model_copy(update={"repeats": outcome.repeats + 1})


def _is_same(one: Outcome, other: Outcome) -> bool:
    """Whether both are of the same message, or of the same decision or change for the same call or subject."""
    if one.subject != other.subject:
        return False
    if not one.calls or not other.calls:
        return not one.calls and not other.calls
    return not set(one.calls).isdisjoint(other.calls)


def newest(outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    """As many of the newest as a thread remembers, of accepted messages and of everything else."""
    room = {True: _Room(), False: _Room()}
    kept = [outcome for outcome in reversed(outcomes) if room[outcome.is_accepted_message].has_room_for(outcome)]
    return outcomes if len(kept) == len(outcomes) else tuple(reversed(kept))


@dataclass(slots=True)
class _Room:
    """What is left for the outcomes of a kind, from the newest to the oldest."""

    number: int = REMEMBERED_OUTCOMES
    size: int = OUTCOMES_BYTES

    def has_room_for(self, outcome: Outcome) -> bool:
        if self.number <= 0 or self.size < 0:
            return False
        self.number -= 1
        self.size -= _size(outcome)
        return self.size >= 0


def _size(outcome: Outcome) -> int:
    texts = (outcome.id, outcome.reason, outcome.subject, *outcome.calls)
    size = _OVERHEAD + sum(map(_bytes, texts))
    return size if outcome.decided is None else size + _DECIDED_OVERHEAD + _bytes(outcome.decided.actor or "")


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
