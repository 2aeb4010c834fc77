"""Suspension tickets (what a call waits for) and decisions (what somebody answered)."""

import hashlib
import json
from enum import StrEnum

from pydantic import AliasChoices, Field, JsonValue, field_validator

from wakeful.contract.base import Few, Maybe, Wire, Written
from wakeful.contract.messages import ToolCall

RESULT_LIMIT = 256_000
"""Bytes of a decision's result: it becomes what the model reads."""


class ResumeMode(StrEnum):
    """What a `resume` decision does with the call it names."""

    REPLAY_TOOL_CALL = "replay_tool_call"
    """Run the tool with its own arguments; the decision is in its context."""
    USE_DECISION_AS_TOOL_RESULT = "use_decision_as_tool_result"
    """The decision's result is the tool's result; nothing runs."""
    PASS_DECISION_TO_TOOL = "pass_decision_to_tool"
    """Run the tool with the decision's result as its arguments."""


class ExpiryAction(StrEnum):
    """What becomes of a call that nobody decided in time."""

    CANCEL = "cancel"
    """It is cancelled, and the model reads that nobody answered."""
    DENY = "deny"
    """It fails as denied, and the model reads so."""
    RESUME = "resume"
    """It goes on as if `result` had been decided."""


class Expiry(Wire):
    """A deadline: it is kept by a durable timer, whether a worker runs or not."""

    after_seconds: float = Field(gt=0, allow_inf_nan=False)
    then: ExpiryAction = ExpiryAction.CANCEL
    result: Maybe[JsonValue] = None


class Suspension(Wire):
    """What is asked: `action` for programs, `message` for people, `response_schema` for forms."""

    id: str
    action: str
    message: Maybe[str] = None
    parameters: Maybe[JsonValue] = None
    response_schema: Maybe[JsonValue] = None
    """A JSON schema that the decision's result has to fit."""
    expiry: Maybe[Expiry] = None
    escalate_after_seconds: Maybe[float] = Field(default=None, gt=0, allow_inf_nan=False)
    """Tell watchers again after this time that a decision is missing."""


class SuspensionTicket(Wire):
    """A suspended call: what is asked, about which call, and what an answer will do."""

    suspension: Suspension
    pending: ToolCall
    resume_mode: ResumeMode = ResumeMode.REPLAY_TOOL_CALL
    arguments_digest: Maybe[str] = None
    """Names the arguments as they are shown: a decision that carries it is refused once they are others."""
    expires_at: Maybe[int] = None
    """Milliseconds since 1970; the loop reckons it from `expiry`."""
    escalates_at: Maybe[int] = None
    remember: Maybe[str] = None
    """The rule that a decision with `always` leaves behind on the thread: a permission pattern that is allowed."""


def digest_arguments(arguments: JsonValue) -> str:
    """The name of a call's arguments: another one as soon as anything in them is another."""
    written = json.dumps(arguments, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(written.encode()).hexdigest()[:16]


class DecisionAction(StrEnum):
    RESUME = "resume"
    CANCEL = "cancel"


class Decision(Written):
    """An answer to a suspended call, named by its call id or by its suspension id.

    The same `decision_id` for the same call is applied once; a repeat is acknowledged and changes nothing.
    """

    target: str = Field(min_length=1, validation_alias=AliasChoices("target", "call_id", "suspension_id"))
    action: DecisionAction
    result: Maybe[JsonValue] = None
    reason: Maybe[str] = None
    decision_id: Maybe[str] = None
    actor: Maybe[str] = None
    """Who decided; recorded as it was given."""
    arguments: Maybe[JsonValue] = None
    """Let the call go on with these arguments in place of the model's; both are recorded."""
    arguments_digest: Maybe[str] = None
    """The digest of the arguments that were shown to whoever decides; if they are others by now, it is refused."""
    always: Few[bool] = False
    """From now on, allow on this thread what was asked about."""

    @field_validator("result", mode="after")
    @classmethod
    def _fits(cls, result: JsonValue) -> JsonValue:
        size = len(json.dumps(result))
        if size > RESULT_LIMIT:
            raise ValueError(f"the result has {size:,} bytes, and at most {RESULT_LIMIT:,} fit: shorten it")
        return result

    def resume(self, at: int) -> "ToolCallResume":
        return ToolCallResume(
            decision_id=self.decision_id or "",
            action=self.action,
            result=self.result,
            reason=self.reason,
            actor=self.actor,
            updated_at=at,
            arguments=self.arguments,
        )


class ToolCallResume(Wire):
    """A decision as it was applied to its call; the call runs again with this in its context."""

    decision_id: str = ""
    action: DecisionAction
    result: Maybe[JsonValue] = None
    reason: Maybe[str] = None
    actor: Maybe[str] = None
    updated_at: int = 0
    arguments: Maybe[JsonValue] = None
    """The arguments that the decision put in place of the model's."""


class Decisions(Written):
    """A batch that is applied as a whole or refused as a whole."""

    decisions: tuple[Decision, ...]


class Refusal(Wire):
    """Something that was sent to a run and changed nothing, and why."""

    signal: str
    reason: str
    at: int
