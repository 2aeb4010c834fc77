"""`OpenAIChat` against a server on loopback: what it sends, what it reads, and what it says when that fails."""

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
from pydantic import JsonValue

from tests.activities.openai_stub import Cut, Hang, OpenAIStub, Reply, Reset, Step, Trickle, openai_stub, unused_address
from wakeful.contract.errors import ConfigurationError, ProviderError, ProviderErrorKind
from wakeful.contract.inference import ModelRequest, ModelResponse, StopReason
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
from wakeful.contract.tools import ToolDescriptor
from wakeful.provider import Provider
from wakeful_activities.inference.failures import LONGEST_RETRY_AFTER, Callee, retry_after, unanswered
from wakeful_activities.inference.openai_chat import OPENAI_URL, OpenAIChat

CANARY = "sk-canary-4711"
NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
async def stub() -> AsyncIterator[OpenAIStub]:
    async with openai_stub() as running:
        yield running


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False) as shared:
        yield shared


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


async def failure(chat: OpenAIChat, stub: OpenAIStub, step: Step) -> ProviderError:
    stub.will(step)
    with pytest.raises(ProviderError) as caught:
        await chat.complete(HELLO)
    return caught.value


async def sent_messages(chat: OpenAIChat, stub: OpenAIStub, *messages: Message) -> JsonValue:
    stub.will(ANSWER)
    await chat.complete(ModelRequest(model="m", messages=messages))
    body = stub.asked[-1].body
    assert isinstance(body, dict)
    return body["messages"]


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
    await chat.complete(request)
    [asked] = stub.asked
    assert asked.line == "POST /v1/chat/completions HTTP/1.1"
    assert asked.headers["authorization"] == f"Bearer {CANARY}"
    assert asked.headers["content-type"] == "application/json"
    assert asked.body == {
        "model": "gpt-test",
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
    await chat.complete(HELLO)
    assert stub.asked[0].body == {"model": "gpt-test", "messages": [{"role": "user", "content": "hello"}]}


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
        await chat.complete(ModelRequest(model="m", messages=(user(text("hi")), message)))
    assert caught.value.kind is ProviderErrorKind.INVALID_REQUEST
    assert str(caught.value) == (
        f"message 2 (role {role.value!r}) holds a {block.type!r} block, which OpenAIChat cannot send there; "
        "write it as text, or use a provider that takes it"
    )
    assert stub.asked == []


async def test_a_tool_result_without_its_call_is_refused(chat: OpenAIChat) -> None:
    orphan = Message(id="m", role=Role.TOOL, content=(text("x"),))
    with pytest.raises(ProviderError, match="message 1 is a tool's result and names no tool call") as caught:
        await chat.complete(ModelRequest(model="m", messages=(orphan,)))
    assert caught.value.kind is ProviderErrorKind.INVALID_REQUEST


async def test_a_whole_answer_is_read(chat: OpenAIChat, stub: OpenAIStub) -> None:
    """B-113, B-114, B-115"""
    message = calls('{"b":1,"a":[null]}', "", " ") | {"content": "Let me see.", "reasoning_content": "hm"}
    body: JsonValue = {
        **completion(message, finish_reason="tool_calls"),
        "id": "chatcmpl-1",
        "model": "gpt-test-2026-01-01",
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "total_tokens": 120,
            "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 12},
        },
    }
    stub.will(Reply.json(body, headers={"X-Request-Id": "req_1"}))
    assert await chat.complete(HELLO) == ModelResponse(
        model="gpt-test-2026-01-01",
        text="Let me see.",
        reasoning="hm",
        tool_calls=(
            ToolCall(id="c0", name="f", arguments={"b": 1, "a": [None]}),
            ToolCall(id="c1", name="f", arguments=None),
            ToolCall(id="c2", name="f", arguments=None),
        ),
        stop_reason=StopReason.TOOL_USE,
        usage=Usage(
            prompt_tokens=100, completion_tokens=20, total_tokens=120, cache_read_tokens=64, thinking_tokens=12
        ),
        request_id="req_1",
    )


