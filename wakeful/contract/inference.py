"""Model calls: requests and answers, and the references that the inference activity is given."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from pydantic import JsonValue

from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.carryover import Carryover
from wakeful.contract.context import CompactionMark, ContextMessage, ContextReport
from wakeful.contract.events import EventRecord
from wakeful.contract.gates import Verdict
from wakeful.contract.hooks import HookEffects, RequestChanges
from wakeful.contract.messages import LeftOut, MediaBlock, Message, ThinkingBlock, ToolCall
from wakeful.contract.model_settings import ModelSettings, RecordedOverrides
from wakeful.contract.permissions import Rule
from wakeful.contract.remote import RemoteOrigin
from wakeful.contract.runs import RunIdentity, Usage
from wakeful.contract.state import StateView
from wakeful.contract.tools import ToolDescriptor


class StopReason(StrEnum):
    """Why the model stopped, as its provider reports it."""

    END_TURN = "EndTurn"
    MAX_TOKENS = "MaxTokens"
    TOOL_USE = "ToolUse"
    STOP_SEQUENCE = "StopSequence"


StopReasonName = Literal["EndTurn", "MaxTokens", "ToolUse", "StopSequence"]


class OutputSpec(Wire):
    """The type of an agent's answer."""

    name: str
    json_schema: dict[str, JsonValue]
    max_repairs: int = 1
    """How often the model may correct an answer that does not match."""


class ModelRequest(Wire):
    """A complete request to a provider, in the order the model reads it."""

    model: str
    instructions: str = ""
    messages: tuple[Message, ...]
    tools: Few[tuple[ToolDescriptor, ...]] = ()
    settings: ModelSettings = ModelSettings()
    output: Maybe[OutputSpec] = None
    prompt_cache: bool = True
    """Ask the provider to cache the unchanged prefix."""


class RecoveryPlan(StrEnum):
    """What happens to the part of an answer that had arrived when the stream was interrupted."""

    CONTINUE_TEXT = "continue_text"
    """R1: ask the model to continue from the text it has written."""
    SYNTHESIZE_TOOL_USE = "synthesize_tool_use"
    """R2: the answer has complete calls; take them, and do not call the model again."""
    TRUNCATE_BEFORE_TOOL = "truncate_before_tool"
    """R3: drop the incomplete call and ask the model to continue from the text before it."""
    RESTART = "restart"
    """R4: nothing usable had arrived; start over."""


RESUMED = "resumed from checkpoint"
"""The cause that is recorded for a stream whose worker was lost."""


class Interruption(Wire):
    """One interruption of a streamed answer, and how it was recovered."""

    cause: str
    plan: RecoveryPlan
    call_id: Maybe[str] = None
    """The incomplete call that was dropped."""
    call_name: Maybe[str] = None


