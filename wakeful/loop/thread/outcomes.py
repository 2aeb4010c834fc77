"""Record what becomes of decisions, messages and changes. A thread remembers the newest of them."""

from collections.abc import Iterable

from wakeful.contract.base import replace
from wakeful.contract.decisions import Decision
from wakeful.contract.errors import other_tenant_reason
from wakeful.contract.limits import cut
from wakeful.contract.names import SIGNAL_DECIDE, SIGNAL_SUBMIT
from wakeful.contract.outcomes import REASON_LENGTH, Outcome, OutcomeStatus, remembered_id
from wakeful.loop.machine.events import refuse
from wakeful.loop.machine.facts import Submitted
from wakeful.loop.machine.state import Advance, Thread

REMEMBERED_OUTCOMES = 1000
OUTCOMES_BYTES = 100_000
"""How many outcomes a thread remembers, and their size; the oldest are dropped. A thread may live for years."""

_OVERHEAD = 60
"""Bytes of an outcome's JSON besides its texts."""


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


def refuse_decisions(thread: Thread, batch: tuple[Decision, ...], reason: str, *, now: int) -> Advance:
    """Refuse a batch of decisions; what became of one that was applied before, in any run, does not change."""
    applied = [outcome for outcome in thread.outcomes if outcome.status is OutcomeStatus.APPLIED]
    new = (
        decision
        for decision in batch
        if not any(_is_of(outcome, decision.decision_id, decision.target) for outcome in applied)
    )
    refused = _of_decisions(thread, new, OutcomeStatus.REFUSED, reason=cut(reason, REASON_LENGTH))
    return refuse(record(thread, refused), SIGNAL_DECIDE, reason, now=now)


def record_held(thread: Thread, batch: tuple[Decision, ...]) -> Thread:
    """The thread with a batch that waits for its calls."""
    new = (decision for decision in batch if not was_applied(thread, decision, decision.target))
    held = _of_decisions(thread, new, OutcomeStatus.HELD)
    return record(thread, (outcome for outcome in held if outcome not in thread.outcomes))


def record_applied(thread: Thread, decision: Decision, *calls: str) -> Thread:
    """The thread with a decision applied to a call, which has these ids."""
    if decision.decision_id is None:
        return thread
    applied = Outcome(
        id=remembered_id(decision.decision_id),
        status=OutcomeStatus.APPLIED,
        calls=tuple(map(remembered_id, calls)),
        run=thread.current.number,
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


def record_change(
    thread: Thread, request_id: str | None, subject: str, status: OutcomeStatus, *, reason: str = ""
) -> Thread:
    """The thread with what became of a change of one subject; a request without an id has no outcome."""
    if request_id is None:
        return thread
    run, id, subject = thread.run.number if thread.run else 0, remembered_id(request_id), remembered_id(subject)
    reason = cut(reason, REASON_LENGTH)
    return record(thread, (Outcome(id=id, status=status, reason=reason, subject=subject, run=run),))


def repeated_change(thread: Thread, request_id: str | None, subject: str) -> Thread | None:
    """The thread after a change was sent again that was applied to its subject before; None if it was not."""
    if request_id is None:
        return None
    id, subject = remembered_id(request_id), remembered_id(subject)
    known = (it for it in thread.outcomes if (it.id, it.subject, it.status) == (id, subject, OutcomeStatus.APPLIED))
    applied = next(known, None)
    return None if applied is None else record(thread, (_repeated(applied),))


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
    thread: Thread, decisions: Iterable[Decision], status: OutcomeStatus, *, reason: str = ""
) -> list[Outcome]:
    """The outcomes of decisions, each once; those without an id have none."""
    run = thread.run.number if thread.run else 0
    named = {(decision.decision_id, decision.target): decision for decision in decisions}
    return [
        Outcome(id=remembered_id(id), status=status, reason=reason, calls=(remembered_id(target),), run=run)
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
    """As many of the newest as a thread remembers."""
    room, start = OUTCOMES_BYTES, len(outcomes)
    for place in reversed(range(max(0, len(outcomes) - REMEMBERED_OUTCOMES), len(outcomes))):
        room -= _size(outcomes[place])
        if room < 0:
            break
        start = place
    return outcomes[start:]


def _size(outcome: Outcome) -> int:
    texts = (outcome.id, outcome.reason, outcome.subject, *outcome.calls)
    return _OVERHEAD + sum(len(text.encode(errors="surrogatepass")) for text in texts)
