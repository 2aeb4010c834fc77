"""`OpenAIChat` against a server on loopback: what it sends, what it reads, and what it says when that fails."""

import asyncio
import logging
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from pathlib import Path

import httpx
import pytest
from pydantic import JsonValue

from tests.activities.providers.openai_stub import (
    EVENT_STREAM,
    Cut,
    Hang,
    OpenAIStub,
    Reply,
    Reset,
    Step,
    Trickle,
    sse,
    unused_address,
)
from tests.support.fake_provider.asked import Format
from tests.support.fake_provider.official import body_problem
from tests.support.fake_provider.script import Answer
from tests.support.fake_provider.server import fake_provider
from wakeful.authoring.provider import StreamingProvider
from wakeful.contract.errors import ConfigurationError, ProviderError, ProviderErrorKind
from wakeful.contract.inference import (
    ModelRequest,
    ModelSettings,
    OutputSpec,
    ReasoningBudget,
    ReasoningEffort,
    StopReason,
)
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
    ToolResultBlock,
    ToolUseBlock,
    UrlSource,
    VideoBlock,
    Visibility,
)
from wakeful.contract.runs import Usage
from wakeful.contract.streaming import (
    CallArgumentsPart,
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
from wakeful_activities.providers.openai_chat.provider import OPENAI_URL, OpenAIChat
from wakeful_activities.providers.shared.failures import (
    LONGEST_RETRY_AFTER,
    Callee,
    broken_off,
    retry_after,
    unanswered,
)
from wakeful_activities.providers.shared.writing import effort_of

CANARY = "sk-canary-4711"
NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


@pytest.fixture
def chat(stub: OpenAIStub, client: httpx.AsyncClient) -> OpenAIChat:
    return OpenAIChat(api_key=CANARY, base_url=stub.base_url, timeout=5, client=client)


def user(*blocks: ContentBlock) -> Message:
    return Message(id="m", role=Role.USER, content=blocks)


def text(words: str) -> TextBlock:
    return TextBlock(text=words)


HELLO = ModelRequest(model="gpt-test", messages=(user(text("hello")),))


def completion(message: JsonValue, *, finish_reason: JsonValue = "stop") -> dict[str, JsonValue]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}


ANSWER = Reply.json(completion({"role": "assistant", "content": "hi"}))


def calls(*written: JsonValue) -> dict[str, JsonValue]:
    """The message of a model that calls tool `f` with each of these arguments, as they stand in the JSON."""
    wanted: list[JsonValue] = [
        {"id": f"c{n}", "function": {"name": "f", "arguments": w}} for n, w in enumerate(written)
    ]
    return {"content": None, "tool_calls": wanted}


async def parts(chat: OpenAIChat, request: ModelRequest = HELLO) -> list[StreamPart]:
    return [part async for part in chat.stream(request)]


async def answer(chat: OpenAIChat, stub: OpenAIStub, *events: JsonValue) -> list[StreamPart]:
    """What becomes of a stream of these chunks, but for its beginning."""
    stub.will(Reply.sse(*events))
    opened, *rest = await parts(chat)
    assert isinstance(opened, StartPart)
    return rest


def delta(said: JsonValue = None, finish_reason: JsonValue = None) -> dict[str, JsonValue]:
    return {"model": "gpt-test", "choices": [{"index": 0, "delta": said or {}, "finish_reason": finish_reason}]}


def calling(*pieces: JsonValue) -> list[JsonValue]:
    """The chunks of a model that writes these pieces of tool calls, one a chunk."""
    return [*(delta({"tool_calls": [piece]}) for piece in pieces), delta(finish_reason="tool_calls"), "[DONE]"]


USAGE: JsonValue = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 8, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 12},
}
USED = Usage(
    prompt_tokens=100,
    completion_tokens=20,
    total_tokens=120,
    cache_read_tokens=64,
    cache_creation_tokens=8,
    thinking_tokens=12,
)


async def failure(chat: OpenAIChat, stub: OpenAIStub, step: Step) -> ProviderError:
    stub.will(step)
    with pytest.raises(ProviderError) as caught:
        await parts(chat)
    return caught.value


def sent(stub: OpenAIStub) -> dict[str, JsonValue]:
    body = stub.asked[-1].body
    assert isinstance(body, dict)
    return body


async def sent_messages(chat: OpenAIChat, stub: OpenAIStub, *messages: Message) -> JsonValue:
    stub.will(ANSWER)
    await parts(chat, ModelRequest(model="m", messages=messages))
    assert body_problem(Format.CHAT, sent(stub)) is None
    return sent(stub)["messages"]


