"""An answer while it comes: the parts a provider streams, and what of it is kept until it is whole.

Parts live in one worker's memory. Only the checkpoint leaves it, as the heartbeat of the inference activity: watchers
read it, and the next attempt after a lost connection or a lost worker goes on from it. None of it is ever in history.
"""

from dataclasses import dataclass

from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.inference import Interruption, StopReason
from wakeful.contract.messages import ThinkingBlock
from wakeful.contract.runs import Usage


@dataclass(frozen=True, slots=True)
class Opened:
    """The provider has begun to answer: with which model, and under which id of its own."""

    model: str | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """More of what the model thinks. A `signature` closes one block of it, which the provider wants back as it was."""

    text: str = ""
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class CallOpened:
    """The model begins to write a tool call; `index` names it in this answer."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """More of a call's arguments, as JSON text."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallClosed:
    """A call is written to its end. A provider that cannot tell sends none: the next call, or the stop, closes it."""

    index: int


@dataclass(frozen=True, slots=True)
class Used:
    """Tokens so far. A later report replaces what it names."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Stop:
    """The answer is whole. A stream that ends without it was cut off."""

    reason: StopReason


StreamPart = Opened | Text | Reasoning | CallOpened | CallArguments | CallClosed | Used | Stop


class PartialCall(Wire):
    id: str
    name: str
    arguments: str = ""
    closed: Few[bool] = False


class StreamCheckpoint(Wire):
    """As much of an answer as has come: the heartbeat of an inference."""

    attempt: int
    model: str
    text: Few[str] = ""
    reasoning: Few[str] = ""
    thinking: Few[tuple[ThinkingBlock, ...]] = ()
    calls: Few[tuple[PartialCall, ...]] = ()
    usage: Usage = Usage()
    interruptions: Few[tuple[Interruption, ...]] = ()
    broken: Maybe[str] = None
    """Why it broke off, if its worker lived to say so."""