class ModelResponse(Wire):
    """A provider's answer, as history records it."""

    model: str
    text: str = ""
    reasoning: Few[str] = ""
    thinking: Few[tuple[ThinkingBlock, ...]] = ()
    """Signed reasoning blocks, if the provider must be sent them back; `reasoning` is empty then."""
    tool_calls: Few[tuple[ToolCall, ...]] = ()
    incomplete_calls: Few[tuple[str, ...]] = ()
    """Names of tools that were called with malformed arguments; those calls are not executed."""
    dropped_calls: Few[int] = 0
    """How many calls after the last of `tool_calls` there were; they are not executed."""
    stop_reason: StopReason = StopReason.END_TURN
    usage: Usage = Usage()
    request_id: Maybe[str] = None
    context: Maybe[ContextReport] = None
    """The request's size; only for agents with a context policy."""
    interruptions: Few[tuple[Interruption, ...]] = ()
    """Interruptions of the stream, and how each was recovered."""
    output: Maybe[JsonValue] = None
    """The answer, parsed as the agent's output type."""
    output_problem: Maybe[str] = None
    """Why the answer does not match the agent's output type."""
    verdicts: Few[dict[str, Verdict]] = {}
    """The gates' verdicts by call id, before any call runs; calls that are not listed are allowed."""
    effects: Maybe[HookEffects] = None
    """What the hooks of the inference request."""
    left_out: Few[tuple[LeftOut, ...]] = ()
    """Content that the request did not include because the provider rejected it."""
    skipped: Few[bool] = False
    """A hook stopped the inference before the model was called; there is no answer."""
    remote: Maybe[RemoteOrigin] = None
    """Where a remote agent made the answer."""
    media: Few[tuple[MediaBlock, ...]] = ()
    """Files of a remote agent's answer, as far as history can hold them; its text names all."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            model: str,
            text: str = ...,
            reasoning: str = ...,
            thinking: Sequence[ThinkingBlock] = ...,
            tool_calls: Sequence[ToolCall] = ...,
            incomplete_calls: Sequence[str] = ...,
            dropped_calls: int = ...,
            stop_reason: StopReason | StopReasonName = ...,
            usage: Usage = ...,
            request_id: str | None = ...,
            context: ContextReport | None = ...,
            interruptions: Sequence[Interruption] = ...,
            output: JsonValue | None = ...,
            output_problem: str | None = ...,
            verdicts: Mapping[str, Verdict] = ...,
            effects: HookEffects | None = ...,
            left_out: Sequence[LeftOut] = ...,
            skipped: bool = ...,
            remote: RemoteOrigin | None = ...,
            media: Sequence[MediaBlock] = ...,
        ) -> None: ...

    @property
    def has_unexecuted_calls(self) -> bool:
        """Whether the model has to be told of calls that it asked for and that are not executed."""
        return bool(self.incomplete_calls or self.interruptions or self.dropped_calls)


class TranscriptRef(Wire):
    """A transcript, identified by its length and the digest of all its entries."""

    length: int
    digest: str


class TranscriptTail(Wire):
    """The newest entries of a transcript, and the length and digest of what precedes them."""

    length: int
    digest: str
    messages: tuple[Message, ...]
    carryover: Maybe[Carryover] = None
    """What the thread has besides its conversation."""
    events: Few[tuple[EventRecord, ...]] = ()
    """The events of the thread that are not archived."""
    missing: Few[str] = ""
    """What could not be restored, and why."""


class RestoreInput(Wire):
    """Which execution to read: an earlier one of this thread, or, for a fork, one of another thread."""

    run_id: str
    thread_id: Maybe[str] = None
    messages: Maybe[int] = None
    """For a fork: how many messages of that thread it continues from."""
    digest: Maybe[str] = None
    """For a fork: the digest of those messages."""
    tenant: Maybe[str] = None
    """The tenant that the request names; a thread of another one is not restored."""


class Rewind(Wire):
    """Not an entry: the transcript continues after its first `rewind` entries."""

    rewind: int


Source = str | Message | Rewind
"""A transcript entry in an inference input: where history records it (`ids.Location`), or, if it is short or was
written by the loop itself, the message."""


class InferInput(Wire):
    """What an inference activity is given: references, whose size does not depend on the conversation.

    `appended` lists the entries since the previous inference. All inference inputs of a history together spell the
    transcript, so a worker that has never seen the thread can rebuild it.
    """

    agent: str
    transcript: TranscriptRef
    appended: tuple[Source, ...] = ()
    frontend_tools: Few[tuple[ToolDescriptor, ...]] = ()
    compaction: Maybe[str] = None
    """The activity whose summary replaces the oldest messages."""
    token_factor: Maybe[float] = None
    """The correction of token estimates, learned from the provider's reports."""
    context: Few[tuple[ContextMessage, ...]] = ()
    """Context messages of this request."""
    overrides: Maybe[RecordedOverrides] = None
    """What the run changes of its agent's settings."""
    continuing: Few[bool] = False
    """The previous answer hit the token limit, and this one continues it."""
    identity: Maybe[RunIdentity] = None
    """The run; only for gates, hooks, permission rules about it, and remote agents."""
    metadata: Maybe[str] = None
    """The digest of the run's metadata; only with `identity`."""
    permissions: Few[tuple[Rule, ...]] = ()
    """Rules of the thread and the run, on top of the agent's."""
    questions: Few[tuple[tuple[Rule, ...], ...]] = ()
    """Groups of rules, of the request and of ancestors: what one of them asks about, no rule outside of it allows."""
    state: Maybe[StateView] = None
    """For hooks; absent if the agent has none in this phase."""
    step: Few[int] = 0
    """The step in the run; for hooks and remote agents."""
    ended_step: Few[int] = 0
    """The previous step, if its `step_end` hooks are still to run."""
    changes: Maybe[RequestChanges] = None
    """What hooks and tools requested for this request before it."""
    lineage: Few[str] = ""
    """After a Temporal reset: part of the ids of the answer's calls."""
    live: Few[bool] = False
    """The answer is watched while it is written: heartbeat it more often."""


class CompactInput(Wire):
    """What the compaction activity is given."""

    agent: str
    transcript: TranscriptRef
    previous: Maybe[str] = None
    """The activity that made the previous summary."""
    token_factor: float = 1.0
    limit: Maybe[int] = None
    """The provider has rejected longer requests than this many tokens."""


class CompactOutput(Wire):
    """The summary, or why it was discarded."""

    mark: Maybe[CompactionMark] = None
    skipped: Maybe[str] = None
    usage: Usage = Usage()