async def test_the_whole_request_is_sent_as_the_api_writes_it(chat: OpenAIChat, stub: OpenAIStub) -> None:
    """B-100, B-101, B-105, B-200: instructions first, every message, tools sorted, nothing of our own."""
    schema: dict[str, JsonValue] = {"type": "object", "properties": {"city": {"type": "string"}}}
    call = ToolCall(id="c1", name="weather", arguments={"city": "Zürich"})
    request = ModelRequest(
        model="gpt-test",
        instructions="Be brief.",
        messages=(
            Message(id="1", role=Role.SYSTEM, content=(text("Today is Monday."),), visibility=Visibility.INTERNAL),
            user(text("Weather and time?")),
            Message(
                id="3",
                role=Role.ASSISTANT,
                content=(ThinkingBlock(thinking="hm", signature="s"), text("One moment.")),
                tool_calls=(call, ToolCall(id="c2", name="clock")),
            ),
            Message(id="4", role=Role.TOOL, content=(text("sunny"),), tool_call_id="c1"),
            Message(id="5", role=Role.TOOL, content=(text("noon"),), tool_call_id="c2"),
            Message(id="6", role=Role.ASSISTANT, content=(text("Sunny, "), text("noon."))),
            user(text("Thanks.")),
        ),
        tools=(
            ToolDescriptor(id="weather", name="Weather", description="Look outside.", parameters=schema),
            ToolDescriptor(id="clock", name="Clock", category="time", metadata={"secret": 1}, frontend=True),
        ),
    )
    stub.will(ANSWER)
    await parts(chat, request)
    [asked] = stub.asked
    assert asked.line == "POST /v1/chat/completions HTTP/1.1"
    assert asked.headers["authorization"] == f"Bearer {CANARY}"
    assert asked.headers["content-type"] == "application/json"
    assert body_problem(Format.CHAT, sent(stub)) is None
    assert asked.body == {
        "model": "gpt-test",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "system", "content": "Today is Monday."},
            {"role": "user", "content": "Weather and time?"},
            {
                "role": "assistant",
                "content": "One moment.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Zürich"}'}},
                    {"id": "c2", "type": "function", "function": {"name": "clock", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
            {"role": "tool", "tool_call_id": "c2", "content": "noon"},
            {"role": "assistant", "content": "Sunny, noon."},
            {"role": "user", "content": "Thanks."},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "clock",
                    "description": "",
                    "parameters": {"type": "object", "properties": {}},
                },
            },
            {
                "type": "function",
                "function": {"name": "weather", "description": "Look outside.", "parameters": schema},
            },
        ],
    }


async def test_without_instructions_and_tools_neither_is_sent(chat: OpenAIChat, stub: OpenAIStub) -> None:
    """B-101"""
    stub.will(ANSWER)
    await parts(chat)
    assert stub.asked[0].body == {
        "model": "gpt-test",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_images_are_sent_as_parts_in_their_order(chat: OpenAIChat, stub: OpenAIStub) -> None:
    message = user(
        text("compare"),
        ImageBlock(source=UrlSource(url="https://example.com/a.png")),
        ImageBlock(source=Base64Source(media_type="image/png", data="iVBO")),
    )
    assert await sent_messages(chat, stub, message) == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "compare"},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}},
            ],
        }
    ]


async def test_documents_are_sent_as_files_and_texts_as_text(chat: OpenAIChat, stub: OpenAIStub) -> None:
    message = user(
        DocumentBlock(source=Base64Source(media_type="application/pdf", data="JVBE")),
        DocumentBlock(source=Base64Source(media_type="text/markdown", data="IyBIaQ=="), title="Notes"),
    )
    pdf: JsonValue = {"filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBE"}
    parts: JsonValue = [{"type": "file", "file": pdf}, {"type": "text", "text": "Notes\n\n# Hi"}]
    assert await sent_messages(chat, stub, message) == [{"role": "user", "content": parts}]


async def test_settings_and_the_shape_of_the_answer_are_sent(chat: OpenAIChat, stub: OpenAIStub) -> None:
    """B-103"""
    stub.will(ANSWER)
    settings = ModelSettings(temperature=0.2, top_p=0.9, max_tokens=50, reasoning_effort="low")
    output = OutputSpec(name="List[Weather]", json_schema={"type": "object"})
    await parts(chat, HELLO.model_copy(update={"settings": settings, "output": output}))
    assert body_problem(Format.CHAT, sent(stub)) is None
    format: JsonValue = {"name": "List_Weather_", "schema": {"type": "object"}}
    assert sent(stub) == {
        "model": "gpt-test",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.2,
        "top_p": 0.9,
        "max_tokens": 50,
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": format},
    }


async def test_openai_is_told_the_limit_by_its_newer_name() -> None:
    asked: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.content)
        return httpx.Response(200, json=completion({"content": "hi"}))

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        request = HELLO.model_copy(update={"settings": ModelSettings(max_tokens=50)})
        await parts(OpenAIChat(api_key=None, client=client), request)
    assert b'"max_completion_tokens":50' in asked[0]


@pytest.mark.parametrize(
    ("effort", "named"),
    [("none", "none"), ("max", "max"), (ReasoningBudget(budget=1), "low"), (ReasoningBudget(budget=10_000), "medium")],
)
def test_an_effort_is_sent_by_name(effort: ReasoningEffort, named: str) -> None:
    """B-103"""
    assert effort_of(effort) == named


async def test_a_message_with_nothing_to_send_is_sent_empty(chat: OpenAIChat, stub: OpenAIStub) -> None:
    silent = Message(id="a", role=Role.ASSISTANT, tool_calls=(ToolCall(id="c", name="f", arguments=[1]),))
    function: JsonValue = {"name": "f", "arguments": "[1]"}
    assert await sent_messages(chat, stub, user(), user(ThinkingBlock(thinking="hm")), silent) == [
        {"role": "user", "content": ""},
        {"role": "user", "content": ""},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]},
    ]


MEDIA = UrlSource(url="https://example.com/file")


