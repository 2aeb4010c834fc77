"""Suspension tickets, which say what a tool call waits for, and the decisions that answer them."""

import hashlib
import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, AliasChoices, Field, JsonValue

from wakeful.contract.applied_decisions import AppliedDecision, DecisionChannel, DecisionChannelName
from wakeful.contract.applied_decisions import DecisionAction as DecisionAction
from wakeful.contract.applied_decisions import DecisionActionName as DecisionActionName
from wakeful.contract.base import Few, Maybe, Wire, Written
from wakeful.contract.limits import NAME_LENGTH, Name, cut, within
from wakeful.contract.messages import ToolCall
from wakeful.contract.names import ACTION_PERMISSION, TOOL_REMOTE_INPUT

RESULT_LIMIT = 256_000
"""Bytes of a decision's result, which the model may read as the result of the call, and of the arguments that it
replaces the model's with."""


class ResumeMode(StrEnum):
    """What a `resume` decision does with its call."""

    REPLAY_TOOL_CALL = "replay_tool_call"
    """Run the tool with its own arguments; the decision is in its context."""
    USE_DECISION_AS_TOOL_RESULT = "use_decision_as_tool_result"
    """Use the decision's result as the tool's result; nothing runs."""
    PASS_DECISION_TO_TOOL = "pass_decision_to_tool"
    """Run the tool with the decision's result as its arguments."""


ResumeModeName = Literal["replay_tool_call", "use_decision_as_tool_result", "pass_decision_to_tool"]


class ExpiryAction(StrEnum):
    """What happens to a call that is not decided in time."""

    CANCEL = "cancel"
    """Cancel it; the model reads that no decision came."""
    DENY = "deny"
    """Deny it; the model reads that it was denied because no decision came."""
    RESUME = "resume"
    """Resume it as if `result` had been decided."""


ExpiryActionName = Literal["cancel", "deny", "resume"]


class Expiry(Wire):
    """A deadline for a decision. A durable timer enforces it, whether a worker is running or not."""

    after_seconds: float = Field(gt=0, allow_inf_nan=False)
    then: ExpiryAction = ExpiryAction.CANCEL
    result: Maybe[JsonValue] = None


class Suspension(Wire):
    """The question: `action` is for programs, `message` for people, `response_schema` for forms."""

    id: str
    action: str
    message: Maybe[str] = None
    parameters: Maybe[JsonValue] = None
    response_schema: Maybe[JsonValue] = None
    """The JSON schema that the decision's result must match."""
    expiry: Maybe[Expiry] = None
    escalate_after_seconds: Maybe[float] = Field(default=None, gt=0, allow_inf_nan=False)
    """Emit `decision_overdue` if there is no decision after this time."""


class SuspensionTicket(Wire):
    """A suspended call: the question, the call it is about, and what a decision will do."""

    suspension: Suspension
    pending: ToolCall
    resume_mode: ResumeMode = ResumeMode.REPLAY_TOOL_CALL
    arguments_digest: Maybe[str] = None
    """Identifies the arguments that are shown: a decision with another digest is rejected."""
    expires_at: Maybe[int] = None
    """Milliseconds since 1970; the loop computes it from `expiry`."""
    escalates_at: Maybe[int] = None
    remember: Maybe[str] = None
    """The pattern that a decision with `always` allows on the thread from then on."""
    state: Maybe[JsonValue] = None
    """What the tool needs to continue, for the tool alone: the call that a decision resumes gets it back."""
    runs_if_denied: Few[bool] = False
    """A decision to cancel runs the tool, too, which finds it in its context: it has to pass the refusal on."""

    @property
    def is_about_auth(self) -> bool:
        """Whether the call waits for a permission, or a remote agent behind it for a sign-in."""
        return self.suspension.action == ACTION_PERMISSION or self._remote_kind == "auth"

    def is_question(self, *, gated: bool) -> bool:
        """Whether the tool asks for a value. Else a rule, a gate, a hook or the tool asks whether the call may run.

        A sign-in at a remote agent is no question: what that service asks may be whether one of its calls may run.

        Args:
            gated: a rule, a gate or a hook has suspended the call. It may ask with a schema, as a tool would.
        """
        needs_value = needs_result(self.resume_mode, self.suspension.response_schema)
        return needs_value and not gated and not self.is_about_auth and self._remote_kind in (None, "input")

    @property
    def _remote_kind(self) -> str | None:
        """What a remote agent asks for: `input` or `auth`; nothing, if its question was cut; None of other tools."""
        if self.pending.name != TOOL_REMOTE_INPUT:
            return None
        arguments = self.pending.arguments
        return str(arguments.get("kind", "")) if isinstance(arguments, dict) else ""


def needs_result(resume_mode: ResumeMode | None, response_schema: JsonValue) -> bool:
    """Whether a decision to resume must have a result: the model reads it, or the tool is called with it."""
    return response_schema is not None or resume_mode not in (None, ResumeMode.REPLAY_TOOL_CALL)


