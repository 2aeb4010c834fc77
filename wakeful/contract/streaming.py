"""A streamed answer: the parts that a provider yields, and the checkpoint that is heartbeated until it is complete.

Parts stay in one worker's memory. The checkpoint is the heartbeat of the inference activity: watchers read it, and the
next attempt continues from it after a lost connection or worker. Neither is ever written to history.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.choices import member_named
from wakeful.contract.inference import Interruption, StopReason, StopReasonName
from wakeful.contract.messages import ThinkingBlock
from wakeful.contract.runs import Usage


@dataclass(frozen=True, slots=True)
class StartPart:
    """The provider has started to answer."""

    model: str | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class TextPart:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """More reasoning. A `signature` closes a block, which the provider must be sent back unchanged."""

    text: str = ""
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class CallStartPart:
    """A tool call begins; `index` identifies it in this answer, `id` is the provider's."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArgumentsPart:
    """More of a call's arguments, as JSON text."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEndPart:
    """A call is complete. Optional: the next call, or the stop, also closes it."""

    index: int


@dataclass(frozen=True, slots=True)
class UsagePart:
    """Tokens so far. A later report replaces the fields it has."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class StopPart:
    """The answer is complete. A stream that ends without it was interrupted."""

    reason: StopReason

    if TYPE_CHECKING:

        def __init__(self, reason: StopReason | StopReasonName) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", member_named(StopReason, self.reason, parameter="reason"))


StreamPart = (
    StartPart | TextPart | ReasoningPart | CallStartPart | CallArgumentsPart | CallEndPart | UsagePart | StopPart
)


class PartialCall(Wire):
    """A tool call that has arrived so far; `id` is Wakeful's own."""

    id: str
    name: str
    arguments: str = ""
    closed: Few[bool] = False
    provider: Maybe[str] = None
    provider_id: Maybe[str] = None


class Outage(Wire):
    """The transient failures of an inference so far: the second part of its heartbeat. Times are in ms since 1970."""

    since: int
    """When the first attempt failed."""
    until: int
    """When the agent's patience ends."""
    attempt: int
    """The newest attempt that has failed, or was held back; workers were lost in the attempts after it."""
    failures: Few[int] = 0
    """Attempts in which a model failed before anything had arrived of its answer."""
    not_before: Few[dict[str, int]] = {}
    """When models that sent a `Retry-After` may be called again."""


class StreamCheckpoint(Wire):
    """The part of an answer that has arrived: the first part of an inference's heartbeat."""

    attempt: int
    model: str
    text: Few[str] = ""
    reasoning: Few[str] = ""
    thinking: Few[tuple[ThinkingBlock, ...]] = ()
    calls: Few[tuple[PartialCall, ...]] = ()
    calls_used: Few[int] = 0
    """How many ids of calls all attempts have used: the next attempt continues the numbers."""
    usage: Usage = Usage()
    interruptions: Few[tuple[Interruption, ...]] = ()
    broken: Maybe[str] = None
    """Why the stream was interrupted, if its worker could still record it."""