async def test_an_answer_that_says_little_is_read_all_the_same(chat: OpenAIChat, stub: OpenAIStub) -> None:
    body: JsonValue = {**completion({"content": None, "tool_calls": None, "reasoning": "hm"}), "usage": None}
    stub.will(Reply.json(body, headers={"Content-Type": "text/plain"}))
    assert await chat.complete(HELLO) == ModelResponse(model="gpt-test", reasoning="hm")


async def test_a_refusal_is_what_the_model_said(chat: OpenAIChat, stub: OpenAIStub) -> None:
    stub.will(Reply.json(completion({"content": None, "refusal": "I can't help with that."})))
    assert await chat.complete(HELLO) == ModelResponse(model="gpt-test", text="I can't help with that.")


async def test_missing_and_repeated_call_ids_are_left_as_they_are(chat: OpenAIChat, stub: OpenAIStub) -> None:
    function: JsonValue = {"name": "f", "arguments": "{}"}
    wanted: JsonValue = [{"function": function}, {"id": None, "function": function}, {"id": "", "function": function}]
    stub.will(Reply.json(completion({"tool_calls": wanted}, finish_reason="tool_calls")))
    assert [call.id for call in (await chat.complete(HELLO)).tool_calls] == ["", "", ""]


async def test_arguments_that_come_as_an_object_are_taken_as_they_are(chat: OpenAIChat, stub: OpenAIStub) -> None:
    stub.will(Reply.json(completion(calls({"a": 1}), finish_reason="tool_calls")))
    assert (await chat.complete(HELLO)).tool_calls == (ToolCall(id="c0", name="f", arguments={"a": 1}),)


@pytest.mark.parametrize(
    ("finish_reason", "message", "expected"),
    [
        ("stop", {"content": "x"}, StopReason.END_TURN),
        ("stop", calls("{}"), StopReason.TOOL_USE),
        ("length", {"content": "x"}, StopReason.MAX_TOKENS),
        ("length", calls("{}"), StopReason.MAX_TOKENS),
        ("tool_calls", calls("{}"), StopReason.TOOL_USE),
        ("function_call", calls("{}"), StopReason.TOOL_USE),
    ],
)
async def test_a_finish_reason_is_a_stop_reason(
    chat: OpenAIChat, stub: OpenAIStub, finish_reason: str, message: JsonValue, expected: StopReason
) -> None:
    """B-115"""
    stub.will(Reply.json(completion(message, finish_reason=finish_reason)))
    assert (await chat.complete(HELLO)).stop_reason is expected


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
        await chat.complete(HELLO)
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


@pytest.mark.parametrize("step", [Hang(), Trickle(0.02)])
async def test_an_answer_that_does_not_come_whole_in_time_is_a_timeout(
    stub: OpenAIStub, client: httpx.AsyncClient, step: Step
) -> None:
    """B-120"""
    chat = OpenAIChat(api_key=None, base_url=stub.base_url, timeout=0.1, client=client)
    error = await failure(chat, stub, step)
    assert error.kind is ProviderErrorKind.TIMEOUT
    assert str(error).startswith(f"model 'gpt-test' at {stub.host} did not answer within 0.1 s")


def test_a_connection_that_is_not_accepted_in_time_is_a_timeout_too() -> None:
    """B-120"""
    error = unanswered(Callee("m", "far.example", None), httpx.ConnectTimeout(""), timeout=600)
    assert error.kind is ProviderErrorKind.TIMEOUT
    assert str(error).startswith("model 'm' at far.example accepted no connection in time (ConnectTimeout); ")


