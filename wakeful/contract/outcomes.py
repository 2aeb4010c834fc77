"""What became of the decisions, messages and changes that a thread was sent, by their ids.

A message that was accepted has exactly one outcome, which moves from `queued` or `steering` to one of the others. A
message or a decision that was not accepted is `refused`, with the reason; it can be sent again with the same id. A
change (a withdrawal, an edit, a revocation) is `applied` or `refused`, once for each message or rule that it names.
"""

import hashlib
from collections.abc import Sequence
from enum import StrEnum

from wakeful.contract.applied_decisions import AppliedDecision
from wakeful.contract.base import Few, Maybe, Wire

ID_LENGTH = 200
"""Characters of an id that are remembered as they are; a longer one is remembered by its digest."""


class OutcomeStatus(StrEnum):
    """What became of a decision, of a message or of a change."""

    APPLIED = "applied"
    """The decision was applied to its call, or the change to what it names."""
    HELD = "held"
    """The decision waits: its call has not suspended yet."""
    QUEUED = "queued"
    """The message waits for the next run, or, in run mode, for the end of this one."""
    STEERING = "steering"
    """The message waits for the next step; mail of a closed thread waits until the thread is woken."""
    READ = "read"
    """A run has read the message."""
    ROLLED_BACK = "rolled_back"
    """A run had read the message, and was rolled back: the message is no longer in the conversation."""
    UNREAD = "unread"
    """The thread ended before a run read the message; the execution that wakes the thread reads it."""
    WITHDRAWN = "withdrawn"
    """A client withdrew the message before a run read it: no run will."""
    REFUSED = "refused"


class Outcome(Wire):
    """What became of one decision for one call, of one change of one subject, or of one message."""

    id: str
    status: OutcomeStatus
    reason: Few[str] = ""
    """Why it was refused."""
    calls: Few[tuple[str, ...]] = ()
    """Of a decision: the ids of the call, or of its suspension, that it names."""
    subject: Few[str] = ""
    """Of a change: the id of the message, or the `tool` of the rule."""
    run: Few[int] = 0
    """The run that read the message or that the decision was for, counted from the thread's first."""
    repeats: Few[int] = 0
    """How often the same was sent again after it had been accepted; a repeat has no effect."""
    decided: Maybe[AppliedDecision] = None
    """Of a decision that was applied: by whom and when. Of one that was refused because its call was decided before:
    that earlier decision."""

    @property
    def is_message(self) -> bool:
        """Whether it is the outcome of a message, and of neither a decision nor a change."""
        return not (self.calls or self.subject)

    @property
    def is_accepted_message(self) -> bool:
        """Sent again, the message is a repeat."""
        return self.is_message and self.status is not OutcomeStatus.REFUSED


def remembered_id(id: str) -> str:
    """The id under which an outcome is remembered."""
    if len(id) <= ID_LENGTH:
        return id
    return f"sha256:{hashlib.sha256(id.encode(errors='surrogatepass')).hexdigest()}"


def newest_decision(outcomes: Sequence[Outcome], *calls: str) -> AppliedDecision | None:
    """The newest decision on the call with one of these ids; None if there was none, or the thread has forgotten it."""
    named = set(map(remembered_id, calls))
    for outcome in reversed(outcomes):
        is_of_call = outcome.status is OutcomeStatus.APPLIED and not named.isdisjoint(outcome.calls)
        if is_of_call and outcome.decided is not None:
            return outcome.decided
    return None
