"""`OpenAIResponses`: what it sends and what it reads. What it shares with `OpenAIChat` is tested there."""

import httpx
import pytest
from pydantic import JsonValue

from tests.activities.providers.openai_stub import OpenAIStub, Reply, Step
from tests.support.fake_provider.asked import Format
from tests.support.fake_provider.official import body_problem
from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.inference import ModelRequest, ModelSettings, OutputSpec, ReasoningBudget, StopReason
from wakeful.contract.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    Message,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    UrlSource,
)
from wakeful.contract.runs import Usage
from wakeful.contract.streaming import (
    CallArgumentsPart,
    CallEndPart,
    CallStartPart,
    ReasoningPart,
    StartPart,
    StopPart,
    StreamPart,
    TextPart,
    UsagePart,
)
from wakeful.contract.tools import ToolDescriptor
from wakeful_activities.providers.openai_responses.provider import OpenAIResponses

SIGNATURE = '{"id":"rs_1","encrypted_content":"gAAA"}'


@pytest.fixture
def responses(stub: OpenAIStub, client: httpx.AsyncClient) -> OpenAIResponses:
    return OpenAIResponses(api_key="sk-1", base_url=stub.base_url, timeout=5, client=client)


def text(words: str) -> TextBlock:
    return TextBlock(text=words)


def user(*blocks: ContentBlock) -> Message:
    return Message(id="m", role=Role.USER, content=blocks)


HELLO = ModelRequest(model="gpt-test", messages=(user(text("hello")),))
SAID: JsonValue = {"role": "user", "content": [{"type": "input_text", "text": "hello"}]}
USAGE: JsonValue = {
    "input_tokens": 100,
    "output_tokens": 20,
    "total_tokens": 120,
    "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 8},
    "output_tokens_details": {"reasoning_tokens": 12},
}
USED = UsagePart(
    Usage(
        prompt_tokens=100,
        completion_tokens=20,
        total_tokens=120,
        cache_read_tokens=64,
        cache_creation_tokens=8,
        thinking_tokens=12,
    )
)


def event(kind: str, **fields: JsonValue) -> dict[str, JsonValue]:
    return {"type": f"response.{kind}", **fields}


def ended(status: str, **fields: JsonValue) -> dict[str, JsonValue]:
    return event(status, response={"model": "gpt-test-2026", "status": status, **fields})


CREATED = event("created", response={"model": "gpt-test-2026", "status": "in_progress"})
COMPLETED = ended("completed")
HALF = (CREATED, event("output_text.delta", delta="hi"))


async def parts(responses: OpenAIResponses, request: ModelRequest = HELLO) -> list[StreamPart]:
    return [part async for part in responses.stream(request)]


async def failure(responses: OpenAIResponses, stub: OpenAIStub, step: Step) -> ProviderError:
    stub.will(step)
    with pytest.raises(ProviderError) as caught:
        await parts(responses)
    return caught.value


async def sent(responses: OpenAIResponses, stub: OpenAIStub, request: ModelRequest) -> dict[str, JsonValue]:
    """The body that a request becomes, once OpenAI's own types have taken it."""
    stub.will(Reply.sse(CREATED, COMPLETED))
    await parts(responses, request)
    body = stub.asked[-1].body
    assert isinstance(body, dict)
    assert body_problem(Format.RESPONSES, body) is None
    return body


