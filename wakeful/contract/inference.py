"""Model calls: what a provider is asked and answers, and the references an inference activity is given."""

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, JsonValue, field_validator

from wakeful.contract.base import Few, Maybe, Wire, Written
from wakeful.contract.context import CompactionMark, ContextMessage, ContextReport
from wakeful.contract.gates import Verdict
from wakeful.contract.hooks import HookEffects
from wakeful.contract.messages import Message, ThinkingBlock, ToolCall
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import RunIdentity, Usage
from wakeful.contract.state import StateView
from wakeful.contract.subagents import Keeps
from wakeful.contract.tools import ToolDescriptor


class StopReason(StrEnum):
    END_TURN = "EndTurn"
    MAX_TOKENS = "MaxTokens"
    TOOL_USE = "ToolUse"
    STOP_SEQUENCE = "StopSequence"


class ReasoningBudget(Written):
    """How many tokens a model may think."""

    budget: int = Field(ge=1)


ReasoningEffort = Literal["none", "low", "medium", "high", "max"] | ReasoningBudget


class ModelSettings(Written):
    """How a model is to answer. What is not set is the provider's to choose."""

    temperature: Maybe[float] = Field(default=None, ge=0)
    max_tokens: Maybe[int] = Field(default=None, ge=1)
    top_p: Maybe[float] = Field(default=None, gt=0, le=1)
    reasoning_effort: Maybe[ReasoningEffort] = None


class InferenceOverrides(ModelSettings):
    """What one run wants otherwise than its agent says; each field that is set wins."""

    upstream_model: Maybe[str] = None
    """Another model of the same provider, by the provider's name for it."""
    fallback_upstream_models: Maybe[tuple[str, ...]] = None
    """Models of the same provider to turn to when the first one fails; replaces the agent's."""

    @field_validator("upstream_model")
    @classmethod
    def _is_named(cls, name: str | None) -> str | None:
        if name is not None and not name.strip():
            raise ValueError("inference override upstream_model cannot be empty")
        return name

    def over(self, settings: ModelSettings) -> Self:
        """These, and where they say nothing, `settings`."""
        said = {name: getattr(settings, name) for name in type(settings).model_fields}
        mine = {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}
        return type(self)(**{**said, **mine})


class OutputSpec(Wire):
    """The shape an agent's answer must have."""

    name: str
    json_schema: dict[str, JsonValue]
    max_repairs: int = 1
    """How often the model may correct an answer that does not fit."""


class ModelRequest(Wire):
    """What a provider is asked: everything, in the order the model reads it."""

    model: str
    instructions: str = ""
    messages: tuple[Message, ...]
    tools: Few[tuple[ToolDescriptor, ...]] = ()
    settings: ModelSettings = ModelSettings()
    output: Maybe[OutputSpec] = None
    prompt_cache: bool = True
    """Ask the provider to cache what does not change from step to step."""


class RecoveryPlan(StrEnum):
    """What is done with the part of an answer that came before it broke off."""

    CONTINUE_TEXT = "continue_text"
    """R1: the model is asked to go on from the text it has written."""
    SYNTHESIZE_TOOL_USE = "synthesize_tool_use"
    """R2: calls were complete, so they are the answer; nothing is asked again."""
    TRUNCATE_BEFORE_TOOL = "truncate_before_tool"
    """R3: a half-written call is dropped, and the model is asked to go on from the text before it."""
    RESTART = "restart"
    """R4: there was nothing to keep."""


RESUMED = "resumed from checkpoint"
"""Why an answer broke off whose worker was lost."""


class Interruption(Wire):
    """An answer that broke off once, and how it went on."""

    cause: str
    plan: RecoveryPlan
    call_id: Maybe[str] = None
    """The half-written call that was dropped."""
    call_name: Maybe[str] = None