@pytest.mark.parametrize(
    ("role", "block"),
    [
        (Role.USER, DocumentBlock(source=MEDIA)),
        (Role.USER, AudioBlock(source=MEDIA)),
        (Role.SYSTEM, VideoBlock(source=MEDIA)),
        (Role.USER, ToolUseBlock(id="c", name="f", input={})),
        (Role.USER, ToolResultBlock(tool_use_id="c", content="x")),
        (Role.ASSISTANT, ImageBlock(source=MEDIA)),
        (Role.TOOL, ImageBlock(source=MEDIA)),
    ],
    ids=lambda value: value.type if isinstance(value, DocumentBlock | AudioBlock | VideoBlock) else None,
)
async def test_a_block_that_cannot_be_sent_is_named_before_anything_is_asked(
    chat: OpenAIChat, stub: OpenAIStub, role: Role, block: ContentBlock
) -> None:
    message = Message(id="m", role=role, content=(text("look"), block), tool_call_id="c")
    with pytest.raises(ProviderError) as caught:
        await parts(chat, ModelRequest(model="m", messages=(user(text("hi")), message)))
    assert caught.value.kind is ProviderErrorKind.INVALID_REQUEST
    assert str(caught.value) == (
        f"message 2 (role {role.value!r}) holds a {block.type!r} block, which OpenAIChat cannot send there; "
        "write it as text, or use a provider that takes it"
    )
    assert stub.asked == []


async def test_a_tool_result_without_its_call_is_refused(chat: OpenAIChat) -> None:
    orphan = Message(id="m", role=Role.TOOL, content=(text("x"),))
    with pytest.raises(ProviderError, match="message 1 is a tool's result and names no tool call") as caught:
        await parts(chat, ModelRequest(model="m", messages=(orphan,)))
    assert caught.value.kind is ProviderErrorKind.INVALID_REQUEST


async def test_a_stream_is_read_as_it_comes(chat: OpenAIChat, stub: OpenAIStub) -> None:
    """B-110, B-114, B-115: the usage comes after the stop, and `Stop` is the last word all the same."""
    stub.will(
        Reply.sse(
            {"model": "gpt-test-2026-01-01", "choices": []},
            delta({"role": "assistant", "content": ""}),
            delta({"reasoning_content": "hm"}),
            delta({"content": "Let me "}),
            delta({"content": "see."}),
            delta({"tool_calls": [{"index": 0, "id": "c0", "function": {"name": "f", "arguments": ""}}]}),
            delta({"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]}),
            delta({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}),
            delta({"tool_calls": [{"index": 1, "id": "c1", "function": {"name": "g", "arguments": "{}"}}]}),
            delta(finish_reason="tool_calls"),
            {"model": "gpt-test", "choices": [], "usage": USAGE},
            "[DONE]",
            headers={"X-Request-Id": "req_1"},
        )
    )
    assert await parts(chat) == [
        StartPart("gpt-test-2026-01-01", "req_1"),
        ReasoningPart("hm"),
        TextPart("Let me "),
        TextPart("see."),
        CallStartPart(0, "c0", "f"),
        CallArgumentsPart(0, '{"a"'),
        CallArgumentsPart(0, ":1}"),
        CallStartPart(1, "c1", "g"),
        CallArgumentsPart(1, "{}"),
        UsagePart(USED),
        StopPart(StopReason.TOOL_USE),
    ]


async def test_a_server_that_does_not_stream_is_read_too(chat: OpenAIChat, stub: OpenAIStub) -> None:
    message = calls('{"b":1}', "", {"a": 1}) | {"content": "Let me see.", "reasoning_content": "hm"}
    body: JsonValue = {**completion(message, finish_reason="tool_calls"), "model": "gpt-test-2026", "usage": USAGE}
    stub.will(Reply.json(body, headers={"X-Request-Id": "req_1"}))
    assert await parts(chat) == [
        StartPart("gpt-test-2026", "req_1"),
        ReasoningPart("hm"),
        TextPart("Let me see."),
        CallStartPart(0, "c0", "f"),
        CallArgumentsPart(0, '{"b":1}'),
        CallStartPart(1, "c1", "f"),
        CallStartPart(2, "c2", "f"),
        CallArgumentsPart(2, '{"a":1}'),
        UsagePart(USED),
        StopPart(StopReason.TOOL_USE),
    ]


async def test_an_answer_that_says_little_is_read_all_the_same(chat: OpenAIChat, stub: OpenAIStub) -> None:
    body: JsonValue = {**completion({"content": None, "tool_calls": None, "reasoning": "hm"}), "usage": None}
    stub.will(Reply.json(body, headers={"Content-Type": "text/plain"}))
    assert await parts(chat) == [StartPart("gpt-test"), ReasoningPart("hm"), StopPart(StopReason.END_TURN)]


async def test_a_refusal_is_what_the_model_said(chat: OpenAIChat, stub: OpenAIStub) -> None:
    events = (delta({"refusal": "I can't "}), delta({"content": None, "refusal": "help."}, "stop"), "[DONE]")
    assert await answer(chat, stub, *events) == [TextPart("I can't "), TextPart("help."), StopPart(StopReason.END_TURN)]


@pytest.mark.parametrize("last", [[], ["[DONE]"], ["[DONE]", delta({"content": "!"})]], ids=["cut", "done", "late"])
async def test_an_answer_is_whole_once_the_model_has_said_why_it_stops(
    chat: OpenAIChat, stub: OpenAIStub, last: list[JsonValue]
) -> None:
    events = (delta({"content": "hi"}), delta(finish_reason="stop"), *last)
    assert await answer(chat, stub, *events) == [TextPart("hi"), StopPart(StopReason.END_TURN)]


async def test_a_connection_that_breaks_behind_a_whole_answer_does_not_matter(
    chat: OpenAIChat, stub: OpenAIStub
) -> None:
    stub.will(Cut(sse(delta({"content": "hi"}), delta(finish_reason="stop")), EVENT_STREAM))
    assert await parts(chat) == [StartPart("gpt-test"), TextPart("hi"), StopPart(StopReason.END_TURN)]


ONE = [CallStartPart(0, "c", "f"), CallArgumentsPart(0, '{"a":'), CallArgumentsPart(0, "1}")]
TWO = [
    CallStartPart(0, "", "f"),
    CallArgumentsPart(0, "{}"),
    CallStartPart(1, "", "f"),
    CallArgumentsPart(1, '{"a":1}'),
]
BOTH = [
    CallStartPart(0, "c", "f"),
    CallArgumentsPart(0, "{}"),
    CallStartPart(1, "d", "f"),
    CallArgumentsPart(1, '{"a":1}'),
]


def piece(arguments: JsonValue = None, name: str | None = None, **more: JsonValue) -> dict[str, JsonValue]:
    function: JsonValue = {"arguments": arguments} | ({} if name is None else {"name": name})
    return {"function": function, **more}


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([piece('{"a":', "f", index=0, id="c"), piece("1}", index=0)], ONE),
        ([piece('{"a":', "f", id="c"), piece("1}")], ONE),
        ([piece('{"a":', "f", index=0, id="c"), piece("1}", "f", index=0, id="c")], ONE),
        ([piece('{"a":', "f", index=0, id="c"), piece("1}", "f", index=0)], ONE),
        ([piece('{"a":', "f", id="c"), piece("1}", "f", id="c")], ONE),
        ([piece('{"a":', "f", index=3, id="c"), piece("1}", "", index=3, id="")], ONE),
        ([piece(None, index=0, id="c"), piece('{"a":', "f", index=0), piece("1}", index=0)], ONE),
        ([piece("{}", "f", index=0, id="c"), piece('{"a":1}', "f", index=0, id="d")], BOTH),
        ([piece("{}", "f", id="c"), piece('{"a":1}', "f", id="d")], BOTH),
        ([piece("{}", "f", index=0, id="c"), piece({"a": 1}, "f", index=1, id="d")], BOTH),
        ([piece("{}", "f"), piece('{"a":1}', "f")], TWO),
        ([piece("{}", "f", index=0, id=""), piece('{"a":1}', "f", index=0, id="")], TWO),
        (
            [piece("", "f", index=0), piece("", "g", index=0)],
            [CallStartPart(0, "", "f"), CallStartPart(1, "", "g")],
        ),
        (
            [piece("{", "f", id="c"), piece("{", "g", id="d"), piece("}", id="c"), piece("}", id="d")],
            [
                CallStartPart(0, "c", "f"),
                CallArgumentsPart(0, "{"),
                CallStartPart(1, "d", "g"),
                CallArgumentsPart(1, "{"),
                CallArgumentsPart(0, "}"),
                CallArgumentsPart(1, "}"),
            ],
        ),
    ],
)
async def test_calls_are_told_apart_however_a_server_numbers_them(
    chat: OpenAIChat, stub: OpenAIStub, pieces: list[JsonValue], expected: list[StreamPart]
) -> None:
    """B-114"""
    assert await answer(chat, stub, *calling(*pieces)) == [*expected, StopPart(StopReason.TOOL_USE)]