async def test_the_whole_request_is_sent_as_the_api_writes_it(responses: OpenAIResponses, stub: OpenAIStub) -> None:
    """B-101, B-105: nothing is stored there, reasoning goes back with its id, null arguments as an empty object."""
    request = ModelRequest(
        model="gpt-test",
        instructions="Be brief.",
        messages=(
            Message(id="1", role=Role.SYSTEM, content=(text("Today is Monday."),)),
            user(text("Weather?")),
            Message(
                id="3",
                role=Role.ASSISTANT,
                content=(
                    ThinkingBlock(thinking="hm", signature=SIGNATURE),
                    ThinkingBlock(thinking="of another provider", signature="EqQB"),
                    ThinkingBlock(thinking="unsigned"),
                    text("One moment."),
                ),
                tool_calls=(ToolCall(id="c1", name="weather", arguments={"a": 1}), ToolCall(id="c2", name="clock")),
            ),
            Message(id="4", role=Role.TOOL, content=(text("sunny"),), tool_call_id="c1"),
            Message(id="5", role=Role.TOOL, content=(text("noon"),), tool_call_id="c2"),
            Message(id="6", role=Role.ASSISTANT, content=(ThinkingBlock(thinking="hm", signature=SIGNATURE),)),
        ),
        tools=(
            ToolDescriptor(id="weather", name="Weather", description="Look outside."),
            ToolDescriptor(id="clock", name="Clock"),
        ),
    )
    nothing: JsonValue = {"type": "object", "properties": {}}
    clock: dict[str, JsonValue] = {
        "type": "function",
        "name": "clock",
        "description": "",
        "parameters": nothing,
        "strict": False,
    }
    assert await sent(responses, stub, request) == {
        "model": "gpt-test",
        "instructions": "Be brief.",
        "stream": True,
        "store": False,
        "input": [
            {"role": "system", "content": [{"type": "input_text", "text": "Today is Monday."}]},
            {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "hm"}],
                "encrypted_content": "gAAA",
            },
            {"role": "assistant", "content": "One moment."},
            {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"a":1}'},
            {"type": "function_call", "call_id": "c2", "name": "clock", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
            {"type": "function_call_output", "call_id": "c2", "output": "noon"},
        ],
        "tools": [clock, clock | {"name": "weather", "description": "Look outside."}],
    }
    assert stub.asked[0].line == "POST /v1/responses HTTP/1.1"
    assert stub.asked[0].headers["authorization"] == "Bearer sk-1"


async def test_pictures_and_documents_are_sent_as_the_api_takes_them(
    responses: OpenAIResponses, stub: OpenAIStub
) -> None:
    message = user(
        ImageBlock(source=UrlSource(url="https://example.com/a.png")),
        ImageBlock(source=Base64Source(media_type="image/png", data="iVBO")),
        DocumentBlock(source=UrlSource(url="https://example.com/a.pdf")),
        DocumentBlock(source=Base64Source(media_type="application/pdf", data="JVBE"), title="a.pdf"),
        DocumentBlock(source=Base64Source(media_type="text/plain", data="SGk=")),
    )
    body = await sent(responses, stub, ModelRequest(model="m", messages=(message,)))
    content: JsonValue = [
        {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "auto"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBO", "detail": "auto"},
        {"type": "input_file", "file_url": "https://example.com/a.pdf"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"},
        {"type": "input_text", "text": "Hi"},
    ]
    assert body["input"] == [{"role": "user", "content": content}]


async def test_a_block_that_cannot_be_sent_is_named_before_anything_is_asked(
    responses: OpenAIResponses, stub: OpenAIStub
) -> None:
    request = ModelRequest(model="m", messages=(user(AudioBlock(source=UrlSource(url="https://example.com/a"))),))
    with pytest.raises(ProviderError, match="holds a 'audio' block, which OpenAIResponses cannot send there"):
        await parts(responses, request)
    assert stub.asked == []


async def test_settings_and_the_shape_of_the_answer_are_sent(responses: OpenAIResponses, stub: OpenAIStub) -> None:
    """B-103"""
    settings = ModelSettings(temperature=0.2, top_p=0.9, max_tokens=50, reasoning_effort=ReasoningBudget(budget=20_000))
    output = OutputSpec(name="Weather", json_schema={"type": "object"})
    request = HELLO.model_copy(update={"settings": settings, "output": output})
    assert await sent(responses, stub, request) == {
        "model": "gpt-test",
        "input": [SAID],
        "stream": True,
        "store": False,
        "temperature": 0.2,
        "top_p": 0.9,
        "max_output_tokens": 50,
        "reasoning": {"effort": "high", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "text": {"format": {"type": "json_schema", "name": "Weather", "schema": {"type": "object"}}},
    }


async def test_who_is_not_to_reason_is_asked_for_no_reasoning(responses: OpenAIResponses, stub: OpenAIStub) -> None:
    request = HELLO.model_copy(update={"settings": ModelSettings(reasoning_effort="none")})
    body = await sent(responses, stub, request)
    assert body == {
        "model": "gpt-test",
        "input": [SAID],
        "stream": True,
        "store": False,
        "reasoning": {"effort": "none"},
    }


CALL: dict[str, JsonValue] = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "f",
    "arguments": '{"a":1}',
}
THOUGHT: JsonValue = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "hm"}, {"type": "summary_text", "text": "so"}],
    "encrypted_content": "gAAA",
}
MESSAGE: JsonValue = {"type": "message", "content": [{"type": "output_text", "text": "Let me see."}]}
OUTPUT: list[JsonValue] = [THOUGHT, MESSAGE, CALL]
WHOLE = [
    StartPart("gpt-test-2026", "req_1"),
    ReasoningPart("hm\n\nso"),
    ReasoningPart(signature=SIGNATURE),
    TextPart("Let me see."),
    CallStartPart(0, "c1", "f"),
    CallArgumentsPart(0, '{"a":1}'),
    CallEndPart(0),
    USED,
    StopPart(StopReason.TOOL_USE),
]


