"""`AnthropicMessages`: what it sends and what it reads. What it shares with `OpenAIChat` is tested there."""

import httpx
import pytest
from pydantic import JsonValue

from tests.activities.providers.openai_stub import OpenAIStub, Reply, Step
from tests.support.fake_provider.asked import Format
from tests.support.fake_provider.official import body_problem
from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.inference import (
    ModelRequest,
    ModelSettings,
    OutputSpec,
    ReasoningBudget,
    ReasoningEffort,
    StopReason,
)
from wakeful.contract.messages import (
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
    VideoBlock,
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
from wakeful_activities.providers.anthropic.provider import AnthropicMessages
from wakeful_activities.providers.anthropic.schemas import promised
from wakeful_activities.providers.shared.writing import as_json

CACHED: JsonValue = {"type": "ephemeral"}


@pytest.fixture
def anthropic(stub: OpenAIStub, client: httpx.AsyncClient) -> AnthropicMessages:
    return AnthropicMessages(api_key="sk-1", base_url=f"http://{stub.host}", timeout=5, client=client)


def text(words: str) -> TextBlock:
    return TextBlock(text=words)


def user(*blocks: ContentBlock) -> Message:
    return Message(id="m", role=Role.USER, content=blocks)


def said(*blocks: ContentBlock, calls: tuple[ToolCall, ...] = ()) -> Message:
    return Message(id="m", role=Role.ASSISTANT, content=blocks, tool_calls=calls)


def told(words: str) -> Message:
    return Message(id="m", role=Role.SYSTEM, content=(text(words),))


def result(words: str, call_id: str) -> Message:
    return Message(id="m", role=Role.TOOL, content=(text(words),), tool_call_id=call_id)


HELLO = ModelRequest(model="claude-opus-5", messages=(user(text("hello")),), prompt_cache=False)


def event(kind: str, **fields: JsonValue) -> dict[str, JsonValue]:
    return {"type": kind, **fields}


def started(block: JsonValue, index: int = 0) -> dict[str, JsonValue]:
    return event("content_block_start", index=index, content_block=block)


def grown(kind: str, index: int = 0, **fields: JsonValue) -> dict[str, JsonValue]:
    return event("content_block_delta", index=index, delta={"type": f"{kind}_delta", **fields})


def stopped(reason: JsonValue) -> list[JsonValue]:
    return [event("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 20}), event("message_stop")]


BEGUN = event(
    "message_start",
    message={
        "model": "claude-opus-5-1",
        "usage": {
            "input_tokens": 28,
            "output_tokens": 1,
            "cache_read_input_tokens": 64,
            "cache_creation_input_tokens": 8,
        },
    },
)
OPENED = StartPart("claude-opus-5-1", "req_1")
FIRST = Usage(prompt_tokens=100, completion_tokens=1, total_tokens=101, cache_read_tokens=64, cache_creation_tokens=8)
LAST = FIRST.model_copy(update={"completion_tokens": 20, "total_tokens": 120})
HALF = (BEGUN, started({"type": "text", "text": ""}), grown("text", text="hi"))
ID = {"request-id": "req_1"}


async def parts(anthropic: AnthropicMessages, request: ModelRequest = HELLO) -> list[StreamPart]:
    return [part async for part in anthropic.stream(request)]


async def failure(anthropic: AnthropicMessages, stub: OpenAIStub, step: Step) -> ProviderError:
    stub.will(step)
    with pytest.raises(ProviderError) as caught:
        await parts(anthropic)
    return caught.value


async def sent(anthropic: AnthropicMessages, stub: OpenAIStub, request: ModelRequest) -> dict[str, JsonValue]:
    """The body that a request becomes, once Anthropic's own types have taken it."""
    stub.will(Reply.sse(*HALF, *stopped("end_turn")))
    await parts(anthropic, request)
    body = stub.asked[-1].body
    assert isinstance(body, dict)
    unsampled = {name: value for name, value in body.items() if name not in ("temperature", "top_p")}
    assert body_problem(Format.ANTHROPIC, unsampled) is None  # the newest types do not name the sampling settings
    return body


async def turns(anthropic: AnthropicMessages, stub: OpenAIStub, *messages: Message) -> JsonValue:
    body = await sent(anthropic, stub, ModelRequest(model="m", messages=messages, prompt_cache=False))
    return body["messages"]


async def test_the_whole_request_is_sent_as_the_api_writes_it(anthropic: AnthropicMessages, stub: OpenAIStub) -> None:
    """B-101, B-105: thoughts first, results together, and what does not change from step to step is cached."""
    request = ModelRequest(
        model="claude-opus-5",
        instructions="Be brief.",
        messages=(
            told("Today is Monday."),
            user(text("Weather?")),
            said(
                text("One moment."),
                ThinkingBlock(thinking="hm", signature="EqQB"),
                ThinkingBlock(thinking="", signature="redacted_thinking:Zm9v"),
                ThinkingBlock(thinking="of another provider", signature='{"id":"rs_1"}'),
                ThinkingBlock(thinking="unsigned"),
                calls=(ToolCall(id="functions.f:0", name="weather", arguments={"a": 1}), ToolCall(id="c2", name="f")),
            ),
            result("sunny", "functions.f:0"),
            result("noon", "c2"),
            user(text("And now?")),
        ),
        tools=(
            ToolDescriptor(id="weather", name="Weather", description="Look outside."),
            ToolDescriptor(id="f", name="F"),
        ),
    )
    schema: JsonValue = {"type": "object", "properties": {}}
    assert await sent(anthropic, stub, request) == {
        "model": "claude-opus-5",
        "max_tokens": 8_192,
        "stream": True,
        "system": [
            {"type": "text", "text": "Be brief."},
            {"type": "text", "text": "Today is Monday.", "cache_control": CACHED},
        ],
        "tools": [
            {"name": "f", "description": "", "input_schema": schema},
            {"name": "weather", "description": "Look outside.", "input_schema": schema, "cache_control": CACHED},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "EqQB"},
                    {"type": "redacted_thinking", "data": "Zm9v"},
                    {"type": "text", "text": "One moment."},
                    {"type": "tool_use", "id": "functions_f_0", "name": "weather", "input": {"a": 1}},
                    {"type": "tool_use", "id": "c2", "name": "f", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "functions_f_0", "content": "sunny"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "noon"},
                    {"type": "text", "text": "And now?", "cache_control": CACHED},
                ],
            },
        ],
    }
    assert stub.asked[0].line == "POST /v1/messages HTTP/1.1"
    headers = stub.asked[0].headers
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("sk-1", "2023-06-01")
    assert "authorization" not in headers


