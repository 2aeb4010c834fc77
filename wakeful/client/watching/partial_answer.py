"""A model's answer as far as it is known: what of it can be shown while it streams, and what extends what was shown.

Pure, and about one answer only; `live.py` makes records of it.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic import JsonValue
from pydantic_core import from_json

from wakeful.contract.events import AgentEvent, ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from wakeful.contract.streaming import StreamCheckpoint

_UNSTABLE_END = '"}]0123456789.eE+-'
"""Characters at the end of incomplete arguments that more input may change: closing ones, and half a number."""


@dataclass(frozen=True)
class AnswerCall:
    """A tool call of an answer, its arguments as JSON text."""

    id: str
    name: str
    arguments: str = ""


@dataclass(frozen=True)
class PartialAnswer:
    """An answer as far as it is known: while it streams, or complete."""

    reasoning: str = ""
    text: str = ""
    calls: tuple[AnswerCall, ...] = ()

    @classmethod
    def from_checkpoint(cls, checkpoint: StreamCheckpoint) -> "PartialAnswer":
        reasoning = "".join(block.thinking for block in checkpoint.thinking) + checkpoint.reasoning
        calls: dict[str, AnswerCall] = {}
        for call in checkpoint.calls:
            calls[call.id] = AnswerCall(call.id, call.name, stable_arguments(call.arguments))
        return cls(reasoning, checkpoint.text, tuple(calls.values()))

    def extends(self, shown: "PartialAnswer") -> bool:
        """Whether a watcher that was shown `shown` can be brought to this answer by deltas alone."""
        return (
            self.reasoning.startswith(shown.reasoning)
            and self.text.startswith(shown.text)
            and len(self.calls) >= len(shown.calls)
            and all(
                (ours.id, ours.name) == (theirs.id, theirs.name) and ours.arguments.startswith(theirs.arguments)
                for ours, theirs in zip(self.calls, shown.calls, strict=False)
            )
        )


def stable_arguments(written: str) -> str:
    """The beginning of a call's arguments as history will spell them, up to where more input may change it."""
    try:
        parsed = from_json(written, allow_partial="trailing-strings", allow_inf_nan=False)
    except ValueError:
        return ""
    return _compact_json(parsed).rstrip(_UNSTABLE_END)


def _compact_json(arguments: JsonValue) -> str:
    return json.dumps(arguments, separators=(",", ":"), ensure_ascii=False)


def answer_in(events: Iterable[AgentEvent]) -> PartialAnswer:
    """The answer that these events spell."""
    reasoning, text, calls = "", "", dict[str, AnswerCall]()
    for event in events:
        match event:
            case ReasoningDelta(delta=delta):
                reasoning += delta
            case TextDelta(delta=delta):
                text += delta
            case ToolCallStart(id=id, name=name):
                calls[id] = AnswerCall(id, name)
            case ToolCallDelta(id=id, args_delta=delta):
                calls[id] = AnswerCall(id, calls[id].name, calls[id].arguments + delta)
            case _:
                pass
    return PartialAnswer(reasoning, text, tuple(calls.values()))


def deltas(shown: PartialAnswer, answer: PartialAnswer) -> Iterator[AgentEvent]:
    """The events that bring a watcher from what was shown to this answer, which extends it."""
    if more := answer.reasoning[len(shown.reasoning) :]:
        yield ReasoningDelta(delta=more)
    if more := answer.text[len(shown.text) :]:
        yield TextDelta(delta=more)
    before = {call.id: call.arguments for call in shown.calls}
    for call in answer.calls:
        if call.id not in before:
            yield ToolCallStart(id=call.id, name=call.name)
        if more := call.arguments[len(before.get(call.id, "")) :]:
            yield ToolCallDelta(id=call.id, args_delta=more)
