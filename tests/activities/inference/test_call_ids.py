"""Tool call ids: `<step>-<index>` in a thread, and the provider's own only in requests to that provider."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.contract.agents import ModelBinding
from wakeful.contract.inference import ModelRequest, ModelResponse, StopReason
from wakeful.contract.messages import Message, Role, TextBlock, ToolCall
from wakeful.contract.streaming import CallArgumentsPart, CallEndPart, CallStartPart, StopPart, StreamCheckpoint
from wakeful_activities.inference.call_ids import with_own_ids, with_provider_ids
from wakeful_activities.inference.stream_assembly import StreamAssembly

MODEL = ModelBinding(id="m", provider="openai", name="model")


def answer(*provider_ids: str) -> ModelResponse:
    return ModelResponse(model="model", tool_calls=tuple(ToolCall(id=id, name="look") for id in provider_ids))


def request(*calls: ToolCall) -> ModelRequest:
    """A conversation in which each call is followed by its result."""
    messages: list[Message] = []
    for call in calls:
        result = (TextBlock(text=f"result of {call.id}"),)
        messages.append(Message(id=f"{call.id} call", role=Role.ASSISTANT, tool_calls=(call,)))
        messages.append(Message(id=f"{call.id} result", role=Role.TOOL, content=result, tool_call_id=call.id))
    return ModelRequest(model="model", messages=tuple(messages))


def call(id: str, provider: str | None = None, provider_id: str | None = None) -> ToolCall:
    return ToolCall(id=id, name="look", provider=provider, provider_id=provider_id)


def ids_of(request: ModelRequest) -> list[str]:
    """The ids of the request's calls; every result has the id of the call before it."""
    pairs = list(zip(request.messages[::2], request.messages[1::2], strict=True))
    ids = [call.id for asked, _ in pairs for call in asked.tool_calls]
    assert [result.tool_call_id for _, result in pairs] == ids
    return ids


def stream(step: int, *provider_ids: str, earlier: StreamCheckpoint | None = None) -> StreamAssembly:
    assembly = StreamAssembly(MODEL, str(step), earlier)
    for index, id in enumerate(provider_ids):
        assembly.add(CallStartPart(index, id, "look"))
        assembly.add(CallArgumentsPart(index, "{}"))
        assembly.add(CallEndPart(index))
    return assembly


@pytest.mark.parametrize("provider_ids", [("a", "b"), ("a", "a"), ("2-1", "")])
def test_calls_are_numbered_in_their_step_whatever_the_provider_calls_them(provider_ids: tuple[str, str]) -> None:
    streamed = stream(3, *provider_ids)
    streamed.add(StopPart(StopReason.TOOL_USE))
    completed = with_own_ids(answer(*provider_ids), MODEL, step_label="3")
    for response in (streamed.response(), completed):
        assert [call.id for call in response.tool_calls] == ["3-1", "3-2"]


def test_the_providers_id_is_stored_beside_ours() -> None:
    streamed = stream(1, "call_abc", "")
    streamed.add(StopPart(StopReason.TOOL_USE))
    completed = with_own_ids(answer("call_abc", ""), MODEL, step_label="1")
    for response in (streamed.response(), completed):
        assert [(call.provider, call.provider_id) for call in response.tool_calls] == [
            ("openai", "call_abc"),
            (None, None),
        ]


def test_a_later_attempt_continues_the_numbers() -> None:
    """Watchers have seen the calls of the first attempt under their ids."""
    first = stream(2, "a", "b").checkpoint(1, broken="connection reset")
    assert (first.calls_used, [call.id for call in first.calls]) == (2, ["2-1", "2-2"])
    second = stream(2, "a", earlier=first).checkpoint(2, broken="connection reset")
    assert (second.calls_used, [call.id for call in second.calls]) == (3, ["2-3"])
    third = with_own_ids(answer("a"), MODEL, step_label="2", calls_before=second.calls_used)
    assert [call.id for call in third.tool_calls] == ["2-4"]


def test_a_request_uses_the_ids_of_its_own_provider_for_calls_and_results() -> None:
    asked = request(call("1-1", "openai", "call_a"), call("1-2", "openai", "call_b"))
    assert ids_of(with_provider_ids(asked, "openai")) == ["call_a", "call_b"]


def test_calls_of_another_provider_keep_our_id() -> None:
    asked = request(call("1-1", "openai", "call_a"), call("2-1", "anthropic", "toolu_b"), call("3-1"))
    assert ids_of(with_provider_ids(asked, "anthropic")) == ["1-1", "toolu_b", "3-1"]
    assert with_provider_ids(asked, "another") is asked


def test_a_call_whose_provider_id_is_repeated_keeps_our_id() -> None:
    asked = request(call("1-1", "openai", "call_0"), call("2-1", "openai", "call_0"), call("3-1", "openai", "call_1"))
    assert ids_of(with_provider_ids(asked, "openai")) == ["call_0", "2-1", "call_1"]


def test_a_provider_id_that_is_also_one_of_our_ids_is_not_used() -> None:
    asked = request(call("1-1", "openai", "2-1"), call("2-1", "anthropic", "toolu_b"))
    assert ids_of(with_provider_ids(asked, "openai")) == ["1-1", "2-1"]


def test_our_id_of_every_call_is_stored_even_if_a_request_uses_another() -> None:
    asked = request(call("1-1", "openai", "call_a"))
    with_provider_ids(asked, "openai")
    assert ids_of(asked) == ["1-1"]


PROVIDERS = st.sampled_from(["openai", "anthropic"])
PROVIDER_IDS = st.one_of(st.none(), st.sampled_from(["", "call_0", "call_1", "1-1", "2-1", "3-1"]))


@given(made=st.lists(st.tuples(PROVIDERS, PROVIDER_IDS), max_size=6), provider=PROVIDERS)
def test_the_ids_in_one_request_always_differ(made: list[tuple[str, str | None]], provider: str) -> None:
    calls = [call(f"{step}-1", name, id) for step, (name, id) in enumerate(made, start=1)]
    ids = ids_of(with_provider_ids(request(*calls), provider))
    assert len(set(ids)) == len(ids) == len(made)


def test_a_message_that_was_sent_before_is_not_copied_again_for_the_same_provider() -> None:
    asked = request(
        call("1-1", provider="openai", provider_id="call_a"), call("2-1", provider="other", provider_id="b")
    )
    first, second = (with_provider_ids(asked, "openai") for _ in range(2))
    assert [a is b for a, b in zip(first.messages, second.messages, strict=True)] == [True] * len(asked.messages)
    assert ids_of(with_provider_ids(asked, "other")) == ["1-1", "b"]
    assert ids_of(with_provider_ids(asked, "openai")) == ["call_a", "2-1"]