def digest_arguments(arguments: JsonValue) -> str:
    """Identifies a call's arguments: any change to them changes the digest."""
    written = json.dumps(arguments, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(written.encode()).hexdigest()[:16]


def _is_sent(channel: DecisionChannel | None) -> DecisionChannel | None:
    if channel is not None and not channel.is_sent:
        raise ValueError(f"no client decides by {channel.value!r}: leave the channel out, or name your own")
    return channel


class Decision(Written):
    """The answer to a suspended call, which it names by call id or suspension id.

    The same `decision_id` for the same call is applied once; a repeat is a no-op.
    """

    target: str = Field(min_length=1, validation_alias=AliasChoices("target", "call_id", "suspension_id"))
    action: DecisionAction
    result: Annotated[Maybe[JsonValue], AfterValidator(within(RESULT_LIMIT))] = None
    reason: Maybe[Annotated[str, AfterValidator(cut)]] = None
    decision_id: Maybe[str] = None
    actor: Maybe[Annotated[str, AfterValidator(cut)]] = None
    """Who decided, as the sender states it."""
    arguments: Annotated[Maybe[JsonValue], AfterValidator(within(RESULT_LIMIT))] = None
    """Run the call with these arguments instead of the model's; history records both."""
    arguments_digest: Maybe[str] = None
    """The digest of the arguments that were shown; if they have changed since, the decision is rejected."""
    always: Few[bool] = False
    """Also allow such calls on this thread from now on."""
    channel: Annotated[Maybe[DecisionChannel], AfterValidator(_is_sent)] = None
    """By which way it comes; `Client` says so itself."""
    updated_at: Maybe[JsonValue] = None
    """When it was made, as awaken's clients write it. It is ignored: the thread records when it applies a decision."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            target: str,
            action: DecisionAction | DecisionActionName,
            result: JsonValue | None = ...,
            reason: str | None = ...,
            decision_id: str | None = ...,
            actor: str | None = ...,
            arguments: JsonValue | None = ...,
            arguments_digest: str | None = ...,
            always: bool = ...,
            channel: DecisionChannel | DecisionChannelName | None = ...,
            updated_at: JsonValue = ...,
        ) -> None: ...

    @property
    def undated(self) -> "Decision":
        """Without what is ignored."""
        return self if self.updated_at is None else self.model_copy(update={"updated_at": None})

    def applied(self, ticket: SuspensionTicket, at: int) -> AppliedDecision:
        """The record of it, for the call with this ticket. What names no channel came by a signal."""
        mode, resumes = ticket.resume_mode, self.action is DecisionAction.RESUME
        replaces = resumes and mode is ResumeMode.PASS_DECISION_TO_TOOL
        is_read = mode is ResumeMode.REPLAY_TOOL_CALL if resumes else ticket.runs_if_denied
        return AppliedDecision(
            action=self.action,
            actor=self.actor,
            at=at,
            channel=self.channel or DecisionChannel.SIGNAL,
            reason=self.reason,
            arguments=self.result if replaces else self.arguments,
            result=self.result if is_read else None,
            always=self.always,
            rule=ticket.remember if self.always else None,
            decision_id=self.decision_id or "",
        )

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
    """A decision as it was applied; a call that runs again finds it in its context."""

    decision_id: str = ""
    action: DecisionAction
    result: Maybe[JsonValue] = None
    reason: Maybe[str] = None
    actor: Maybe[str] = None
    updated_at: int = 0
    arguments: Maybe[JsonValue] = None
    """The arguments that replace the model's."""


class ClientDecisions(StrEnum):
    """Which decisions the clients of a server may make (A2A, MCP). Staff make the others, in the inbox."""

    NONE = "none"
    QUESTIONS = "questions"
    """Answers to what an agent asks for: a value. Whether a call may run is not theirs to say."""
    ALL = "all"

    def include(self, *, is_question: bool) -> bool:
        """Whether clients may decide a question, or an approval."""
        return self is ClientDecisions.ALL or (self is ClientDecisions.QUESTIONS and is_question)


ClientDecisionsName = Literal["none", "questions", "all"]


NewestRun = Maybe[Annotated[str, Field(min_length=1, max_length=NAME_LENGTH)]]
"""The id of a run: what is sent is refused if that is not the thread's newest run."""


class Decisions(Written):
    """A batch of decisions that is applied or rejected as a whole."""

    decisions: tuple[Decision, ...]
    tenant: Maybe[Name] = None
    """Of the sender. They are refused if the thread belongs to another; without one, they count as the thread's own."""
    run_id: NewestRun = None


class SingleDecision(Decision):
    """A decision that is sent alone, with what a batch says of all of its decisions."""

    tenant: Maybe[Name] = None
    run_id: NewestRun = None

    def as_batch(self) -> Decisions:
        # Checked already: a result may have 256 kB, and hundreds of decisions may arrive in one workflow task.
        decision = Decision.model_construct(**{name: getattr(self, name) for name in Decision.model_fields})
        return Decisions.model_construct(decisions=(decision,), tenant=self.tenant, run_id=self.run_id)


class Refusal(Wire):
    """A signal that was rejected, and why."""

    signal: str
    reason: str
    at: int