@pytest.mark.parametrize(
    ("step", "name"),
    [(Reset(), "ReadError"), (Cut(b'{"choices":'), "RemoteProtocolError"), (Cut(b""), "RemoteProtocolError")],
)
async def test_a_connection_that_breaks_is_a_provider_failure(
    chat: OpenAIChat, stub: OpenAIStub, step: Step, name: str
) -> None:
    """B-120"""
    error = await failure(chat, stub, step)
    assert error.kind is ProviderErrorKind.PROVIDER
    assert str(error).startswith(f"no answer from model 'gpt-test' at {stub.host} ({name}: ")
    assert isinstance(error.__cause__, httpx.TransportError)


async def test_a_server_that_is_not_there_is_named_with_what_to_check() -> None:
    """B-120"""
    host = unused_address()
    chat = OpenAIChat(api_key=None, base_url=f"http://{host}/v1")
    with pytest.raises(ProviderError) as caught:
        await chat.complete(HELLO)
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
        (
            b'{"choices":[{"message":{},"finish_reason":"tool_calls"}]}',
            "finish_reason 'tool_calls' without tool calls",
        ),
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


@pytest.mark.parametrize("arguments", ['{"city": "Zür', "{'a': 1}", "NaN"])
async def test_arguments_that_are_not_json_are_asked_for_again(
    chat: OpenAIChat, stub: OpenAIStub, arguments: str
) -> None:
    """B-113, stricter: nothing of the answer is kept."""
    error = await failure(chat, stub, Reply.json(completion(calls("{}", arguments), finish_reason="tool_calls")))
    assert error.kind is ProviderErrorKind.PROVIDER
    assert str(error) == (
        f"model 'gpt-test' at {stub.host} called tool 'f' with arguments that are not JSON; asking again may help"
    )


async def test_a_filtered_answer_is_not_asked_for_again(chat: OpenAIChat, stub: OpenAIStub) -> None:
    """B-120"""
    error = await failure(chat, stub, Reply.json(completion(calls("{"), finish_reason="content_filter")))
    assert error.kind is ProviderErrorKind.CONTENT_FILTERED
    assert str(error) == (
        f"model 'gpt-test' at {stub.host} withheld its answer: the provider's content filter stopped it; "
        "change the conversation"
    )


async def test_cancelling_the_call_hangs_up(chat: OpenAIChat, stub: OpenAIStub) -> None:
    stub.will(Hang())
    call = asyncio.create_task(chat.complete(HELLO))
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
        Reply.json(completion({"tool_calls": [{"function": {"name": CANARY, "arguments": CANARY}}]})),
        Reset(),
        Hang(),
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
    await chat.complete(HELLO)
    await chat.aclose()
    assert stub.asked[0].headers["authorization"] == f"Bearer {CANARY}"


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
    await chat.complete(HELLO)
    await chat.aclose()
    assert stub.asked[0].line == "POST /v1/chat/completions?api-version=1 HTTP/1.1"
    assert "authorization" not in stub.asked[0].headers


async def test_the_environment_names_key_and_server(stub: OpenAIStub) -> None:
    chat = OpenAIChat.from_env({"OPENAI_API_KEY": CANARY, "OPENAI_BASE_URL": stub.base_url})
    stub.will(ANSWER)
    await chat.complete(HELLO)
    await chat.aclose()
    assert stub.asked[0].headers["authorization"] == f"Bearer {CANARY}"


@pytest.mark.parametrize("environ", [{}, {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": " "}])
async def test_an_empty_environment_means_openai_itself(environ: dict[str, str]) -> None:
    chat = OpenAIChat.from_env(environ)
    await chat.aclose()
    assert isinstance(chat, Provider)
    assert repr(chat) == f"OpenAIChat(host={httpx.URL(OPENAI_URL).host!r})"


async def test_closing_leaves_a_shared_client_open(client: httpx.AsyncClient) -> None:
    await OpenAIChat(api_key=None, client=client).aclose()
    assert not client.is_closed


async def test_closing_closes_a_client_of_its_own() -> None:
    chat = OpenAIChat(api_key=None)
    await chat.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        await chat.complete(HELLO)
