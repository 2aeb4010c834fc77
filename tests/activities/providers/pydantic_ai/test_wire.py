"""`PydanticAIModel` with pydantic-ai's classes for OpenAI and Anthropic, over HTTP: answers, interruptions, errors."""

import asyncio
from contextlib import aclosing

import httpx2
import pytest
from pydantic_ai.models import Model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.activities.providers.calls import HELLO, failure, parts, text, user
from tests.activities.providers.pydantic_ai.conftest import KEY
from tests.support.fake_provider.official import problem
from tests.support.fake_provider.script import (
    HTML_PAGE,
    OVERFLOW,
    RESET,
    Answer,
    Call,
    Cut,
    End,
    ErrorEvent,
    Fault,
    Reply,
    Reset,
    Stall,
    Status,
)
from tests.support.fake_provider.server import FakeProvider
from wakeful.contract.agents import ModelBinding
from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.inference import ModelResponse, StopReason
from wakeful.contract.messages import Message, Role
from wakeful.contract.model_settings import ModelSettings
from wakeful.contract.runs import Usage
from wakeful.contract.streaming import CallStartPart, StopPart, StreamPart, TextPart, UsagePart
from wakeful.contract.tools import ToolDescriptor
from wakeful.contract.transcript import assistant_message
from wakeful_activities.inference.call_ids import with_provider_ids
from wakeful_activities.inference.recovery import interruption_of
from wakeful_activities.inference.stream_assembly import StreamAssembly
from wakeful_activities.providers.pydantic_ai.provider import PydanticAIModel

BINDING = ModelBinding(id="m", provider="m", name="m")
LOOK = ToolDescriptor(id="look", name="look", parameters={"type": "object", "properties": {}})
TWO_CALLS = (Call("call_a", "look", '{"city": "Rome"}'), Call("call_b", "look", '{"city": "Oslo"}'))
REQUEST = HELLO.model_copy(update={"tools": (LOOK,), "settings": ModelSettings(reasoning_effort="low")})


async def assembled(model: PydanticAIModel) -> ModelResponse:
    assembly = StreamAssembly(BINDING, "1")
    for part in await parts(model, REQUEST):
        assembly.add(part)
    return assembly.response()


async def until_it_fails(model: PydanticAIModel) -> tuple[list[StreamPart], ProviderError]:
    arrived: list[StreamPart] = []
    try:
        async for part in model.stream(REQUEST):
            arrived.append(part)
    except ProviderError as error:
        return arrived, error
    pytest.fail("it did not fail")


async def test_an_answer_has_its_text_its_calls_and_all_its_tokens(model: Model, fake: FakeProvider) -> None:
    usage = Usage(prompt_tokens=100, completion_tokens=20, total_tokens=120, cache_read_tokens=64, thinking_tokens=8)
    fake.will(Answer("Let me look.", calls=TWO_CALLS, usage=usage))
    response = await assembled(PydanticAIModel(model))
    assert (response.text, response.stop_reason) == ("Let me look.", StopReason.TOOL_USE)
    assert [(call.name, call.arguments, call.provider_id) for call in response.tool_calls] == [
        ("look", {"city": "Rome"}, "call_a"),
        ("look", {"city": "Oslo"}, "call_b"),
    ]
    assert response.usage == usage
    assert fake.asked[0].streamed


async def test_signed_reasoning_is_sent_back_with_the_results_of_its_calls(
    models: dict[str, Model], fake: FakeProvider
) -> None:
    """The provider rejects results whose call it can no longer connect with its reasoning."""
    model = PydanticAIModel(models["anthropic"])
    fake.will(Answer("One moment.", "I should look.", calls=TWO_CALLS[:1]), Answer("Rain."))
    response = await assembled(model)
    result = Message(id="r", role=Role.TOOL, tool_call_id=response.tool_calls[0].id, content=(text("rain"),))
    request = REQUEST.model_copy(update={"messages": (*HELLO.messages, assistant_message(response), result)})
    await parts(model, with_provider_ids(request, BINDING.provider))
    assert fake.asked[1].body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I should look.", "signature": "signature-of-the-reasoning"},
                {"type": "text", "text": "One moment."},
                {"type": "tool_use", "id": "call_a", "name": "look", "input": {"city": "Rome"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "call_a",
                    "content": [{"type": "text", "text": "rain"}],
                    "is_error": False,
                }
            ],
        },
    ]


