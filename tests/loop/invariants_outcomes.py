"""Each message has exactly one outcome, which says where it is, and each decision one for each call that it names."""

from collections import Counter

from wakeful.contract.outcomes import OutcomeStatus
from wakeful.loop.machine.stages import Done
from wakeful.loop.machine.state import Thread


def check_outcomes(thread: Thread) -> None:
    """Check what the thread remembers against its queue, its transcript and its held decisions."""
    messages = {outcome.id: outcome for outcome in thread.outcomes if outcome.is_message}
    others = [outcome for outcome in thread.outcomes if not outcome.is_message]
    names = Counter((outcome.id, name) for outcome in others for name in outcome.calls or (outcome.subject,))
    assert len(messages) == sum(outcome.is_message for outcome in thread.outcomes), "a message has one outcome"
    assert not names or max(names.values()) == 1, "a decision or a change has one outcome for each name"
    waiting = {"queued": thread.queued, "steering": thread.steering}
    for status, later in ((status, later) for status, queue in waiting.items() for later in queue):
        is_lost = isinstance(thread.stage, Done) and not (later.internal or later.late)
        assert messages[later.message.id].status == (OutcomeStatus.UNREAD if is_lost else status)
    unread = {later.message.id for queue in waiting.values() for later in queue}
    gone = [outcome for id, outcome in messages.items() if id not in unread]
    assert not [outcome for outcome in gone if outcome.status in ("queued", "steering", "unread")]
    said = {message.id for message in thread.transcript.messages}
    assert not [
        outcome
        for outcome in gone
        if (outcome.status == "read") != (outcome.id in said) and outcome.status in ("read", "rolled_back")
    ]
    held = {(decision.decision_id, decision.target) for batch in thread.current.held for decision in batch}
    for outcome in thread.outcomes:
        if outcome.status is OutcomeStatus.HELD:
            assert any((outcome.id, name) in held for name in outcome.calls)
        assert bool(outcome.reason) == (outcome.status is OutcomeStatus.REFUSED)
