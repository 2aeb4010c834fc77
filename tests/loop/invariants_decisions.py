"""The decisions that were sent to a checked run, and what must hold for those that were applied."""

from dataclasses import dataclass, field

from wakeful.contract.applied_decisions import DecisionChannel
from wakeful.contract.decisions import Decision, DecisionAction, SuspensionTicket, digest_arguments
from wakeful.contract.events import ToolCallDecided, ToolCallDone
from wakeful.contract.schemas import mismatch
from wakeful.loop.calls.batch import SuspendedCall
from wakeful.loop.machine.revisions import DECISIONS_ARE_EVENTS
from wakeful.loop.machine.state import Thread


@dataclass
class Sent:
    """A decision; its index among all that were sent is its tag, by which it is recognised when it is applied."""

    decision: Decision
    batch: int
    late: bool
    applied_to: str | None = None


@dataclass
class DecisionChecks:
    """Records which decision each call received, and under which names each call was ever suspended."""

    sent: list[Sent] = field(default_factory=list)
    batches: int = 0
    decided: set[str] = field(default_factory=set)
    named: dict[str, set[str]] = field(default_factory=dict)
    suspended_as: dict[str, str] = field(default_factory=dict)
    tickets: dict[str, SuspensionTicket] = field(default_factory=dict)
    allowed: set[str] = field(default_factory=set)
    on_record: dict[int, str] = field(default_factory=dict)
    """The call that each decision was applied to, as watchers see it."""
    unrecorded: set[int] = field(default_factory=set)
    """The decisions that were applied in runs of a revision that records none."""

    def send(self, state: Thread, decisions: tuple[Decision, ...]) -> tuple[Decision, ...]:
        """The batch with tags, in the result and the actor of each decision."""
        first = len(self.sent)
        for decision in decisions:
            tag = len(self.sent)
            tagged = decision.model_copy(update={"result": {"tag": tag}, "actor": str(tag)})
            found = state.batch.find(decision.target) if state.batch else None
            late = decision.target in self.decided and not isinstance(found, SuspendedCall)
            self.sent.append(Sent(tagged, self.batches, late))
        self.batches += 1
        return tuple(sent.decision for sent in self.sent[first:])

    def suspended(self, call_id: str, event: ToolCallDone) -> None:
        """I-05: the suspension id that watchers see names this call, and never another."""
        assert event.result.suspension is not None
        self.tickets[call_id] = event.result.suspension
        name = event.result.suspension.suspension.id
        assert self.suspended_as.setdefault(name, call_id) == call_id
        self._name(call_id, name)

    def applied(
        self, tag: int, call_id: str, suspension_id: str | None, ticket: SuspensionTicket | None = None
    ) -> None:
        """I-05, H-03: at most once, never late, and only to the call that the decision names."""
        sent = self.sent[tag]
        target, id = sent.decision.target, sent.decision.decision_id
        assert (sent.applied_to, sent.late) == (None, False)
        assert suspension_id is None or target in (call_id, suspension_id)
        if id is not None:
            same_id = [other for other in self.sent if other.decision.decision_id == id]
            assert call_id not in [other.applied_to for other in same_id], "one decision id counts for a call once"
        self._fits(sent.decision, ticket or self.tickets[call_id])
        sent.applied_to = call_id
        self._name(call_id, target, suspension_id or target)
        self.decided |= {call_id, target, suspension_id or target}

    def _fits(self, decision: Decision, ticket: SuspensionTicket) -> None:
        """An applied decision is about the arguments in the ticket and matches its schema."""
        assert decision.arguments_digest in (None, digest_arguments(ticket.pending.arguments))
        assert decision.action is DecisionAction.RESUME or (decision.arguments, decision.always) == (None, False)
        if decision.action is DecisionAction.RESUME:
            assert mismatch(decision.result, ticket.suspension.response_schema) is None
        if decision.always:
            assert ticket.remember is not None
            self.allowed.add(ticket.remember)

    def recorded(self, event: ToolCallDecided) -> None:
        """B-367: an event for each decision that is applied, and for no other."""
        if event.decision.channel is DecisionChannel.SIGNAL:
            tag = int(event.decision.actor or "")
            assert tag not in self.on_record
            self.on_record[tag] = event.call_id

    def check_records(self, thread: Thread) -> None:
        """B-367: who decided is on record for every call that a decision was applied to."""
        if thread.run is None:
            return
        applied = {tag: sent.applied_to for tag, sent in enumerate(self.sent) if sent.applied_to is not None}
        if thread.run.revision < DECISIONS_ARE_EVENTS:
            self.unrecorded |= applied.keys() - self.on_record.keys()
        assert applied.items() <= {**self.on_record, **{tag: applied[tag] for tag in self.unrecorded}}.items()

    def check_batches(self) -> None:
        """H-02: of a batch that is applied, only repeats are not."""
        applied = {sent.batch for sent in self.sent if sent.applied_to is not None}
        for sent in self.sent:
            if sent.batch in applied and sent.applied_to is None:
                assert any(self._is_repeat(sent.decision, earlier) for earlier in self.sent)

    def _is_repeat(self, decision: Decision, earlier: Sent) -> bool:
        """H-03: the same decision id for the same call."""
        if decision.decision_id is None or earlier.applied_to is None:
            return False
        same_call = decision.target in self.named[earlier.applied_to]
        return same_call and decision.decision_id == earlier.decision.decision_id

    def _name(self, call_id: str, *names: str) -> None:
        self.named.setdefault(call_id, {call_id}).update(names)