async def test_encrypted_reasoning_is_sent_back(models: dict[str, Model], fake: FakeProvider) -> None:
    model = PydanticAIModel(models["responses"])
    fake.will(Answer("", "I should look.", calls=TWO_CALLS[:1]), Answer("Rain."))
    response = await assembled(model)
    result = Message(id="r", role=Role.TOOL, tool_call_id=response.tool_calls[0].id, content=(text("rain"),))
    request = REQUEST.model_copy(update={"messages": (*HELLO.messages, assistant_message(response), result)})
    await parts(model, with_provider_ids(request, BINDING.provider))
    reasoning = next(item for item in fake.asked[1].body["input"] if item.get("type") == "reasoning")
    assert reasoning["encrypted_content"] == "signature-of-the-reasoning"


@pytest.mark.parametrize("fault", [End(2), Cut(2), Reset(2), ErrorEvent(2)], ids=lambda fault: type(fault).__name__)
async def test_a_stream_that_is_cut_off_is_interrupted_and_what_arrived_is_kept(
    model: Model, fake: FakeProvider, fault: Fault
) -> None:
    fake.will(Answer("It was a dark and stormy night.", faults=(fault,)))
    arrived, error = await until_it_fails(PydanticAIModel(model))
    assert error.kind.transient
    assert error.cause in ("connection reset", "provider 503 mid-stream", "provider 529 mid-stream")
    assert "".join(part.text for part in arrived if isinstance(part, TextPart)) == "It was a dark an"
    assert not any(isinstance(part, StopPart) for part in arrived)


async def test_half_a_call_is_not_taken_for_a_whole_one(model: Model, fake: FakeProvider) -> None:
    fake.will(Answer(calls=(Call("a", "look", '{"city": "Rome", "days": 12}'),), faults=(End(2),)))
    arrived, error = await until_it_fails(PydanticAIModel(model))
    assembly = StreamAssembly(BINDING, "1")
    for part in arrived:
        assembly.add(part)
    checkpoint = assembly.checkpoint(1, broken=error.cause)
    assert any(isinstance(part, CallStartPart) for part in arrived)
    assert [call.closed for call in checkpoint.calls] == [False]
    assert interruption_of(checkpoint).call_name == "look"


async def test_a_server_that_never_sends_a_finish_reason_can_be_declared(
    models: dict[str, Model], fake: FakeProvider
) -> None:
    reply = Answer("All of it.", faults=(End("content"),))
    fake.will(reply, reply)
    declared = PydanticAIModel(models["chat"], needs_finish_reason=False)
    assert (await parts(declared))[-1] == StopPart(StopReason.END_TURN)
    strict = PydanticAIModel(models["chat"])
    with pytest.raises(ProviderError, match="register the model with needs_finish_reason=False"):
        await parts(strict)
    assert (strict.detects_truncation, declared.detects_truncation) == (True, False)


STATUSES: list[tuple[Reply, ProviderErrorKind]] = [
    (Status(400), ProviderErrorKind.INVALID_REQUEST),
    (OVERFLOW, ProviderErrorKind.CONTEXT_OVERFLOW),
    (Status(401), ProviderErrorKind.UNAUTHORIZED),
    (Status(403), ProviderErrorKind.UNAUTHORIZED),
    (Status(404), ProviderErrorKind.MODEL_NOT_FOUND),
    (Status(408), ProviderErrorKind.TIMEOUT),
    (Status(413), ProviderErrorKind.CONTEXT_OVERFLOW),
    (Status(422), ProviderErrorKind.INVALID_REQUEST),
    (Status(429), ProviderErrorKind.RATE_LIMITED),
    (Status(500), ProviderErrorKind.PROVIDER),
    (Status(502), ProviderErrorKind.PROVIDER),
    (Status(503), ProviderErrorKind.OVERLOADED),
    (Status(504), ProviderErrorKind.TIMEOUT),
    (Status(529), ProviderErrorKind.OVERLOADED),
    (RESET, ProviderErrorKind.PROVIDER),
    (HTML_PAGE, ProviderErrorKind.PROVIDER),
]