async def test_missing_and_repeated_call_ids_are_left_as_they_are(chat: OpenAIChat, stub: OpenAIStub) -> None:
    function: JsonValue = {"name": "f", "arguments": ""}
    wanted: JsonValue = [{"function": function}, {"id": None, "function": function}, {"id": "", "function": function}]
    stub.will(Reply.json(completion({"tool_calls": wanted}, finish_reason="tool_calls")))
    assert [part.id for part in await parts(chat) if isinstance(part, CallStartPart)] == ["", "", ""]


@pytest.mark.parametrize(
    ("finish_reason", "expected"),
    [
        ("stop", StopReason.END_TURN),
        ("length", StopReason.MAX_TOKENS),
        ("tool_calls", StopReason.TOOL_USE),
        ("function_call", StopReason.TOOL_USE),
    ],
)
async def test_a_finish_reason_is_a_stop_reason(
    chat: OpenAIChat, stub: OpenAIStub, finish_reason: str, expected: StopReason
) -> None:
    """B-115"""
    assert await answer(chat, stub, delta({"content": ""}, ""), delta(finish_reason=finish_reason)) == [
        StopPart(expected)
    ]


@pytest.mark.parametrize(
    ("error", "kind", "cause"),
    [
        ({"type": "server_error", "code": None}, ProviderErrorKind.PROVIDER, "provider 500 mid-stream"),
        ({"code": "server_is_overloaded"}, ProviderErrorKind.OVERLOADED, "provider 503 mid-stream"),
        ({"code": 502}, ProviderErrorKind.PROVIDER, "provider 502 mid-stream"),
        ({"code": 529}, ProviderErrorKind.OVERLOADED, "provider 529 mid-stream"),
        ({"type": "tokens", "code": "rate_limit_exceeded"}, ProviderErrorKind.RATE_LIMITED, "provider 429 mid-stream"),
        ({"type": "invalid_request_error", "code": "invalid_api_key"}, ProviderErrorKind.UNAUTHORIZED, None),
        ({"type": "invalid_request_error", "code": "model_not_found"}, ProviderErrorKind.MODEL_NOT_FOUND, None),
        ({"type": "invalid_request_error"}, ProviderErrorKind.INVALID_REQUEST, None),
        ({"code": "context_length_exceeded"}, ProviderErrorKind.CONTEXT_OVERFLOW, None),
        ({"type": "insufficient_quota"}, ProviderErrorKind.INVALID_REQUEST, None),
        ({"code": "content_policy_violation"}, ProviderErrorKind.CONTENT_FILTERED, None),
        ({"code": "who knows"}, ProviderErrorKind.PROVIDER, "provider 500 mid-stream"),
    ],
)
async def test_an_error_in_the_middle_of_a_stream_has_its_kind_and_cause(
    chat: OpenAIChat, stub: OpenAIStub, error: dict[str, JsonValue], kind: ProviderErrorKind, cause: str | None
) -> None:
    """B-130"""
    failed = await failure(chat, stub, Reply.sse(delta({"content": "hi"}), {"error": {"message": "no luck", **error}}))
    assert (failed.kind, failed.cause) == (kind, cause)
    if kind is not ProviderErrorKind.CONTENT_FILTERED:
        assert str(failed).startswith(
            f"model 'gpt-test' at {stub.host} broke off its answer with an error: 'no luck'; "
        )


