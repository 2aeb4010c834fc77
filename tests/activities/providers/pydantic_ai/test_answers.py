"""`PydanticAIModel`: what is read of the answers of pydantic-ai's own test models."""

import sys
from collections.abc import AsyncIterator

import pytest
from pydantic_ai import messages as ai
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from tests.activities.providers.calls import HELLO, parts
from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.inference import StopReason
from wakeful.contract.messages import Message, Role, TextBlock, ThinkingBlock, ToolCall
from wakeful.contract.runs import Usage
from wakeful.contract.streaming import (
    CallArgumentsPart,
    CallEndPart,
    CallStartPart,
    ReasoningPart,
    StartPart,
    StopPart,
    TextPart,
    UsagePart,
)
from wakeful.contract.tools import ToolDescriptor
from wakeful_activities.providers.pydantic_ai.artifacts import Artifact, artifact_of
from wakeful_activities.providers.pydantic_ai.provider import PydanticAIModel, PydanticAIModels

Streamed = str | dict[int, DeltaToolCall] | dict[int, DeltaThinkingPart]

LOOK = ToolDescriptor(
    id="look",
    name="look",
    parameters={"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]},
)


def streaming(*items: Streamed) -> PydanticAIModel:
    """A model that streams these items."""

    async def stream(messages: list[ai.ModelMessage], info: AgentInfo) -> AsyncIterator[Streamed]:
        for item in items:
            yield item

    return PydanticAIModel(FunctionModel(stream_function=stream))


async def test_a_test_model_calls_the_tools_and_then_answers_with_their_results() -> None:
    model = PydanticAIModel(TestModel())
    request = HELLO.model_copy(update={"tools": (LOOK,)})
    start, call, arguments, end, usage, stop = await parts(model, request)
    assert isinstance(call, CallStartPart)
    assert (start, call.name, arguments) == (StartPart("test"), "look", CallArgumentsPart(0, '{"days":0}'))
    assert (end, stop) == (CallEndPart(0), StopPart(StopReason.END_TURN))
    assert isinstance(usage, UsagePart)
    called = Message(id="2", role=Role.ASSISTANT, tool_calls=(ToolCall(id="c", name="look", arguments={"days": 0}),))
    result = Message(id="3", role=Role.TOOL, tool_call_id="c", content=(TextBlock(text="rain"),))
    answer = await parts(model, request.model_copy(update={"messages": (*HELLO.messages, called, result)}))
    assert "".join(part.text for part in answer if isinstance(part, TextPart)) == '{"look":"rain"}'


async def test_text_reasoning_and_parallel_calls_are_streamed_as_they_arrive() -> None:
    model = streaming(
        {0: DeltaThinkingPart(content="Let me ")},
        {0: DeltaThinkingPart(content="see.", signature="signed")},
        "One ",
        "moment.",
        {1: DeltaToolCall(name="look", json_args='{"da', tool_call_id="a")},
        {1: DeltaToolCall(json_args='ys": 1}')},
        {2: DeltaToolCall(name="look", json_args='{"days": 2}', tool_call_id="b")},
    )
    *streamed, usage, stop = await parts(model)
    signature = Artifact(pydantic_ai="thinking", signature="signed", provider="function").model_dump_json()
    assert streamed == [
        StartPart("function::stream"),
        ReasoningPart("Let me "),
        ReasoningPart("see."),
        ReasoningPart(signature=signature),
        TextPart("One "),
        TextPart("moment."),
        CallStartPart(2, "a", "look"),
        CallArgumentsPart(2, '{"da'),
        CallArgumentsPart(2, 'ys": 1}'),
        CallEndPart(2),
        CallStartPart(3, "b", "look"),
        CallArgumentsPart(3, '{"days": 2}'),
        CallEndPart(3),
    ]
    assert isinstance(usage, UsagePart)
    assert stop == StopPart(StopReason.END_TURN)


async def test_the_whole_answer_of_a_model_that_does_not_stream_has_the_same_parts() -> None:
    usage = RequestUsage(
        input_tokens=100, cache_read_tokens=60, cache_write_tokens=30, output_tokens=20, output_reasoning_tokens=8
    )
    response = ai.ModelResponse(
        parts=[
            ai.ThinkingPart("Hm.", id="redacted", signature="s", provider_name="google"),
            ai.TextPart("Well."),
            ai.ToolCallPart("look", {"days": 1}, "a", provider_name="google", provider_details={"thought": "x"}),
            ai.ToolCallPart("look", None, "b"),
        ],
        usage=usage,
        model_name="gemini",
        finish_reason="tool_call",
    )

    def answer(messages: list[ai.ModelMessage], info: AgentInfo) -> ai.ModelResponse:
        return response

    signed = Artifact(pydantic_ai="thinking", id="redacted", signature="s", provider="google")
    thought = Artifact(pydantic_ai="tool-call", call="a", provider="google", details={"thought": "x"})
    assert await parts(PydanticAIModel(FunctionModel(answer))) == [
        StartPart("function:answer:"),
        ReasoningPart("Hm."),
        ReasoningPart(signature=signed.model_dump_json()),
        TextPart("Well."),
        CallStartPart(2, "a", "look"),
        CallArgumentsPart(2, '{"days":1}'),
        CallEndPart(2),
        ReasoningPart(signature=thought.model_dump_json()),
        CallStartPart(3, "b", "look"),
        CallEndPart(3),
        UsagePart(
            Usage(
                prompt_tokens=100,
                completion_tokens=20,
                total_tokens=120,
                cache_read_tokens=60,
                cache_creation_tokens=30,
                thinking_tokens=8,
            )
        ),
        StopPart(StopReason.TOOL_USE),
    ]


@pytest.mark.parametrize(
    ("reason", "raw", "stop"),
    [
        ("stop", "end_turn", StopReason.END_TURN),
        ("stop", "stop_sequence", StopReason.STOP_SEQUENCE),
        ("length", "max_tokens", StopReason.MAX_TOKENS),
        (None, "pause_turn", StopReason.END_TURN),
        (None, None, StopReason.END_TURN),
    ],
)
async def test_why_a_model_stopped_is_translated(
    reason: ai.FinishReason | None, raw: str | None, stop: StopReason
) -> None:
    def answer(messages: list[ai.ModelMessage], info: AgentInfo) -> ai.ModelResponse:
        details = {"finish_reason": raw} if raw else None
        return ai.ModelResponse(parts=[ai.TextPart("Hi.")], finish_reason=reason, provider_details=details)

    assert (await parts(PydanticAIModel(FunctionModel(answer))))[-1] == StopPart(stop)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("content_filter", ProviderErrorKind.CONTENT_FILTERED), ("error", ProviderErrorKind.PROVIDER)],
)
async def test_an_answer_that_the_provider_did_not_finish_is_an_error(
    reason: ai.FinishReason, kind: ProviderErrorKind
) -> None:
    def answer(messages: list[ai.ModelMessage], info: AgentInfo) -> ai.ModelResponse:
        return ai.ModelResponse(parts=[], finish_reason=reason, provider_details={"finish_reason": "MALFORMED"})

    with pytest.raises(ProviderError) as caught:
        await parts(PydanticAIModel(FunctionModel(answer)))
    assert caught.value.kind is kind