class ModelResponse(Wire):
    """What a provider answered. It reaches history, so it holds nothing that is already there."""

    model: str
    text: str = ""
    reasoning: Few[str] = ""
    thinking: Few[tuple[ThinkingBlock, ...]] = ()
    """The reasoning in signed blocks, where the provider wants them back; `reasoning` is empty then."""
    tool_calls: Few[tuple[ToolCall, ...]] = ()
    incomplete_calls: Few[tuple[str, ...]] = ()
    """Names of tools that were called with arguments nobody can read; those calls are not made."""
    stop_reason: StopReason = StopReason.END_TURN
    usage: Usage = Usage()
    request_id: Maybe[str] = None
    context: Maybe[ContextReport] = None
    """How the request fitted the window; written by the activity for agents that have a context policy."""
    interruptions: Few[tuple[Interruption, ...]] = ()
    """How often the answer broke off while it came, and how it went on."""
    output: Maybe[JsonValue] = None
    """The answer as the agent's output type asks for it."""
    output_problem: Maybe[str] = None
    """Why the answer is not of the agent's output type."""
    verdicts: Few[dict[str, Verdict]] = {}
    """What gates say of the calls, by call id, before any of them runs; a call that is not named is allowed."""
    effects: Maybe[HookEffects] = None
    """What hooks of the inference ask for."""
    unasked: Few[bool] = False
    """Hooks wanted something else before the model was asked; there is no answer."""


class TranscriptRef(Wire):
    """A transcript by name: how long it is and what its chain of digests comes to."""

    length: int
    digest: str


class TranscriptTail(Wire):
    """The newest entries of a transcript, and its length and digest before them."""

    length: int
    digest: str
    messages: tuple[Message, ...]
    keeps: Maybe[Keeps] = None
    """What the thread kept besides."""


class RestoreInput(Wire):
    """Which execution to read: an earlier one of the thread, or, for a fork, one of another thread."""

    run_id: str
    thread_id: Maybe[str] = None
    messages: Maybe[int] = None
    """Of a fork: how many messages of that thread it goes on from."""
    digest: Maybe[str] = None
    """Of a fork: what their chain of digests comes to."""


class Rewind(Wire):
    """Not an entry: the transcript goes on from its first `rewind` entries."""

    rewind: int


Source = str | Message | Rewind
"""Where a transcript entry stands in history: the id of the activity that returned it, `input:i` (the i-th message of
the start request), `submit:n:i` (the i-th message of the n-th submit signal), `carried:id` (a message that came with
the state of the execution before), or, for what the loop itself says and what is short, the message."""


class InferInput(Wire):
    """What an inference activity is given: references, whose size does not depend on the conversation.

    `appended` says where the entries stand that came since the last inference, so that a worker that has never seen
    the thread can read the whole transcript back from the inference inputs in its history.
    """

    agent: str
    transcript: TranscriptRef
    appended: tuple[Source, ...] = ()
    frontend_tools: Few[tuple[ToolDescriptor, ...]] = ()
    compaction: Maybe[str] = None
    """The activity whose summary stands for the oldest messages."""
    factor: Maybe[float] = None
    """By how much token estimates have to be corrected, as the provider's reports tell."""
    context: Few[tuple[ContextMessage, ...]] = ()
    """What this request tells the model besides the conversation."""
    overrides: Maybe[InferenceOverrides] = None
    """What the run wants otherwise than its agent says."""
    continuing: Few[bool] = False
    """The answer before hit the token limit, and this one goes on with it."""
    identity: Maybe[RunIdentity] = None
    """Whose answer it is; told only where gates are to know it."""
    permissions: Few[tuple[Rule, ...]] = ()
    """What the thread and the run allow, ask and deny beyond the agent's own rules."""
    state: Maybe[StateView] = None
    """For hooks; absent if the agent has none for the inference."""
    step: Few[int] = 0
    """The same."""
    ended: Few[int] = 0
    """The step before, if hooks are still to hear of its end."""


class CompactInput(Wire):
    """What a summarising activity is given."""

    agent: str
    transcript: TranscriptRef
    previous: Maybe[str] = None
    factor: float = 1.0


class CompactOutput(Wire):
    """The summary as a mark on the log, or why there is none."""

    mark: Maybe[CompactionMark] = None
    skipped: Maybe[str] = None
    usage: Usage = Usage()