HALF = sse(delta({"content": "hi"}))


async def test_a_connection_that_breaks_in_the_middle_is_an_interruption(chat: OpenAIChat, stub: OpenAIStub) -> None:
    """B-130"""
    error = await failure(chat, stub, Cut(HALF, EVENT_STREAM))
    assert (error.kind, error.cause) == (ProviderErrorKind.STREAM_INTERRUPTED, "connection reset")
    assert str(error).startswith(
        f"model 'gpt-test' at {stub.host} broke off in the middle of its answer (RemoteProtocolError: "
    )


async def test_a_stream_that_ends_early_is_an_interruption(chat: OpenAIChat, stub: OpenAIStub) -> None:
    """B-130"""
    error = await failure(chat, stub, Reply(HALF, headers=EVENT_STREAM))
    assert (error.kind, error.cause) == (ProviderErrorKind.STREAM_INTERRUPTED, "connection reset")
    assert str(error) == (
        f"the answer of model 'gpt-test' at {stub.host} ended early, without its last event; asking again may help"
    )


def test_a_server_that_says_goodbye_is_an_interruption_of_its_own() -> None:
    """B-130"""
    gone = httpx.RemoteProtocolError("<ConnectionTerminated error_code:0, last_stream_id:1, additional_data:None>")
    error = broken_off(Callee("m", "far.example", None), gone, timeout=600)
    assert (error.kind, error.cause) == (ProviderErrorKind.STREAM_INTERRUPTED, "goaway")


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (b"data: {\n\n", "Invalid JSON: EOF while parsing an object at line 1 column 1"),
        (b"data: 7\n\n", "Input should be an object"),
        (b"data: \xff\n\n", "a line is not UTF-8: invalid start byte at byte 6"),
        (sse(delta(finish_reason="load")), "unknown finish_reason 'load'"),
        (sse(*calling({"index": 0, "id": "c"})), "a tool call without a name"),
    ],
)
async def test_an_event_that_cannot_be_read_is_a_provider_failure(
    chat: OpenAIChat, stub: OpenAIStub, written: bytes, problem: str
) -> None:
    error = await failure(chat, stub, Reply(HALF + written, headers=EVENT_STREAM))
    assert (error.kind, error.cause) == (ProviderErrorKind.PROVIDER, "malformed event")
    assert str(error).startswith(f"model 'gpt-test' at {stub.host} sent an event that cannot be read ({problem}")


async def test_a_connection_that_is_read_to_its_end_is_used_again() -> None:
    async with fake_provider() as server:
        chat = OpenAIChat(api_key=None, base_url=server.chat_url)
        server.will(Answer("one"), Answer("two"))
        await parts(chat)
        await parts(chat)
        assert not server.asked[0].closed.is_set()
        await chat.aclose()


async def test_leaving_a_stream_hangs_up(chat: OpenAIChat, stub: OpenAIStub) -> None:
    stub.will(Hang(HALF))
    async with aclosing(chat.stream(HELLO)) as stream:
        assert [await anext(stream), await anext(stream)] == [StartPart("gpt-test"), TextPart("hi")]
    await asyncio.wait_for(stub.hung_up.wait(), 5)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (307, ProviderErrorKind.PROVIDER),
        (400, ProviderErrorKind.INVALID_REQUEST),
        (401, ProviderErrorKind.UNAUTHORIZED),
        (402, ProviderErrorKind.PROVIDER),
        (403, ProviderErrorKind.UNAUTHORIZED),
        (404, ProviderErrorKind.MODEL_NOT_FOUND),
        (408, ProviderErrorKind.TIMEOUT),
        (409, ProviderErrorKind.PROVIDER),
        (413, ProviderErrorKind.CONTEXT_OVERFLOW),
        (418, ProviderErrorKind.PROVIDER),
        (422, ProviderErrorKind.INVALID_REQUEST),
        (425, ProviderErrorKind.PROVIDER),
        (429, ProviderErrorKind.RATE_LIMITED),
        (500, ProviderErrorKind.PROVIDER),
        (502, ProviderErrorKind.PROVIDER),
        (503, ProviderErrorKind.OVERLOADED),
        (504, ProviderErrorKind.TIMEOUT),
        (529, ProviderErrorKind.OVERLOADED),
    ],
)
async def test_a_status_is_a_kind_of_failure(
    chat: OpenAIChat, stub: OpenAIStub, status: int, kind: ProviderErrorKind
) -> None:
    """B-120, B-121"""
    error = await failure(chat, stub, Reply.json({"error": {"message": "no luck"}}, status=status))
    assert error.kind is kind
    assert str(error).startswith(f"model 'gpt-test' at {stub.host} answered {status}: 'no luck'; ")