async def test_a_stream_is_read_as_it_comes(responses: OpenAIResponses, stub: OpenAIStub) -> None:
    """B-110, B-114, B-115"""
    stub.will(
        Reply.sse(
            CREATED,
            event("in_progress", response={"status": "in_progress"}),
            event("output_item.added", output_index=0, item={"type": "reasoning", "id": "rs_1", "summary": []}),
            event("reasoning_summary_part.added", output_index=0, summary_index=0),
            event("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="hm"),
            event("reasoning_summary_text.done", output_index=0, summary_index=0, text="hm"),
            event("reasoning_summary_part.added", output_index=0, summary_index=1),
            event("reasoning_summary_text.delta", output_index=0, summary_index=1, delta="so"),
            event("output_item.done", output_index=0, item=THOUGHT),
            event("output_item.added", output_index=1, item={"type": "message", "content": []}),
            event("content_part.added", output_index=1, part={"type": "output_text", "text": ""}),
            event("output_text.delta", output_index=1, delta="Let me "),
            event("output_text.delta", output_index=1, delta="see."),
            event("output_text.done", output_index=1, text="Let me see."),
            event("output_item.done", output_index=1, item=MESSAGE),
            event("output_item.added", output_index=2, item={**CALL, "arguments": ""}),
            event("function_call_arguments.delta", output_index=2, delta='{"a"'),
            event("function_call_arguments.delta", output_index=2, delta=":1}"),
            event("function_call_arguments.done", output_index=2, arguments='{"a":1}'),
            event("output_item.done", output_index=2, item=CALL),
            event("tomorrow", output_index=3, delta="?"),
            ended("completed", usage=USAGE),
            headers={"X-Request-Id": "req_1"},
        )
    )
    assert await parts(responses) == [
        StartPart("gpt-test-2026", "req_1"),
        ReasoningPart("hm"),
        ReasoningPart("\n\n"),
        ReasoningPart("so"),
        ReasoningPart(signature=SIGNATURE),
        TextPart("Let me "),
        TextPart("see."),
        CallStartPart(0, "c1", "f"),
        CallArgumentsPart(0, '{"a"'),
        CallArgumentsPart(0, ":1}"),
        CallEndPart(0),
        USED,
        StopPart(StopReason.TOOL_USE),
    ]


async def test_items_that_come_at_once_are_read_too(responses: OpenAIResponses, stub: OpenAIStub) -> None:
    items = (event("output_item.done", output_index=index, item=item) for index, item in enumerate(OUTPUT))
    stub.will(Reply.sse(CREATED, *items, ended("completed", usage=USAGE), headers={"X-Request-Id": "req_1"}))
    assert await parts(responses) == WHOLE


async def test_a_server_that_does_not_stream_is_read_too(responses: OpenAIResponses, stub: OpenAIStub) -> None:
    body: JsonValue = {"model": "gpt-test-2026", "status": "completed", "output": OUTPUT, "usage": USAGE}
    stub.will(Reply.json(body, headers={"X-Request-Id": "req_1"}))
    assert await parts(responses) == WHOLE


async def test_a_refusal_is_what_the_model_said(responses: OpenAIResponses, stub: OpenAIStub) -> None:
    stub.will(Reply.sse(CREATED, event("refusal.delta", delta="I can't."), COMPLETED))
    assert await parts(responses) == [StartPart("gpt-test-2026"), TextPart("I can't."), StopPart(StopReason.END_TURN)]


async def test_an_answer_that_is_too_long_says_so(responses: OpenAIResponses, stub: OpenAIStub) -> None:
    """B-115"""
    stub.will(Reply.sse(*HALF, ended("incomplete", incomplete_details={"reason": "max_output_tokens"})))
    assert (await parts(responses))[-1] == StopPart(StopReason.MAX_TOKENS)


FLAT: JsonValue = {"type": "error", "code": "rate_limit_exceeded", "message": "no luck", "param": None}
NESTED: JsonValue = {
    "type": "error",
    "error": {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "no luck"},
}


@pytest.mark.parametrize(
    ("last", "kind", "cause"),
    [
        ([], ProviderErrorKind.STREAM_INTERRUPTED, "connection reset"),
        ([FLAT], ProviderErrorKind.RATE_LIMITED, "provider 429 mid-stream"),
        ([NESTED], ProviderErrorKind.CONTEXT_OVERFLOW, None),
        (
            [ended("failed", error={"code": "server_error", "message": "no luck"})],
            ProviderErrorKind.PROVIDER,
            "provider 500 mid-stream",
        ),
        (
            [ended("failed", error={"code": "invalid_image", "message": "no luck"})],
            ProviderErrorKind.INVALID_REQUEST,
            None,
        ),
        ([ended("failed", error={"code": "bio_policy", "message": "!"})], ProviderErrorKind.CONTENT_FILTERED, None),
        (
            [ended("incomplete", incomplete_details={"reason": "content_filter"})],
            ProviderErrorKind.CONTENT_FILTERED,
            None,
        ),
        ([ended("incomplete", incomplete_details={"reason": "?"})], ProviderErrorKind.PROVIDER, "malformed event"),
        (["{"], ProviderErrorKind.PROVIDER, "malformed event"),
    ],
)
async def test_an_answer_that_breaks_off_says_why(
    responses: OpenAIResponses, stub: OpenAIStub, last: list[JsonValue], kind: ProviderErrorKind, cause: str | None
) -> None:
    """B-130"""
    error = await failure(responses, stub, Reply.sse(*HALF, *last))
    assert (error.kind, error.cause) == (kind, cause)
    assert f"model 'gpt-test' at {stub.host}" in str(error)


@pytest.mark.parametrize("body", [{"output": [], "status": "queued"}, {"status": "completed"}, []])
async def test_a_success_that_is_not_an_answer_is_a_provider_failure(
    responses: OpenAIResponses, stub: OpenAIStub, body: JsonValue
) -> None:
    error = await failure(responses, stub, Reply.json(body))
    assert error.kind is ProviderErrorKind.PROVIDER
    assert "sent something that is not an answer" in str(error)