def test_what_has_to_be_sent_back_fits_the_signature_of_a_thinking_block() -> None:
    artifact = Artifact(pydantic_ai="text", id="msg_1", provider="openai", details={"phase": "final"})
    block = ThinkingBlock(thinking="", signature=artifact.as_signature())
    assert artifact_of(block) == artifact
    assert artifact_of(ThinkingBlock(thinking="Hm.", signature="of Anthropic")) is None
    assert artifact_of(ThinkingBlock(thinking="Hm.")) is None
    assert Artifact(pydantic_ai="thinking", provider="groq").as_signature() is None
    assert Artifact(pydantic_ai="text", details={"logprobs": "0" * 200_000}).as_signature() is None


async def test_a_model_is_found_by_the_name_that_pydantic_ai_has_for_it() -> None:
    by_name = PydanticAIModels.from_env({})
    answer = await parts(by_name, HELLO.model_copy(update={"model": "test"}))
    assert answer[0] == StartPart("test")
    await by_name.aclose()


async def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai.models", None)
    install = r"needs the package .*; install it with: pip install 'wakeful\[pydantic-ai\]'"
    with pytest.raises(ProviderError, match=install):
        await parts(PydanticAIModel("google:gemini"))


@pytest.mark.parametrize(
    ("name", "kind", "problem"),
    [
        ("gemini", ProviderErrorKind.MODEL_NOT_FOUND, "write it like 'google:gemini-2.5-pro'"),
        ("nobody:gpt", ProviderErrorKind.MODEL_NOT_FOUND, "Unknown model: nobody:gpt"),
        ("groq:llama", ProviderErrorKind.MODEL_NOT_FOUND, r"pydantic-ai-slim\[groq\]"),
        ("deepseek:deepseek-chat", ProviderErrorKind.UNAUTHORIZED, "DEEPSEEK_API_KEY"),
    ],
)
async def test_a_model_that_cannot_be_made_says_what_is_missing(
    name: str, kind: ProviderErrorKind, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    with pytest.raises(ProviderError, match=problem) as caught:
        await parts(PydanticAIModel(name))
    assert caught.value.kind is kind