async def test_a_redirect_is_reported_and_not_followed(chat: OpenAIChat, stub: OpenAIStub) -> None:
    stub.will(Reply(b"", 307, {"Location": f"{stub.base_url}/elsewhere"}), ANSWER)
    with pytest.raises(ProviderError, match=r"answered 307; .* check the base URL"):
        await parts(chat)
    assert len(stub.asked) == 1


@pytest.mark.parametrize(
    "said",
    [
        "Prompt is too long: 9 > 8",
        "This model's maximum context length is 8192 tokens.",
        "Input is too long for requested model.",
        "Please reduce the length of the messages.",
        "Too many tokens in the request",
        "Request too large for gpt-test",
        "Reached context length of 4096 tokens",
        "the request exceeds the available context size, try increasing it",
    ],
)
async def test_a_bad_request_that_speaks_of_the_context_is_an_overflow(
    chat: OpenAIChat, stub: OpenAIStub, said: str
) -> None:
    """B-121"""
    error = await failure(chat, stub, Reply.json({"error": {"message": said}}, status=400))
    assert error.kind is ProviderErrorKind.CONTEXT_OVERFLOW


async def test_an_overflow_is_known_by_its_code_too(chat: OpenAIChat, stub: OpenAIStub) -> None:
    """B-121"""
    body: JsonValue = {"error": {"message": "No.", "code": "context_length_exceeded"}}
    error = await failure(chat, stub, Reply.json(body, status=400))
    assert error.kind is ProviderErrorKind.CONTEXT_OVERFLOW


@pytest.mark.parametrize("field", ["code", "type"])
async def test_a_spent_quota_is_not_asked_again(chat: OpenAIChat, stub: OpenAIStub, field: str) -> None:
    """B-121"""
    body: JsonValue = {"error": {"message": "You exceeded your current quota.", field: "insufficient_quota"}}
    error = await failure(chat, stub, Reply.json(body, status=429, headers={"Retry-After": "5"}))
    assert (error.kind, error.retry_after) == (ProviderErrorKind.INVALID_REQUEST, None)
    assert str(error) == (
        f"model 'gpt-test' at {stub.host} answered 429: 'You exceeded your current quota.'; "
        "check the account's plan and billing: waiting does not help"
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error":{"message":"from OpenAI","type":"t","code":null,"param":null}}', ": 'from OpenAI'"),
        (b'{"error":"from LM Studio"}', ": 'from LM Studio'"),
        (b'{"object":"error","message":"from older vLLM","code":400}', ": 'from older vLLM'"),
        (b'{"detail":"from FastAPI"}', ": 'from FastAPI'"),
        (b'[{"error":{"message":"from Google"}}]', ": 'from Google'"),
        (b'{"error":{"reason":7}}', """: '{"error":{"reason":7}}'"""),
        (b"<html>502</html>\n", ": '<html>502</html>'"),
        (b"x" * 300, f": '{'x' * 200}…'"),
        (b"[]", ": '[]'"),
        (b"", ""),
    ],
)
async def test_the_servers_own_words_are_passed_on(chat: OpenAIChat, stub: OpenAIStub, body: bytes, said: str) -> None:
    error = await failure(chat, stub, Reply(body, 422, {"X-Request-Id": "req_1"}))
    assert str(error) == (
        f"model 'gpt-test' at {stub.host} answered 422{said} (request id 'req_1'); "
        "change the request: the same one will be refused again"
    )


async def test_a_server_says_how_long_to_leave_it_alone(chat: OpenAIChat, stub: OpenAIStub) -> None:
    """B-120, B-122"""
    error = await failure(chat, stub, Reply(b"", 429, {"Retry-After": "7"}))
    assert error.retry_after == 7


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=30), usegmt=True)}, 30.0),
        ({"retry-after": "Mon, 16 Nov 2026 12:00:30 -0000"}, 30.0),
        ({"retry-after": format_datetime(NOW - timedelta(days=1), usegmt=True)}, 0.0),
        ({"retry-after": "1e300"}, LONGEST_RETRY_AFTER),
        ({"retry-after": "Fri, 16 Nov 9999 12:00:00 GMT"}, LONGEST_RETRY_AFTER),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_retry_after_is_read_in_each_of_its_forms(headers: dict[str, str], expected: float | None) -> None:
    """B-122, and beyond it milliseconds and dates"""
    assert retry_after(headers, now=NOW) == expected


@pytest.mark.parametrize(
    ("step", "failing"),
    [(Hang(), "answer"), (Trickle(0.02), "finish its answer"), (Hang(HALF), "finish its answer")],
)
async def test_an_answer_that_does_not_come_whole_in_time_is_a_timeout(
    stub: OpenAIStub, client: httpx.AsyncClient, step: Step, failing: str
) -> None:
    """B-120"""
    chat = OpenAIChat(api_key=None, base_url=stub.base_url, timeout=0.1, client=client)
    error = await failure(chat, stub, step)
    assert error.kind is ProviderErrorKind.TIMEOUT
    assert str(error).startswith(f"model 'gpt-test' at {stub.host} did not {failing} within 0.1 s")


