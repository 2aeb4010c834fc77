"""Record what becomes of decisions, messages and changes. A thread remembers the newest of them.

Accepted messages are counted apart from everything else: what a thread has forgotten it would read again. Decisions and
changes name what can be decided or changed once, so a forgotten one is at most refused where it would be a repeat.
"""

from collections.abc import Iterable, Mapping

from wakeful.contract.applied_decisions import REASON_LENGTH, AppliedDecision
from wakeful.contract.base import replace
from wakeful.contract.decisions import Decision
from wakeful.contract.errors import other_tenant_reason
from wakeful.contract.limits import cut
from wakeful.contract.names import SIGNAL_DECIDE, SIGNAL_SUBMIT
from wakeful.contract.outcomes import Outcome, OutcomeStatus, remembered_id
from wakeful.contract.remembered_outcomes import remembered
from wakeful.loop.machine import revisions
from wakeful.loop.machine.events import refuse
from wakeful.loop.machine.facts import Submitted
from wakeful.loop.machine.state import Advance, Thread


def record(thread: Thread, outcomes: Iterable[Outcome]) -> Thread:
    """The thread with these outcomes as its newest, in place of the earlier ones of the same."""
    new = tuple(outcomes)
    if not new:
        return thread
    return replace(thread, outcomes=remembered(thread.outcomes).with_newest(new))


def record_messages(thread: Thread, messages: Iterable[Submitted], status: OutcomeStatus, *, run: int = 0) -> Thread:
    """The thread with this outcome of accepted messages."""
    known = remembered(thread.outcomes)
    ids = [remembered_id(submitted.message.id) for submitted in messages]
    repeats = {id: it.repeats for id in ids for it in known.of(id) if it.is_accepted_message}
    return record(thread, (Outcome(id=id, status=status, run=run, repeats=repeats.get(id, 0)) for id in ids))


def is_accepted(thread: Thread, message_id: str) -> bool:
    """Whether a message with this id would be a repeat."""
    known = remembered(thread.outcomes).of(remembered_id(message_id))
    return any(outcome.is_accepted_message for outcome in known)


def message_status(thread: Thread, message_id: str) -> OutcomeStatus | None:
    """What became of a message; None if the thread does not know."""
    known = remembered(thread.outcomes).of(remembered_id(message_id))
    return next((outcome.status for outcome in reversed(known) if outcome.is_message), None)


def count_repeats(thread: Thread, ids: Iterable[str]) -> Thread:
    """The thread after messages were sent again; a repeat has no other effect."""
    sent, outcomes = frozenset(map(remembered_id, ids)), remembered(thread.outcomes)
    found = [outcome for id in sent for outcome in outcomes.of(id) if outcome.is_accepted_message]
    if len(found) > 1:
        found = [outcome for outcome in outcomes if outcome.id in sent and outcome.is_accepted_message]
    return record(thread, map(_repeated, found))


def tenant_problem(thread: Thread, tenant: str | None, sent: str) -> str | None:
    """Why the thread refuses what a client of this tenant has sent; a client that names none is the thread's own."""
    return None if tenant in (None, thread.identity.tenant) else other_tenant_reason(tenant, sent)


def run_problem(thread: Thread, run_id: str | None) -> str | None:
    """Why the thread refuses what a client has sent for this run alone; None if that is its newest."""
    if run_id is None:
        return None
    asked = f"it is for run {run_id!r}"
    if thread.run is None:
        return f"{asked}, but no run is under way"
    if thread.run.revision < revisions.GUARDED_SIGNALS:
        return f"{asked}; the newest run was begun by a release that does not know the field: leave out run_id"
    newest = thread.identity.run_id
    return None if run_id == newest else f"{asked}, but the newest run of the thread is {newest!r}"


def date_problem(thread: Thread, decisions: Iterable[Decision]) -> str | None:
    """Why the thread refuses decisions that say when they were made; None if it ignores that."""
    is_older = thread.run is not None and thread.run.revision < revisions.GUARDED_SIGNALS
    if is_older and any(decision.updated_at is not None for decision in decisions):
        return "the run was begun by a release that does not know the field: leave out updated_at"
    return None