@pytest.mark.parametrize(("reply", "kind"), STATUSES, ids=[f"{getattr(r, 'code', 'reset')}-{k}" for r, k in STATUSES])
async def test_errors_have_the_kinds_that_those_of_the_built_in_providers_have(
    model: Model, fake: FakeProvider, reply: Reply, kind: ProviderErrorKind
) -> None:
    error = await failure(PydanticAIModel(model), fake, reply)
    assert error.kind is kind
    assert len(fake.asked) == 1  # the client did not retry: Temporal does
    assert fake.host in str(error)


async def test_a_server_says_how_long_to_wait(model: Model, fake: FakeProvider) -> None:
    error = await failure(PydanticAIModel(model), fake, Status(429, retry_after=7))
    assert (error.retry_after, error.status) == (7.0, 429)


async def test_a_refusal_is_filtered_content(model: Model, fake: FakeProvider) -> None:
    error = await failure(PydanticAIModel(model), fake, Answer("I", stop="filtered"))
    assert error.kind is ProviderErrorKind.CONTENT_FILTERED


async def test_no_message_quotes_the_key(model: Model, fake: FakeProvider) -> None:
    error = await failure(PydanticAIModel(WrapperModel(model)), fake, Status(401, message=f"who is {KEY}?"))
    assert KEY not in str(error)
    assert "who is [api key]?" in str(error)


async def test_a_fallback_model_that_may_answer_later_is_retried(models: dict[str, Model], fake: FakeProvider) -> None:
    fallback = FallbackModel(models["chat"], models["anthropic"])
    fake.will(Status(429, retry_after=3), Status(401))
    with pytest.raises(ProviderError) as caught:
        await parts(PydanticAIModel(fallback))
    assert (caught.value.kind, caught.value.retry_after) == (ProviderErrorKind.RATE_LIMITED, 3.0)


async def test_a_server_that_cannot_be_reached_is_a_transient_error(client: httpx2.AsyncClient) -> None:
    provider = OpenAIProvider(base_url="http://127.0.0.1:9/v1", api_key=KEY, http_client=client)
    with pytest.raises(ProviderError) as caught:
        await parts(PydanticAIModel(OpenAIChatModel("gpt", provider=provider)))
    assert caught.value.kind is ProviderErrorKind.PROVIDER


async def test_leaving_the_stream_closes_the_connection(model: Model, fake: FakeProvider) -> None:
    fake.will(Answer("Once upon a time there was a king.", faults=(Stall(2),)))
    async with aclosing(PydanticAIModel(model).stream(HELLO)) as stream:
        async for part in stream:
            if isinstance(part, TextPart):
                break
    async with asyncio.timeout(10):
        await fake.asked[0].closed.wait()


async def test_what_was_used_before_an_interruption_is_reported(models: dict[str, Model], fake: FakeProvider) -> None:
    fake.will(Answer("It was a dark and stormy night.", faults=(End(2),)))
    arrived, _ = await until_it_fails(PydanticAIModel(models["anthropic"]))
    assert isinstance(arrived[-1], UsagePart)
    assert arrived[-1].usage.prompt_tokens == 11


async def test_requests_are_valid(model: Model, fake: FakeProvider) -> None:
    fake.will(Answer("Fine."))
    messages = (
        Message(id="0", role=Role.SYSTEM, content=(text("Today is Monday."),)),
        user(text("How are you?")),
        Message(id="2", role=Role.ASSISTANT, content=(text("It is"),)),
        user(text("Continue exactly where it ended.")),
    )
    request = REQUEST.model_copy(update={"instructions": "Be brief.", "messages": messages, "prompt_cache": True})
    await parts(PydanticAIModel(model), request)
    asked = fake.asked[0]
    assert [turn.text for turn in asked.turns][-3:] == [
        "How are you?",
        "It is",
        "Continue exactly where it ended.",
    ]
    assert problem(asked) is None
