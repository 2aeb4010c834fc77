"""An answer as far as it is known: what may be shown of it while it comes, and what continues what was shown.

Pure, and only about one answer; `live.py` has the records.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic import JsonValue
from pydantic_core import from_json

from wakeful.contract.events import AgentEvent, ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from wakeful.contract.streaming import StreamCheckpoint

_UNSURE = '"}]0123456789.eE+-'
"""How arguments that are half written may end once they are written out: with closers, or with half a number."""


@dataclass(frozen=True)
class Call:
    id: str
    name: str
    arguments: str = ""


@dataclass(frozen=True)
class Draft:
    """An answer as far as it is known: while it comes, or whole."""

    reasoning: str = ""
    text: str = ""
    calls: tuple[Call, ...] = ()

    @classmethod
    def of(cls, came: StreamCheckpoint) -> "Draft":
        thought = "".join(block.thinking for block in came.thinking) + came.reasoning
        calls: dict[str, Call] = {}
        for call in came.calls:
            calls[call.id] = Call(call.id, call.name, settled_arguments(call.arguments))
        return cls(thought, came.text, tuple(calls.values()))

    def continues(self, shown: "Draft") -> bool:
        """Nothing of what was shown has to be taken back."""
        return (
            self.reasoning.startswith(shown.reasoning)
            and self.text.startswith(shown.text)
            and len(self.calls) >= len(shown.calls)
            and all(
                (ours.id, ours.name) == (theirs.id, theirs.name) and ours.arguments.startswith(theirs.arguments)
                for ours, theirs in zip(self.calls, shown.calls, strict=False)
            )
        )


def settled_arguments(written: str) -> str:
    """The beginning of a call's arguments as history will spell them, so far as no further word can change it."""
    try:
        read = from_json(written, allow_partial="trailing-strings", allow_inf_nan=False)
    except ValueError:
        return ""
    return _spelt(read).rstrip(_UNSURE)


def _spelt(arguments: JsonValue) -> str:
    return json.dumps(arguments, separators=(",", ":"), ensure_ascii=False)


def whole(answer: Iterable[AgentEvent]) -> Draft:
    """An answer as the events of it say it."""
    reasoning, text, calls = "", "", dict[str, Call]()
    for event in answer:
        match event:
            case ReasoningDelta(delta=delta):
                reasoning += delta
            case TextDelta(delta=delta):
                text += delta
            case ToolCallStart(id=id, name=name):
                calls[id] = Call(id, name)
            case ToolCallDelta(id=id, args_delta=delta):
                calls[id] = Call(id, calls[id].name, calls[id].arguments + delta)
            case _:
                pass
    return Draft(reasoning, text, tuple(calls.values()))


def added(shown: Draft, draft: Draft) -> Iterator[AgentEvent]:
    """What brings a watcher from one draft to the next."""
    if more := draft.reasoning[len(shown.reasoning) :]:
        yield ReasoningDelta(delta=more)
    if more := draft.text[len(shown.text) :]:
        yield TextDelta(delta=more)
    before = {call.id: call.arguments for call in shown.calls}
    for call in draft.calls:
        if call.id not in before:
            yield ToolCallStart(id=call.id, name=call.name)
        if more := call.arguments[len(before.get(call.id, "")) :]:
            yield ToolCallDelta(id=call.id, args_delta=more)
