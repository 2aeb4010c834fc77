"""Conversations for tests: builders of messages, and strategies for whole conversations."""

from collections.abc import Sequence

from hypothesis import strategies as st
from pydantic import JsonValue

from wakeful.contract.context import CompactionMark
from wakeful.contract.messages import Message, Role, TextBlock, ToolCall, Visibility
from wakeful.contract.names import TOOL_INTERRUPTED


def system(id: str, text: str = "") -> Message:
    return _message(id, Role.SYSTEM, text)


def user(id: str, text: str = "") -> Message:
    return _message(id, Role.USER, text)


def assistant(id: str, text: str = "", *, calls: Sequence[str] = (), arguments: JsonValue = None) -> Message:
    tool_calls = tuple(ToolCall(id=call, name="look", arguments=arguments) for call in calls)
    return _message(id, Role.ASSISTANT, text).model_copy(update={"tool_calls": tool_calls})


def result(call_id: str, text: str = "", *, id: str | None = None) -> Message:
    return _message(id or f"r-{call_id}", Role.TOOL, text).model_copy(update={"tool_call_id": call_id})


def interrupted(call_id: str) -> Message:
    """The result that a view adds for an unanswered call."""
    return result(call_id, TOOL_INTERRUPTED, id=f"interrupted:{call_id}")


def internal(message: Message) -> Message:
    return message.model_copy(update={"visibility": Visibility.INTERNAL})


def mark(through: int, summary: str = "Before.") -> CompactionMark:
    return CompactionMark(through=through, summary=summary, pre_tokens=5000, post_tokens=50)


def ids(messages: Sequence[Message]) -> list[str]:
    return [message.id for message in messages]


def problems(messages: Sequence[Message]) -> list[str]:
    """Every call without its result and every result without its call, independently of the code under test."""
    wrong, unanswered = list[str](), list[str]()
    for message in messages:
        if message.role is Role.ASSISTANT:
            wrong += [f"call {id} has no result" for id in unanswered]
            unanswered = [call.id for call in message.tool_calls]
        elif message.role is Role.TOOL and message.tool_call_id in unanswered:
            unanswered.remove(message.tool_call_id)
        elif message.role is Role.TOOL:
            wrong.append(f"result {message.id} has no call")
    return wrong + [f"call {id} has no result" for id in unanswered]


def _message(id: str, role: Role, text: str) -> Message:
    return Message(id=id, role=role, content=(TextBlock(text=text),) if text else ())


texts = st.sampled_from((0, 5, 40, 400, 1500, 9000)).map(lambda length: "x" * length)


@st.composite
def conversations(draw: st.DrawFn, *, open_end: bool = True) -> list[Message]:
    """What the loop writes: system messages, then messages and rounds of calls, of which the last may be open."""
    kinds = st.lists(st.sampled_from(("user", "assistant", "system", "round", "round")), max_size=12)
    said = [system(f"lead-{index}", draw(texts)) for index in range(draw(st.integers(0, 2)))]
    for turn, kind in enumerate(draw(kinds)):
        match kind:
            case "user":
                said.append(user(f"u{turn}", draw(texts)))
            case "assistant":
                said.append(assistant(f"a{turn}", draw(texts)))
            case "system":
                said.append(system(f"s{turn}", draw(texts)))
            case _:
                said += draw(_rounds(turn, answered=True))
    return said + (draw(_rounds(99, answered=False)) if open_end and draw(st.booleans()) else [])


@st.composite
def _rounds(draw: st.DrawFn, turn: int, *, answered: bool) -> list[Message]:
    calls = [f"c{turn}-{index}" for index in range(draw(st.integers(1, 4)))]
    results = [result(call, draw(texts)) for call in draw(st.permutations(calls))]
    shown = results if answered else results[: draw(st.integers(0, len(calls) - 1))]
    return [assistant(f"a{turn}", draw(texts), calls=calls, arguments=draw(texts)), *shown]


@st.composite
def broken_conversations(draw: st.DrawFn) -> list[Message]:
    """What the loop never writes: late, repeated and unmatched results, results without an id, unanswered calls."""
    call_ids = st.sampled_from("abc")
    said: list[Message] = []
    for index in range(draw(st.integers(0, 14))):
        match draw(st.sampled_from(("user", "system", "asks", "asks", "result", "result", "result", "nameless"))):
            case "user":
                said.append(user(f"u{index}", draw(texts)))
            case "system":
                said.append(system(f"s{index}", draw(texts)))
            case "asks":
                said.append(assistant(f"a{index}", calls=draw(st.lists(call_ids, max_size=3, unique=True))))
            case "result":
                said.append(result(draw(call_ids), draw(texts), id=f"r{index}"))
            case _:
                said.append(result("", id=f"n{index}").model_copy(update={"tool_call_id": None}))
    return said