async def test_results_directly_follow_their_calls_whatever_was_said_meanwhile(
    anthropic: AnthropicMessages, stub: OpenAIStub
) -> None:
    assert await turns(
        anthropic,
        stub,
        user(text("one")),
        user(text("two"), text(" ")),
        said(calls=(ToolCall(id="c", name="f", arguments=[1]),)),
        told("Hurry."),
        result("", "c"),
        said(text("\n")),
        user(text("three")),
    ) == [
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {"arguments": [1]}}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c", "content": ""},
                {"type": "text", "text": "<system>\nHurry.\n</system>"},
                {"type": "text", "text": "three"},
            ],
        },
    ]


async def test_pictures_and_documents_are_sent_as_the_api_takes_them(
    anthropic: AnthropicMessages, stub: OpenAIStub
) -> None:
    blocks = (
        ImageBlock(source=UrlSource(url="https://example.com/a.png")),
        ImageBlock(source=Base64Source(media_type="image/png", data="iVBO")),
        DocumentBlock(source=UrlSource(url="https://example.com/a.pdf"), title="A"),
        DocumentBlock(source=Base64Source(media_type="application/pdf", data="JVBE")),
        DocumentBlock(source=Base64Source(media_type="text/markdown", data="SGk=")),
    )
    pdf: JsonValue = {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}
    content: JsonValue = [
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}},
        {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}, "title": "A"},
        {"type": "document", "source": pdf},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Hi"}},
    ]
    assert await turns(anthropic, stub, user(*blocks)) == [{"role": "user", "content": content}]