def test_a_connection_that_is_not_accepted_in_time_is_a_timeout_too() -> None:
    """B-120"""
    error = unanswered(Callee("m", "far.example", None), httpx.ConnectTimeout(""), timeout=600)
    assert error.kind is ProviderErrorKind.TIMEOUT
    assert str(error).startswith("model 'm' at far.example accepted no connection in time (ConnectTimeout); ")


async def test_a_connection_that_breaks_before_the_answer_is_a_provider_failure(
    chat: OpenAIChat, stub: OpenAIStub
) -> None:
    """B-120"""
    error = await failure(chat, stub, Reset())
    assert error.kind is ProviderErrorKind.PROVIDER
    assert str(error).startswith(f"no answer from model 'gpt-test' at {stub.host} (ReadError: ")
    assert isinstance(error.__cause__, httpx.TransportError)


async def test_a_server_that_is_not_there_is_named_with_what_to_check() -> None:
    """B-120"""
    host = unused_address()
    chat = OpenAIChat(api_key=None, base_url=f"http://{host}/v1")
    with pytest.raises(ProviderError) as caught:
        await parts(chat)
    await chat.aclose()
    assert caught.value.kind is ProviderErrorKind.PROVIDER
    assert str(caught.value) == (
        f"no answer from model 'gpt-test' at {host} (ConnectError: 'All connection attempts failed'); "
        "check that the server runs there, and the base URL, DNS, proxy and TLS settings of this worker"
    )


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"<html>Sign in</html>", "Invalid JSON: expected value at line 1 column 1"),
        (b"", "Invalid JSON: EOF while parsing a value at line 1 column 0"),
        (b'{"choices":[{"mess', "Invalid JSON: EOF while parsing a string at line 1 column 18"),
        (b'{"error":{"message":"busy"}}', "choices: Field required"),
        (b'{"choices":[]}', "choices: Tuple should have at least 1 item after validation, not 0"),
        (b'{"choices":[{"finish_reason":"stop"}]}', "choices.0.message: Field required"),
        (b'{"choices":[{"message":{}}]}', "choices.0.finish_reason: Field required"),
        (b'{"choices":[{"message":{},"finish_reason":"load"}]}', "unknown finish_reason 'load'"),
    ],
)
async def test_a_success_that_is_not_an_answer_is_a_provider_failure(
    chat: OpenAIChat, stub: OpenAIStub, body: bytes, problem: str
) -> None:
    """B-120"""
    error = await failure(chat, stub, Reply(body, 200, {"Content-Type": "text/html"}))
    assert error.kind is ProviderErrorKind.PROVIDER
    assert str(error) == (
        f"model 'gpt-test' at {stub.host} sent something that is not an answer ({problem}), beginning "
        f"{body.decode()!r}; asking again may help; if this goes on, check that the base URL is the API's and no "
        "proxy answers for it"
    )


async def test_garbage_is_quoted_to_its_two_hundredth_character(chat: OpenAIChat, stub: OpenAIStub) -> None:
    error = await failure(chat, stub, Reply(b"x" * 201))
    assert f"beginning '{'x' * 200}…'; " in str(error)


@pytest.mark.parametrize(
    "step",
    [
        Reply.json(completion(calls("{"), finish_reason="content_filter")),
        Reply.sse(delta({"content": "I"}), delta(finish_reason="content_filter")),
    ],
    ids=["whole", "streamed"],
)
async def test_a_filtered_answer_is_not_asked_for_again(chat: OpenAIChat, stub: OpenAIStub, step: Step) -> None:
    """B-120"""
    error = await failure(chat, stub, step)
    assert error.kind is ProviderErrorKind.CONTENT_FILTERED
    assert str(error) == (
        f"model 'gpt-test' at {stub.host} withheld its answer: the provider's content filter stopped it; "
        "change the conversation"
    )


async def test_cancelling_the_call_hangs_up(chat: OpenAIChat, stub: OpenAIStub) -> None:
    stub.will(Hang())
    call = asyncio.create_task(parts(chat))
    await asyncio.wait_for(stub.arrived.wait(), 5)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.wait_for(stub.hung_up.wait(), 5)