def refuse_messages(thread: Thread, ids: Iterable[str], reason: str, *, now: int) -> Advance:
    """Refuse a submission; what became of a message that was accepted before does not change."""
    sent = tuple(dict.fromkeys(map(remembered_id, ids)))
    refused = [
        Outcome(id=id, status=OutcomeStatus.REFUSED, reason=cut(reason, REASON_LENGTH))
        for id in sent
        if not is_accepted(thread, id)
    ]
    return refuse(count_repeats(record(thread, refused), sent), SIGNAL_SUBMIT, reason, now=now)


def refuse_decisions(
    thread: Thread, batch: tuple[Decision, ...], reason: str, *, now: int, decided: AppliedDecision | None = None
) -> Advance:
    """Refuse a batch of decisions; what became of one that was applied before, in any run, does not change.

    Args:
        decided: the earlier decision on a call of the batch, if that is the reason.
    """
    known = remembered(thread.outcomes)
    new = (
        decision
        for decision in batch
        if not any(
            outcome.status is OutcomeStatus.APPLIED and _is_of(outcome, decision.decision_id, decision.target)
            for outcome in known.of(remembered_id(decision.decision_id or ""))
        )
    )
    refused = _of_decisions(thread, new, OutcomeStatus.REFUSED, reason=cut(reason, REASON_LENGTH), decided=decided)
    return refuse(record(thread, refused), SIGNAL_DECIDE, reason, now=now)


def record_held(thread: Thread, batch: tuple[Decision, ...]) -> Thread:
    """The thread with a batch that waits for its calls."""
    new = [
        decision
        for decision in batch
        if not (_is_held(thread, decision) or was_applied(thread, decision, decision.target))
    ]
    return record(thread, _of_decisions(thread, new, OutcomeStatus.HELD) if new else ())


def _is_held(thread: Thread, decision: Decision) -> bool:
    """Whether the thread remembers already that the decision waits."""
    id, calls = remembered_id(decision.decision_id or ""), (remembered_id(decision.target),)
    return any(
        it.status is OutcomeStatus.HELD and it.calls == calls and it.run == thread.current.number
        for it in remembered(thread.outcomes).of(id)
    )


def record_applied(thread: Thread, applied: AppliedDecision, *calls: str) -> Thread:
    """The thread with a decision applied to a call, which has these ids. One that has no id is recorded without."""
    outcome = Outcome(
        id=remembered_id(applied.decision_id),
        status=OutcomeStatus.APPLIED,
        calls=tuple(map(remembered_id, calls)),
        run=thread.current.number,
        decided=applied.as_remembered,
    )
    return record(thread, (outcome,))


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
    known = remembered(thread.outcomes).of(id) if id is not None else ()
    applied = {it.subject: it for it in known if it.status is OutcomeStatus.APPLIED}
    new, repeated = list[str](), list[Outcome]()
    for subject in dict.fromkeys(subjects):
        earlier = applied.get(remembered_id(subject))
        if earlier is None:
            new.append(subject)
        else:
            repeated.append(_repeated(earlier))
    return record(thread, repeated), tuple(new)


def was_applied(thread: Thread, decision: Decision, *calls: str) -> bool:
    """Whether the newest run has applied the same decision id to the call with one of these ids."""
    known = remembered(thread.outcomes).of(remembered_id(decision.decision_id or ""))
    return any(_is_applied(thread, outcome, decision.decision_id, *calls) for outcome in known)


def has_decided(thread: Thread, *calls: str) -> bool:
    """Whether the thread remembers a decision on the call with one of these ids."""
    return remembered(thread.outcomes).has_decided(map(remembered_id, calls))


def without_unread(thread: Thread) -> Thread:
    """A thread that has ended: no run reads what is queued. Mail and what came late wait for the next execution."""
    unread = [later for later in (*thread.queued, *thread.steering) if not (later.internal or later.late)]
    known = remembered(thread.outcomes)
    new = [
        later
        for later in unread
        if any(it.status is not OutcomeStatus.UNREAD for it in known.of(remembered_id(later.message.id)))
    ]
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