async def test_a_block_that_cannot_be_sent_is_named_before_anything_is_asked(
    anthropic: AnthropicMessages, stub: OpenAIStub
) -> None:
    request = ModelRequest(model="m", messages=(user(VideoBlock(source=UrlSource(url="https://example.com/a"))),))
    with pytest.raises(ProviderError, match="holds a 'video' block, which AnthropicMessages cannot send there"):
        await parts(anthropic, request)
    assert stub.asked == []


ADAPTIVE: JsonValue = {"type": "adaptive", "display": "summarized"}
OFF: JsonValue = {"type": "disabled"}


def budget(tokens: int) -> JsonValue:
    return {"type": "enabled", "budget_tokens": tokens}


@pytest.mark.parametrize(
    ("model", "effort", "room", "expected"),
    [
        ("claude-opus-5", None, None, (8_192, None, None)),
        ("claude-opus-5", "none", 50, (50, OFF, None)),
        ("claude-opus-5", "max", None, (40_960, ADAPTIVE, "max")),
        ("claude-opus-4-6", "low", 50, (50, ADAPTIVE, "low")),
        ("claude-sonnet-5", ReasoningBudget(budget=9_000), None, (17_192, ADAPTIVE, "medium")),
        ("claude-haiku-4-5", "low", None, (10_240, budget(2_048), None)),
        ("claude-sonnet-4-20250514", "high", 16_384, (32_768, budget(16_384), None)),
        ("claude-opus-4-5-20251101", "medium", 10_000, (10_000, budget(8_192), None)),
        ("anthropic.claude-3-7-sonnet", ReasoningBudget(budget=5), None, (9_216, budget(1_024), None)),
        ("some-other-model", "low", None, (10_240, budget(2_048), None)),
    ],
)
async def test_how_much_to_think_is_said_as_the_model_takes_it(
    anthropic: AnthropicMessages,
    stub: OpenAIStub,
    model: str,
    effort: ReasoningEffort | None,
    room: int | None,
    expected: tuple[int, JsonValue, str | None],
) -> None:
    """B-103: newer models think as they see fit, older ones by a budget that leaves room for the answer."""
    settings = ModelSettings(temperature=0.2, top_p=0.9, max_tokens=room, reasoning_effort=effort)
    body = await sent(anthropic, stub, HELLO.model_copy(update={"model": model, "settings": settings}))
    max_tokens, thinking, named = expected
    messages: JsonValue = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
    assert body == {
        "model": model,
        "max_tokens": max_tokens,
        "stream": True,
        "messages": messages,
        **({} if thinking is None else {"thinking": thinking}),
        **({} if named is None else {"output_config": {"effort": named}}),
        **({"temperature": 0.2, "top_p": 0.9} if thinking in (None, OFF) else {}),
    }


@pytest.mark.parametrize(("signature", "thinks"), [("EqQB", True), ("redacted_thinking:Zm9v", True), (None, False)])
async def test_a_budget_is_left_out_where_the_turn_began_without_a_thought(
    anthropic: AnthropicMessages, stub: OpenAIStub, signature: str | None, thinks: bool
) -> None:
    """Another model may have begun the turn, or its thought was lost with its connection."""
    thought = ThinkingBlock(thinking="hm", signature=signature)
    calls = (ToolCall(id="c", name="f"),)
    request = ModelRequest(
        model="claude-haiku-4-5",
        messages=(user(text("hi")), said(thought, calls=calls), result("x", "c")),
        settings=ModelSettings(reasoning_effort="low"),
    )
    assert ("thinking" in await sent(anthropic, stub, request)) is thinks


SCHEMA: dict[str, JsonValue] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def test_the_shape_of_the_answer_is_promised_if_it_can_be(anthropic: AnthropicMessages, stub: OpenAIStub) -> None:
    output = OutputSpec(name="N", json_schema=SCHEMA)
    body = await sent(anthropic, stub, HELLO.model_copy(update={"output": output}))
    schema: JsonValue = {**SCHEMA, "additionalProperties": False}
    assert body["output_config"] == {"format": {"type": "json_schema", "schema": schema}}
    assert "system" not in body


