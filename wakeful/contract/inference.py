"""Model calls: what a provider is asked and answers, and the references an inference activity is given."""

from enum import StrEnum

from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.context import CompactionMark, ContextMessage, ContextReport
from wakeful.contract.messages import Message, ToolCall
from wakeful.contract.runs import Usage
from wakeful.contract.tools import ToolDescriptor


class StopReason(StrEnum):
    END_TURN = "EndTurn"
    MAX_TOKENS = "MaxTokens"
    TOOL_USE = "ToolUse"
    STOP_SEQUENCE = "StopSequence"


class ModelRequest(Wire):
    """What a provider is asked: everything, in the order the model reads it."""

    model: str
    instructions: str = ""
    messages: tuple[Message, ...]
    tools: Few[tuple[ToolDescriptor, ...]] = ()


class ModelResponse(Wire):
    """What a provider answered. It reaches history, so it holds nothing that is already there."""

    model: str
    text: str = ""
    reasoning: Few[str] = ""
    tool_calls: Few[tuple[ToolCall, ...]] = ()
    stop_reason: StopReason = StopReason.END_TURN
    usage: Usage = Usage()
    request_id: Maybe[str] = None
    context: Maybe[ContextReport] = None
    """How the request fitted the window; written by the activity for agents that have a context policy."""


class TranscriptRef(Wire):
    """A transcript by name: how long it is and what its chain of digests comes to."""

    length: int
    digest: str


class TranscriptTail(Wire):
    """The newest entries of a transcript, and its length and digest before them."""

    length: int
    digest: str
    messages: tuple[Message, ...]


class RestoreInput(Wire):
    """Which closed execution of the thread to read."""

    run_id: str


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
