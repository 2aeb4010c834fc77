"""A streamed answer is assembled from its parts, over as many attempts as it takes."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.exceptions import ApplicationError

from wakeful.contract.agents import ModelBinding
from wakeful.contract.inference import StopReason
from wakeful.contract.messages import ThinkingBlock, ToolCall
from wakeful.contract.runs import Usage
from wakeful.contract.streaming import (
    CallArgumentsPart,
    CallEndPart,
    CallStartPart,
    ReasoningPart,
    StartPart,
    StopPart,
    StreamCheckpoint,
    StreamPart,
    TextPart,
    UsagePart,
)
from wakeful_activities.inference.recovery import interruption_of
from wakeful_activities.inference.stream_assembly import StreamAssembly, partial_response

MODEL = ModelBinding(id="m", provider="openai", name="model")


def assembled(*parts: StreamPart, earlier: StreamCheckpoint | None = None) -> StreamAssembly:
    assembly = StreamAssembly(MODEL, "1", earlier, interruption_of(earlier) if earlier else None)
    for part in parts:
        assembly.add(part)
    return assembly


def test_a_complete_answer() -> None:
    """B-113: a call without arguments is one."""
    response = assembled(
        StartPart("m-1", "req-7"),
        ReasoningPart("Let me "),
        ReasoningPart("add."),
        TextPart("I will "),
        TextPart("add."),
        CallStartPart(0, "c1", "add"),
        CallArgumentsPart(0, '{"a":'),
        CallArgumentsPart(0, " 1}"),
        CallStartPart(1, "c2", "now"),
        UsagePart(Usage(prompt_tokens=3, completion_tokens=4)),
        StopPart(StopReason.TOOL_USE),
    ).response()
    assert (response.model, response.request_id) == ("m-1", "req-7")
    assert (response.text, response.reasoning) == ("I will add.", "Let me add.")
    assert response.tool_calls == (
        ToolCall(id="1-1", name="add", arguments={"a": 1}, provider="openai", provider_id="c1"),
        ToolCall(id="1-2", name="now", arguments=None, provider="openai", provider_id="c2"),
    )
    assert response.usage == Usage(prompt_tokens=3, completion_tokens=4)
    assert response.stop_reason is StopReason.TOOL_USE
    assert response.incomplete_calls == ()


def test_signed_reasoning_stays_in_its_blocks() -> None:
    response = assembled(
        ReasoningPart("one"),
        ReasoningPart("", "sig1"),
        ReasoningPart("two", "sig2"),
        TextPart("done"),
        StopPart(StopReason.END_TURN),
    ).response()
    assert response.thinking == (
        ThinkingBlock(thinking="one", signature="sig1"),
        ThinkingBlock(thinking="two", signature="sig2"),
    )
    assert response.reasoning == ""


@pytest.mark.parametrize("arguments", ['{"a": ', "{'a': 1}", "nonsense", '{"a": NaN}'])
def test_a_call_with_malformed_arguments_is_dropped_and_named(arguments: str) -> None:
    response = assembled(
        CallStartPart(0, "c1", "add"),
        CallArgumentsPart(0, arguments),
        CallStartPart(1, "c2", "now"),
        CallArgumentsPart(1, "{}"),
        StopPart(StopReason.MAX_TOKENS),
    ).response()
    assert [call.name for call in response.tool_calls] == ["now"]
    assert response.incomplete_calls == ("add",)
    assert response.stop_reason is StopReason.MAX_TOKENS


def test_a_call_that_the_token_limit_cut_off_before_its_first_argument_is_dropped() -> None:
    response = assembled(
        TextPart("I clean up."), CallStartPart(0, "c1", "delete"), StopPart(StopReason.MAX_TOKENS)
    ).response()
    assert (response.tool_calls, response.incomplete_calls) == ((), ("delete",))
    whole = assembled(CallStartPart(0, "c1", "now"), CallEndPart(0), StopPart(StopReason.TOOL_USE)).response()
    assert [call.name for call in whole.tool_calls] == ["now"]


def test_an_answer_with_calls_stops_for_them_even_if_the_server_reports_the_end_of_the_turn() -> None:
    response = assembled(CallStartPart(0, "c1", "now"), StopPart(StopReason.END_TURN)).response()
    assert response.stop_reason is StopReason.TOOL_USE


def test_the_partial_answer_of_a_cancelled_call_has_no_tool_calls() -> None:
    arrived = assembled(TextPart("Well"), CallStartPart(0, "c1", "add"), CallEndPart(0)).checkpoint(1)
    assert (partial_response(arrived).text, partial_response(arrived).tool_calls) == ("Well", ())


@given(words=st.lists(st.text(min_size=1), min_size=1), cuts=st.lists(st.integers(0, 50), max_size=4))
def test_however_often_a_stream_is_interrupted_every_word_arrives_once(words: list[str], cuts: list[int]) -> None:
    earlier: StreamCheckpoint | None = None
    done = 0
    for cut in cuts:
        assembly = assembled(*map(TextPart, words[done:cut]), earlier=earlier)
        if assembly.has_news:
            earlier, done = assembly.checkpoint(1, broken="connection reset"), max(done, cut)
    last = assembled(*map(TextPart, words[done:]), StopPart(StopReason.END_TURN), earlier=earlier)
    assert last.response().text == "".join(words)


@pytest.mark.parametrize(
    ("endless", "problem"),
    [
        ([TextPart("é" * 1_000)], "more than 1,000,000 bytes"),
        ([ReasoningPart("x" * 1_000, signature="y" * 1_000)], "more than 1,000,000 bytes"),
        ([CallStartPart(0, "c", "add"), CallArgumentsPart(0, "1" * 1_000)], "more than 1,000,000 bytes"),
        ([TextPart("")], "more than 1,000,000 parts"),
    ],
    ids=["text", "reasoning", "arguments", "nothing"],
)
def test_an_answer_that_never_ends_fails_at_the_limit(endless: list[StreamPart], problem: str) -> None:
    with pytest.raises(ApplicationError, match=f"the model's answer has {problem}; set max_tokens") as raised:
        assembled(*itertools.islice(itertools.cycle(endless), 1_000_001))
    assert raised.value.non_retryable


def test_an_answer_with_calls_without_end_fails_at_the_limit() -> None:
    with pytest.raises(ApplicationError, match="the model's answer has more than 10,000 tool calls"):
        assembled(*(CallStartPart(index, "", "a") for index in range(10_001)))