@pytest.mark.parametrize(("model", "schema"), [("claude-opus-5", {"type": "object"}), ("other", SCHEMA)])
async def test_a_shape_that_cannot_be_promised_is_asked_for(
    anthropic: AnthropicMessages, stub: OpenAIStub, model: str, schema: dict[str, JsonValue]
) -> None:
    output = OutputSpec(name="N", json_schema=schema)
    body = await sent(anthropic, stub, HELLO.model_copy(update={"model": model, "output": output}))
    asked = f"Answer with JSON that fits this JSON Schema, and with nothing else:\n{as_json(schema)}"
    assert body["system"] == [{"type": "text", "text": asked}]
    assert "output_config" not in body


def test_what_a_promise_leaves_out_is_said_in_words() -> None:
    schema: dict[str, JsonValue] = {
        "$defs": {"Day": {"type": "string", "enum": ["mo", "tu"]}},
        "type": "object",
        "title": "Week",
        "properties": {
            "day": {"$ref": "#/$defs/Day"},
            "at": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
            "tags": {"type": "array", "items": {"type": "string", "format": "color"}, "maxItems": 3},
            "n": {"type": "integer", "minimum": 1, "description": "How many."},
        },
        "required": ["day"],
    }
    assert promised(schema) == {
        "type": "json_schema",
        "schema": {
            "type": "object",
            "properties": {
                "day": {"enum": ["mo", "tu"]},
                "at": {
                    "anyOf": [{"type": "string", "format": "date"}, {"type": "null"}],
                    "description": '{"default":null}',
                },
                "tags": {
                    "type": "array",
                    "items": {"type": "string", "description": '{"format":"color"}'},
                    "description": '{"maxItems":3}',
                },
                "n": {"type": "integer", "description": 'How many.\n\n{"minimum":1}'},
            },
            "additionalProperties": False,
            "required": ["day"],
        },
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"x": {}}},
        {"type": "object", "properties": {"x": True}},
        {"type": "object", "properties": {"x": {"type": ["string", "null"]}}},
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/Gone"}}},
        {"$ref": "#/$defs/T", "$defs": {"T": {"type": "object", "properties": {"t": {"$ref": "#/$defs/T"}}}}},
    ],
)
def test_what_the_api_cannot_express_is_not_promised(schema: dict[str, JsonValue]) -> None:
    assert promised(schema) is None


async def test_a_stream_is_read_as_it_comes(anthropic: AnthropicMessages, stub: OpenAIStub) -> None:
    """B-110, B-114, B-115"""
    call: JsonValue = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
    whole: JsonValue = {"type": "tool_use", "id": "c2", "name": "g", "input": {"b": 2}}
    stub.will(
        Reply.sse(
            BEGUN,
            event("ping"),
            started({"type": "thinking", "thinking": "", "signature": ""}),
            grown("thinking", thinking="hm"),
            grown("signature", signature="EqQB"),
            event("content_block_stop", index=0),
            started({"type": "redacted_thinking", "data": "Zm9v"}, 1),
            event("content_block_stop", index=1),
            started({"type": "text", "text": ""}, 2),
            grown("text", 2, text="Let me "),
            grown("text", 2, text="see."),
            grown("citations", 2, citation={}),
            event("content_block_stop", index=2),
            started(call, 3),
            grown("input_json", 3, partial_json=""),
            grown("input_json", 3, partial_json='{"a"'),
            grown("input_json", 3, partial_json=":1}"),
            event("content_block_stop", index=3),
            started(whole, 4),
            event("content_block_stop", index=4),
            event("tomorrow", delta={"type": "?"}),
            *stopped("tool_use"),
            headers=ID,
        )
    )
    assert await parts(anthropic) == [
        OPENED,
        UsagePart(FIRST),
        ReasoningPart("hm"),
        ReasoningPart(signature="EqQB"),
        ReasoningPart(signature="redacted_thinking:Zm9v"),
        TextPart("Let me "),
        TextPart("see."),
        CallStartPart(0, "c1", "f"),
        CallArgumentsPart(0, '{"a"'),
        CallArgumentsPart(0, ":1}"),
        CallEndPart(0),
        CallStartPart(1, "c2", "g"),
        CallArgumentsPart(1, '{"b":2}'),
        CallEndPart(1),
        UsagePart(LAST),
        StopPart(StopReason.TOOL_USE),
    ]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", StopReason.END_TURN),
        ("max_tokens", StopReason.MAX_TOKENS),
        ("model_context_window_exceeded", StopReason.MAX_TOKENS),
        ("stop_sequence", StopReason.STOP_SEQUENCE),
    ],
)
async def test_a_stop_reason_is_a_stop_reason(
    anthropic: AnthropicMessages, stub: OpenAIStub, reason: str, expected: StopReason
) -> None:
    """B-115"""
    stub.will(Reply.sse(*HALF, *stopped(reason), headers=ID))
    assert await parts(anthropic) == [OPENED, UsagePart(FIRST), TextPart("hi"), UsagePart(LAST), StopPart(expected)]