@pytest.mark.parametrize(
    "step",
    [
        Reply.json({"error": {"message": f"Incorrect API key provided: {CANARY}."}}, status=401),
        Reply(f"<p>{'x' * 185}Bearer {CANARY}</p>".encode(), 403),
        Reply(f"you sent {CANARY}".encode()),
        Reply.json({"choices": [{"message": CANARY}]}),
        Reply.json(completion({"content": "x"}, finish_reason=CANARY)),
        Reply.sse(delta({"content": "x"}), {"error": {"message": f"who is {CANARY}?"}}),
        Reply.sse(delta({"content": "x"}), f'{{"{CANARY}'),
        Reply(f"data: \xff{CANARY}\n\n".encode("latin-1"), headers=EVENT_STREAM),
        Reset(),
        Hang(),
        Hang(HALF),
    ],
)
async def test_the_key_is_in_no_error_and_no_log(
    stub: OpenAIStub, step: Step, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    chat = OpenAIChat(api_key=CANARY, base_url=stub.base_url, timeout=0.2)
    error: BaseException | None = await failure(chat, stub, step)
    await chat.aclose()
    assert stub.asked[0].headers["authorization"] == f"Bearer {CANARY}"
    shown = [repr(chat), str(chat), caplog.text, *(repr(record.__dict__) for record in caplog.records)]
    while error is not None:
        shown += [str(error), repr(error)]
        error = error.__cause__ or error.__context__
    assert [words for words in shown if "sk-" in words] == []


async def test_a_key_from_a_file_loses_its_newline(stub: OpenAIStub) -> None:
    chat = OpenAIChat(api_key=f"{CANARY}\n", base_url=stub.base_url)
    stub.will(ANSWER)
    await parts(chat)
    await chat.aclose()
    assert stub.asked[0].headers["authorization"] == f"Bearer {CANARY}"


async def test_a_key_that_is_kept_elsewhere_is_looked_up_at_each_call(
    stub: OpenAIStub, client: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    for written, put in (
        ("env:WAKEFUL_TEST_KEY", partial(monkeypatch.setenv, "WAKEFUL_TEST_KEY")),
        (f"file:{file}", file.write_text),
    ):
        chat = OpenAIChat(api_key=written, base_url=stub.base_url, client=client)
        for key in ("first", "second\n"):
            put(key)
            stub.will(ANSWER)
            await parts(chat)
            assert stub.asked[-1].headers["authorization"] == f"Bearer {key.strip()}"


@pytest.mark.parametrize(
    ("key", "put", "problem"),
    [
        ("env:NOT_THERE", "", "the API key is in environment variable 'NOT_THERE', which is empty or not set"),
        ("env:THERE", f"{CANARY}…", "environment variable 'THERE', which holds characters that no HTTP header can"),
        ("file:/not/there", "", "the API key is in file '/not/there', which cannot be read (FileNotFoundError)"),
    ],
)
async def test_a_key_that_is_not_where_it_should_be_is_said_to_be_missing(
    key: str, put: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THERE", put)
    chat = OpenAIChat(api_key=key)
    with pytest.raises(ProviderError) as caught:
        await parts(chat)
    await chat.aclose()
    assert caught.value.kind is ProviderErrorKind.UNAUTHORIZED
    assert problem in str(caught.value)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("key", ["env:", "file: "])
def test_a_reference_that_names_nothing_is_refused(key: str) -> None:
    with pytest.raises(ConfigurationError, match="names nothing"):
        OpenAIChat(api_key=key)


@pytest.mark.parametrize("key", [f"{CANARY}\n{CANARY}", f"{CANARY}…", f"{CANARY}\x00!"])
def test_a_key_that_no_header_can_carry_is_refused_without_quoting_it(key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        OpenAIChat(api_key=key)
    assert caught.value.problems == (
        "the API key holds characters that no HTTP header can carry; set it again without them",
    )
    assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.parametrize(
    ("base_url", "problem"),
    [
        ("localhost:11434/v1", "the base URL 'localhost:11434/v1' has no http:// or https://"),
        ("", "the base URL '' has no http:// or https://"),
        ("http://", "the base URL 'http://' has no http:// or https://"),
        ("http://localhost:port/v1", "the base URL cannot be parsed"),
        ("https://me:secret@example.com/v1", "the base URL holds a user or password, which httpx logs"),
    ],
)
def test_a_base_url_that_cannot_be_used_is_refused_at_once(base_url: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        OpenAIChat(api_key="bad\nkey", base_url=base_url)
    assert len(caught.value.problems) == 2
    assert caught.value.problems[1].startswith(problem)


@pytest.mark.parametrize("key", [None, "", " "])
async def test_a_server_that_wants_no_key_is_sent_none(stub: OpenAIStub, key: str | None) -> None:
    chat = OpenAIChat(api_key=key, base_url=f"{stub.base_url}/?api-version=1")
    stub.will(ANSWER)
    await parts(chat)
    await chat.aclose()
    assert stub.asked[0].line == "POST /v1/chat/completions?api-version=1 HTTP/1.1"
    assert "authorization" not in stub.asked[0].headers


async def test_the_environment_names_key_and_server(stub: OpenAIStub) -> None:
    chat = OpenAIChat.from_env({"OPENAI_API_KEY": CANARY, "OPENAI_BASE_URL": stub.base_url})
    stub.will(ANSWER)
    await parts(chat)
    await chat.aclose()
    assert stub.asked[0].headers["authorization"] == f"Bearer {CANARY}"


@pytest.mark.parametrize("environ", [{}, {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": " "}])
async def test_an_empty_environment_means_openai_itself(environ: dict[str, str]) -> None:
    chat = OpenAIChat.from_env(environ)
    await chat.aclose()
    assert isinstance(chat, StreamingProvider)
    assert repr(chat) == f"OpenAIChat(host={httpx.URL(OPENAI_URL).host!r})"


async def test_closing_leaves_a_shared_client_open(client: httpx.AsyncClient) -> None:
    await OpenAIChat(api_key=None, client=client).aclose()
    assert not client.is_closed


async def test_closing_closes_a_client_of_its_own() -> None:
    chat = OpenAIChat(api_key="k")
    await chat.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        await parts(chat)


@pytest.mark.parametrize(
    ("chat", "variable"), [(OpenAIChat, "OPENAI_API_KEY"), (AnthropicMessages, "ANTHROPIC_API_KEY")]
)
async def test_without_a_key_nobody_is_asked_and_the_variable_is_named(
    chat: type[OpenAIChat] | type[AnthropicMessages], variable: str
) -> None:
    with pytest.raises(ProviderError, match=f"needs an API key; set {variable}") as raised:
        [part async for part in chat.from_env({}).stream(HELLO)]
    assert raised.value.kind is ProviderErrorKind.UNAUTHORIZED
