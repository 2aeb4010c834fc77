"""The fake provider is genuine: the official SDKs read it, its faults happen where they should, its checks bite."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import anthropic
import httpx
import openai
import pytest
from anthropic.types import RawMessageStreamEvent
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from tests.support.fake_provider.asked import Format
from tests.support.fake_provider.models import INTERRUPTED, continuing
from tests.support.fake_provider.official import body_problem
from tests.support.fake_provider.official_clients import Read, read_officially
from tests.support.fake_provider.script import (
    HANG,
    OVERFLOW,
    RESET,
    SILENCE,
    Answer,
    Call,
    Cut,
    End,
    ErrorEvent,
    Filtered,
    Hold,
    Page,
    Reset,
    Stall,
    Status,
    Writing,
    garbage_json,
    malformed_sse,
    unknown_event,
)
from tests.support.fake_provider.server import FakeProvider, fake_provider
from wakeful.contract.inference import StopReason
from wakeful.contract.runs import Usage

ALL = pytest.mark.parametrize("format", list(Format))
PATHS = {Format.CHAT: "/v1/chat/completions", Format.RESPONSES: "/v1/responses", Format.ANTHROPIC: "/v1/messages"}
EVENTS: dict[Format, TypeAdapter[Any]] = {
    Format.CHAT: TypeAdapter(ChatCompletionChunk),
    Format.RESPONSES: TypeAdapter(ResponseStreamEvent),
    Format.ANTHROPIC: TypeAdapter(RawMessageStreamEvent),
}
USAGE = Usage(
    prompt_tokens=100,
    completion_tokens=20,
    total_tokens=120,
    cache_read_tokens=60,
    cache_creation_tokens=10,
    thinking_tokens=5,
)
CALLS = (Call("call_1", "look", '{"at": "größe 🦊"}'), Call("call_2", "wait", "{}"))
FULL = Answer(text="Grüße, 世界! 🦊 and more", reasoning="let me think about it", calls=CALLS, usage=USAGE)
WORDS = Answer(text="one two three four five six", chunk=4)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
async def server() -> AsyncIterator[FakeProvider]:
    async with fake_provider() as running:
        yield running


@pytest.fixture
async def http(server: FakeProvider) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"anthropic-version": "2023-06-01"}
    async with httpx.AsyncClient(base_url=server.anthropic_url, headers=headers, trust_env=False) as client:
        yield client


@ALL
@pytest.mark.parametrize("streamed", [True, False])
async def test_the_official_sdks_read_a_whole_answer(server: FakeProvider, format: Format, streamed: bool) -> None:
    server.will(FULL)
    read = await read_officially(server, format, streamed=streamed)
    stop = {Format.CHAT: "tool_calls", Format.RESPONSES: "completed", Format.ANTHROPIC: "tool_use"}[format]
    signature = None if format is Format.CHAT else FULL.signature
    assert read == Read(FULL.text, FULL.reasoning, signature, CALLS, stop, USAGE)
    assert (server.violations, server.asked[0].format, server.asked[0].streamed) == ([], format, streamed)


@ALL
async def test_every_event_is_of_the_official_types(
    server: FakeProvider, http: httpx.AsyncClient, format: Format
) -> None:
    server.will(FULL, replace(FULL, calls=(), stop=StopReason.MAX_TOKENS))
    for _ in range(2):
        for event in await events(http, format):
            if event != "[DONE]" and event.get("type") != "ping":
                EVENTS[format].validate_python(event)


@pytest.mark.parametrize(
    ("stop", "chat", "responses", "messages"),
    [
        (StopReason.END_TURN, "stop", "completed", "end_turn"),
        (StopReason.MAX_TOKENS, "length", "incomplete", "max_tokens"),
        (StopReason.STOP_SEQUENCE, "stop", "completed", "stop_sequence"),
        ("filtered", "content_filter", "incomplete", "refusal"),
    ],
)
async def test_each_stop_reason_has_its_word_in_each_format(
    server: FakeProvider, stop: StopReason | Filtered, chat: str, responses: str, messages: str
) -> None:
    server.always(Answer(text="cut", stop=stop))
    assert [(await read_officially(server, format)).stop for format in Format] == [chat, responses, messages]


@ALL
async def test_truncated_arguments_go_out_as_they_are(
    server: FakeProvider, http: httpx.AsyncClient, format: Format
) -> None:
    server.will(Answer(calls=(Call("c", "look", '{"at": "ha'),), stop=StopReason.MAX_TOKENS))
    assert "".join(deltas(await events(http, format))) == '{"at": "ha'


OPENAI_ERRORS: list[tuple[Status, type[openai.APIStatusError]]] = [
    (Status(429, retry_after=3), openai.RateLimitError),
    (Status(500), openai.InternalServerError),
    (Status(503), openai.InternalServerError),
    (OVERFLOW, openai.BadRequestError),
    (Status(401), openai.AuthenticationError),
    (Status(404), openai.NotFoundError),
]


@pytest.mark.parametrize(("status", "expected"), OPENAI_ERRORS)
@pytest.mark.parametrize("format", [Format.CHAT, Format.RESPONSES])
async def test_the_openai_sdk_knows_each_status(
    server: FakeProvider, format: Format, status: Status, expected: type[openai.APIStatusError]
) -> None:
    server.will(status)
    with pytest.raises(expected) as raised:
        await read_officially(server, format)
    assert raised.value.request_id == "req_1"
    assert raised.value.code == {400: "context_length_exceeded", 429: "rate_limit_exceeded"}.get(
        status.code, raised.value.code
    )


ANTHROPIC_ERRORS = [
    (Status(429), "rate_limit_error"),
    (Status(500), "api_error"),
    (Status(529), "overloaded_error"),
    (OVERFLOW, "invalid_request_error"),
    (Status(401), "authentication_error"),
    (Status(404), "not_found_error"),
    (Status(413), "request_too_large"),
]


@pytest.mark.parametrize(("status", "kind"), ANTHROPIC_ERRORS)
async def test_the_anthropic_sdk_knows_each_status(server: FakeProvider, status: Status, kind: str) -> None:
    server.will(status)
    with pytest.raises(anthropic.APIStatusError) as raised:
        await read_officially(server, Format.ANTHROPIC)
    assert (raised.value.status_code, raised.value.request_id) == (status.code, "req_1")
    assert raised.value.body["error"]["type"] == kind  # type: ignore[index]  # the SDK types it as object


async def test_retry_after_is_seconds_a_date_or_milliseconds(server: FakeProvider, http: httpx.AsyncClient) -> None:
    moment = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
    server.will(Status(429, retry_after=3), Status(429, retry_after=moment), Status(503, retry_after_ms=250))
    said = [(await ask(http, Format.CHAT)).headers for _ in range(3)]
    assert [headers.get("retry-after") for headers in said] == ["3", "Mon, 16 Nov 2026 12:00:00 GMT", None]
    assert said[2]["retry-after-ms"] == "250"


@ALL
async def test_the_official_sdks_raise_on_an_error_event(server: FakeProvider, format: Format) -> None:
    server.will(replace(WORDS, faults=(ErrorEvent(2, shape="nested"),)))
    with pytest.raises((openai.APIError, anthropic.APIError), match=r"(?i)overloaded"):
        await read_officially(server, format)
    assert server.asked[0].deltas == 2


async def test_responses_fail_in_three_shapes(server: FakeProvider, http: httpx.AsyncClient) -> None:
    faults = ErrorEvent(1), ErrorEvent(1, shape="nested"), ErrorEvent(1, shape="failed")
    server.will(*(replace(WORDS, faults=(fault,)) for fault in faults))
    flat, nested, failed = [(await events(http, Format.RESPONSES))[-1] for _ in range(3)]
    assert (flat["type"], flat["code"]) == ("error", "server_is_overloaded")
    assert (nested["type"], nested["error"]["code"]) == ("error", "server_is_overloaded")
    assert (failed["type"], failed["response"]["id"], failed["response"]["status"]) == (
        "response.failed",
        "resp_3",
        "failed",
    )


@ALL
async def test_a_reset_a_cut_and_an_end_come_after_the_deltas_they_were_told(
    server: FakeProvider, http: httpx.AsyncClient, format: Format
) -> None:
    server.will(*(replace(WORDS, faults=(fault,)) for fault in (Reset(3), Cut(3), End(3))))
    ends: list[type[Exception] | None] = []
    for _ in range(3):
        got: list[bytes] = []
        try:
            async with http.stream("POST", PATHS[format], json=body(format)) as response:
                async for piece in response.aiter_bytes():
                    got.append(piece)
            ends.append(None)
        except httpx.TransportError as error:
            ends.append(type(error))
        assert deltas(parsed(b"".join(got))) == ["one ", "two ", "thre"]
    assert ends == [httpx.ReadError, httpx.RemoteProtocolError, None]
    assert [asked.closed_at for asked in server.asked[:2]] == [None, None]


@ALL
async def test_a_stream_can_end_before_and_after_its_stop_reason(
    server: FakeProvider, http: httpx.AsyncClient, format: Format
) -> None:
    server.will(*(replace(FULL, faults=fault) for fault in ((End("content"),), (End("stop"),), ())))
    before, after, whole = [await events(http, format) for _ in range(3)]
    assert deltas(before) == deltas(after) == deltas(whole)
    lacking = {Format.CHAT: (3, 2), Format.RESPONSES: (1, 1), Format.ANTHROPIC: (2, 1)}[format]
    assert (len(whole) - len(before), len(whole) - len(after)) == lacking


@pytest.mark.parametrize("answer", [HANG, SILENCE, replace(WORDS, faults=(Stall(2),))])
async def test_a_stalled_request_is_told_when_its_client_goes_away(
    server: FakeProvider, http: httpx.AsyncClient, answer: Answer
) -> None:
    server.will(answer)
    calling = asyncio.create_task(ask(http, Format.ANTHROPIC))
    asked = await server.request()
    await server.until(lambda: asked.deltas == (2 if answer.text else 0))
    assert not calling.done()
    assert asked.closed_at is None
    cancelled = time.monotonic()
    calling.cancel()
    async with asyncio.timeout(5):
        await asked.closed.wait()
    assert asked.closed_at is not None
    assert cancelled <= asked.closed_at <= cancelled + 1


async def test_a_client_that_leaves_a_running_stream_ends_it(server: FakeProvider, http: httpx.AsyncClient) -> None:
    server.will(replace(WORDS, text="word " * 10_000, chunk=1, pause=0.001))
    async with http.stream("POST", PATHS[Format.CHAT], json=body(Format.CHAT)) as response:
        await anext(response.aiter_bytes())
    async with asyncio.timeout(5):
        await server.asked[0].closed.wait()
    assert 0 < server.asked[0].deltas < 50_000


async def test_a_held_stream_goes_on_when_the_test_says_so(server: FakeProvider, http: httpx.AsyncClient) -> None:
    held = asyncio.Event()
    server.will(replace(WORDS, faults=(Hold(2, held),)))
    calling = asyncio.create_task(events(http, Format.CHAT))
    asked = await server.request()
    await server.until(lambda: asked.deltas == 2)
    held.set()
    assert "".join(deltas(await calling)) == WORDS.text


async def test_a_connection_can_be_reset_before_anything_is_said(server: FakeProvider, http: httpx.AsyncClient) -> None:
    server.will(RESET)
    with pytest.raises(httpx.ReadError):
        await ask(http, Format.CHAT)


@pytest.mark.parametrize(("fault", "expected"), [(Reset(9), httpx.ReadError), (Cut(9), httpx.RemoteProtocolError)])
async def test_an_answer_that_is_not_streamed_breaks_in_its_middle(
    server: FakeProvider, http: httpx.AsyncClient, fault: Reset | Cut, expected: type[Exception]
) -> None:
    server.will(replace(WORDS, faults=(fault,)), replace(WORDS, faults=(End(9),)))
    with pytest.raises(expected):
        await ask(http, Format.CHAT, stream=False)
    with pytest.raises(json.JSONDecodeError):
        (await ask(http, Format.CHAT, stream=False)).json()


@ALL
@pytest.mark.parametrize(
    "writing",
    [
        Writing("whole"),
        Writing("byte"),
        Writing("split_characters"),
        Writing(line_end="\r\n"),
        Writing(line_end="\r"),
        Writing(keepalives=True),
    ],
)
async def test_the_official_sdks_read_the_same_however_it_is_written(
    server: FakeProvider, format: Format, writing: Writing
) -> None:
    server.will(replace(FULL, writing=writing))
    read = await read_officially(server, format)
    assert (read.text, read.reasoning, read.calls) == (FULL.text, FULL.reasoning, CALLS)


async def test_characters_are_split_between_chunks_and_a_bom_comes_first(
    server: FakeProvider, http: httpx.AsyncClient
) -> None:
    server.will(replace(FULL, writing=Writing("split_characters", bom=True)))
    async with http.stream("POST", PATHS[Format.CHAT], json=body(Format.CHAT)) as response:
        pieces = [piece async for piece in response.aiter_bytes()]
    broken = [piece for piece in pieces if not _is_text(piece)]
    assert len(broken) > 10
    assert b"".join(pieces).startswith(b"\xef\xbb\xbf")
    assert FULL.text in "".join(deltas(parsed(b"".join(pieces).removeprefix(b"\xef\xbb\xbf"))))


async def test_nonsense_can_stand_between_two_deltas(server: FakeProvider, http: httpx.AsyncClient) -> None:
    server.will(replace(WORDS, faults=(garbage_json(1), malformed_sse(2), unknown_event(3))), Page())
    said = (await ask(http, Format.CHAT)).text
    assert said.index('"one "') < said.index('{"type": "mess\n') < said.index('"two "') < said.index("<<< not an event")
    assert "wakeful.tomorrow" in said
    page = await ask(http, Format.CHAT)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")


@ALL
async def test_a_model_continues_its_text_where_it_was_interrupted(
    server: FakeProvider, http: httpx.AsyncClient, format: Format
) -> None:
    server.always(continuing(WORDS))
    assert "".join(deltas(await events(http, format))) == WORDS.text
    assert "".join(deltas(await events(http, format, said="one two thre"))) == "e four five six"
    assert (await ask(http, format, said="nonsense")).status_code == 500
    assert "the model never said 'nonsense'" in server.violations[0]


async def test_a_script_that_runs_out_or_cannot_happen_is_told(server: FakeProvider, http: httpx.AsyncClient) -> None:
    server.will(replace(WORDS, faults=(Cut(99),)))
    impossible, run_out = await ask(http, Format.CHAT), await ask(http, Format.CHAT)
    assert (impossible.status_code, run_out.status_code) == (500, 500)
    assert "the answer has 7 deltas" in server.violations[0]
    assert "has run out" in run_out.json()["error"]["message"]


async def test_a_connection_is_kept_for_the_next_request(server: FakeProvider, http: httpx.AsyncClient) -> None:
    server.always(WORDS)
    ports = set()
    for _ in range(3):
        async with http.stream("POST", PATHS[Format.CHAT], json=body(Format.CHAT)) as response:
            ports.add(response.extensions["network_stream"].get_extra_info("client_addr"))
            await response.aread()
    assert len(ports) == 1
    assert not server.asked[0].closed.is_set()


NESTED: list[tuple[Format, dict[str, Any], str]] = [
    (Format.CHAT, {"messages": [{"role": "user", "content": [{"type": "text", "txt": "hi"}]}]}, "content.0.txt"),
    (Format.CHAT, {"messages": [{"role": "user", "content": 3}]}, "messages.0.content"),
    (Format.CHAT, {"messages": [{"role": "robot", "content": "hi"}]}, "messages.0.role"),
    (Format.CHAT, {"tools": [{"type": "function", "function": {"name": "f", "arguments": {}}}]}, "function.arguments"),
    (Format.CHAT, {"temperature": "1"}, "temperature"),
    (Format.RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "content.0.text"),
    (Format.RESPONSES, {"input": [{"type": "function_call_output", "call_id": "c"}]}, "input.0.output"),
    (Format.RESPONSES, {"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools.0.function"),
    (Format.RESPONSES, {"max_tokens": 5}, "max_tokens"),
    (Format.ANTHROPIC, {"messages": [{"role": "user", "content": [{"type": "text", "text": 3}]}]}, "content.0.text"),
    (Format.ANTHROPIC, {"system": [{"type": "text", "txt": "x"}]}, "system.0.txt"),
    (Format.ANTHROPIC, {"tools": [{"name": "f", "parameters": {}}]}, "tools.0.input_schema"),
    (Format.ANTHROPIC, {"max_tokens": None}, "max_tokens"),
]


@pytest.mark.parametrize(("format", "wrong", "place"), NESTED)
async def test_a_request_the_official_types_refuse_is_refused(
    server: FakeProvider, http: httpx.AsyncClient, format: Format, wrong: dict[str, Any], place: str
) -> None:
    server.will(WORDS)
    response = await http.post(PATHS[format], json=body(format) | wrong)
    assert response.status_code == 400
    assert place in response.json()["error"]["message"]
    assert [place in violation for violation in server.violations] == [True]


def test_what_a_response_may_hold_is_not_what_a_request_may_hold() -> None:
    block = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    fine = body(Format.ANTHROPIC) | {"messages": [{"role": "assistant", "content": [block]}]}
    wrong = body(Format.ANTHROPIC) | {"messages": [{"role": "assistant", "content": [block | {"extra": 1}]}]}
    assert body_problem(Format.ANTHROPIC, fine) is None
    assert body_problem(Format.ANTHROPIC, wrong) == "messages.0.content.0.extra: Extra inputs are not permitted"


@ALL
def test_full_conversations_are_of_the_official_types(format: Format) -> None:
    schema = {"type": "object", "properties": {"at": {"type": "string"}}, "additionalProperties": False}
    function = {"name": "look", "description": "Look.", "parameters": schema}
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    full: dict[Format, dict[str, Any]] = {
        Format.CHAT: {
            "messages": [
                {"role": "system", "content": "be kind"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c", "content": "seen"},
            ],
            "tools": [{"type": "function", "function": function}],
            "reasoning_effort": "low",
        },
        Format.RESPONSES: {
            "input": [
                {"role": "user", "content": [{"type": "input_image", "image_url": "data:,", "detail": "auto"}]},
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
                {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "seen"},
            ],
            "tools": [{"type": "function", "strict": False, **function}],
            "include": ["reasoning.encrypted_content"],
            "store": False,
        },
        Format.ANTHROPIC: {
            "system": [{"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "seen"}]},
            ],
            "tools": [{"name": "look", "description": "Look.", "input_schema": schema}],
            "thinking": {"type": "enabled", "budget_tokens": 2048},
        },
    }
    assert body_problem(format, body(format) | full[format]) is None


def body(format: Format, *, said: str | None = None, stream: bool = True) -> dict[str, Any]:
    turns = [{"role": "user", "content": "hello"}]
    if said is not None:
        turns += [{"role": "assistant", "content": said}, {"role": "user", "content": INTERRUPTED}]
    asked: dict[str, Any] = {"model": "fake", "stream": stream}
    match format:
        case Format.CHAT:
            return asked | {"messages": turns} | ({"stream_options": {"include_usage": True}} if stream else {})
        case Format.RESPONSES:
            return asked | {"input": turns}
        case Format.ANTHROPIC:
            return asked | {"messages": turns, "max_tokens": 100}


async def ask(
    http: httpx.AsyncClient, format: Format, *, said: str | None = None, stream: bool = True
) -> httpx.Response:
    return await http.post(PATHS[format], json=body(format, said=said, stream=stream))


async def events(http: httpx.AsyncClient, format: Format, *, said: str | None = None) -> list[Any]:
    return parsed((await ask(http, format, said=said)).content)


def parsed(stream: bytes) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in stream.decode().splitlines() if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def deltas(events: list[Any]) -> list[str]:
    """What of reasoning, text and arguments the events hold, in any format."""
    return [words for event in events if event != "[DONE]" for words in [_delta(event)] if words]


def _delta(event: dict[str, Any]) -> str:
    if "choices" in event:
        delta = event["choices"][0]["delta"] if event["choices"] else {}
        (call,) = delta.get("tool_calls", [{"function": {}}])
        return delta.get("content") or delta.get("reasoning_content") or call["function"].get("arguments") or ""
    delta = event.get("delta", "")
    if isinstance(delta, str):
        return delta
    return delta.get("text") or delta.get("thinking") or delta.get("partial_json") or ""


def _is_text(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True