def broken(kind: str) -> list[JsonValue]:
    return [event("error", error={"type": kind, "message": "no luck"}, request_id="req_1")]


@pytest.mark.parametrize(
    ("last", "kind", "cause"),
    [
        ([], ProviderErrorKind.STREAM_INTERRUPTED, "connection reset"),
        (stopped("end_turn")[:1], ProviderErrorKind.STREAM_INTERRUPTED, "connection reset"),
        (broken("overloaded_error"), ProviderErrorKind.OVERLOADED, "provider 529 mid-stream"),
        (broken("rate_limit_error"), ProviderErrorKind.RATE_LIMITED, "provider 429 mid-stream"),
        (broken("api_error"), ProviderErrorKind.PROVIDER, "provider 500 mid-stream"),
        (broken("timeout_error"), ProviderErrorKind.TIMEOUT, "provider 504 mid-stream"),
        (broken("invalid_request_error"), ProviderErrorKind.INVALID_REQUEST, None),
        (broken("authentication_error"), ProviderErrorKind.UNAUTHORIZED, None),
        (broken("permission_error"), ProviderErrorKind.UNAUTHORIZED, None),
        (broken("not_found_error"), ProviderErrorKind.MODEL_NOT_FOUND, None),
        (broken("request_too_large"), ProviderErrorKind.CONTEXT_OVERFLOW, None),
        (broken("billing_error"), ProviderErrorKind.INVALID_REQUEST, None),
        (stopped("refusal"), ProviderErrorKind.CONTENT_FILTERED, None),
        (stopped("?"), ProviderErrorKind.PROVIDER, "malformed event"),
        (["{"], ProviderErrorKind.PROVIDER, "malformed event"),
    ],
)
async def test_an_answer_that_breaks_off_says_why(
    anthropic: AnthropicMessages, stub: OpenAIStub, last: list[JsonValue], kind: ProviderErrorKind, cause: str | None
) -> None:
    """B-130"""
    error = await failure(anthropic, stub, Reply.sse(*HALF, *last))
    assert (error.kind, error.cause) == (kind, cause)
    assert f"model 'claude-opus-5' at {stub.host}" in str(error)


async def test_a_refused_request_is_named_by_the_header_of_this_api(
    anthropic: AnthropicMessages, stub: OpenAIStub
) -> None:
    body: JsonValue = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    error = await failure(anthropic, stub, Reply.json(body, status=529, headers=ID))
    assert error.kind is ProviderErrorKind.OVERLOADED
    assert "answered 529: 'Overloaded' (request id 'req_1')" in str(error)


async def test_an_answer_that_is_not_streamed_is_none(anthropic: AnthropicMessages, stub: OpenAIStub) -> None:
    error = await failure(anthropic, stub, Reply.json({"content": []}))
    assert error.kind is ProviderErrorKind.PROVIDER
    assert "sent something that is not an answer (it does not stream)" in str(error)


async def test_the_environment_names_key_and_server_with_or_without_the_version(stub: OpenAIStub) -> None:
    for url in (f"http://{stub.host}", f"http://{stub.host}/v1/"):
        anthropic = AnthropicMessages.from_env({"ANTHROPIC_API_KEY": "sk-2", "ANTHROPIC_BASE_URL": url})
        stub.will(Reply.sse(*HALF, *stopped("end_turn")))
        await parts(anthropic)
        await anthropic.aclose()
        assert (stub.asked[-1].line, stub.asked[-1].headers["x-api-key"]) == ("POST /v1/messages HTTP/1.1", "sk-2")
    assert repr(AnthropicMessages.from_env({})) == "AnthropicMessages(host='api.anthropic.com')"
