"""The fake provider is genuine: the official SDKs read its answers and errors in each format."""

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

from tests.activities.providers.fake_provider.requests import (
    ALL,
    CALLS,
    FULL,
    PATHS,
    USAGE,
    WORDS,
    ask,
    body,
    deltas,
    events,
    parsed,
)
from tests.support.fake_provider.asked import Format
from tests.support.fake_provider.models import continuing
from tests.support.fake_provider.official_clients import Read, read_officially
from tests.support.fake_provider.script import (
    OVERFLOW,
    Answer,
    Call,
    ErrorEvent,
    Filtered,
    Status,
    Writing,
)
from tests.support.fake_provider.server import FakeProvider
from wakeful.contract.inference import StopReason

EVENTS: dict[Format, TypeAdapter[Any]] = {
    Format.CHAT: TypeAdapter(ChatCompletionChunk),
    Format.RESPONSES: TypeAdapter(ResponseStreamEvent),
    Format.ANTHROPIC: TypeAdapter(RawMessageStreamEvent),
}


@ALL
@pytest.mark.parametrize("streamed", [True, False])
async def test_the_official_sdks_read_a_complete_answer(fake: FakeProvider, format: Format, streamed: bool) -> None:
    fake.will(FULL)
    read = await read_officially(fake, format, streamed=streamed)
    stop = {Format.CHAT: "tool_calls", Format.RESPONSES: "completed", Format.ANTHROPIC: "tool_use"}[format]
    signature = None if format is Format.CHAT else FULL.signature
    assert read == Read(FULL.text, FULL.reasoning, signature, CALLS, stop, USAGE)
    assert (fake.violations, fake.asked[0].format, fake.asked[0].streamed) == ([], format, streamed)


@ALL
async def test_every_event_is_of_the_official_types(
    fake: FakeProvider, http: httpx.AsyncClient, format: Format
) -> None:
    fake.will(FULL, replace(FULL, calls=(), stop=StopReason.MAX_TOKENS))
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
async def test_each_stop_reason_has_its_name_in_each_format(
    fake: FakeProvider, stop: StopReason | Filtered, chat: str, responses: str, messages: str
) -> None:
    fake.always(Answer(text="cut", stop=stop))
    assert [(await read_officially(fake, format)).stop for format in Format] == [chat, responses, messages]


@ALL
async def test_truncated_arguments_are_sent_as_they_are(
    fake: FakeProvider, http: httpx.AsyncClient, format: Format
) -> None:
    fake.will(Answer(calls=(Call("c", "look", '{"at": "ha'),), stop=StopReason.MAX_TOKENS))
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
    fake: FakeProvider, format: Format, status: Status, expected: type[openai.APIStatusError]
) -> None:
    fake.will(status)
    with pytest.raises(expected) as raised:
        await read_officially(fake, format)
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
async def test_the_anthropic_sdk_knows_each_status(fake: FakeProvider, status: Status, kind: str) -> None:
    fake.will(status)
    with pytest.raises(anthropic.APIStatusError) as raised:
        await read_officially(fake, Format.ANTHROPIC)
    assert (raised.value.status_code, raised.value.request_id) == (status.code, "req_1")
    assert raised.value.body["error"]["type"] == kind  # type: ignore[index]  # the SDK types it as object


async def test_retry_after_is_seconds_a_date_or_milliseconds(fake: FakeProvider, http: httpx.AsyncClient) -> None:
    moment = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
    fake.will(Status(429, retry_after=3), Status(429, retry_after=moment), Status(503, retry_after_ms=250))
    headers = [(await ask(http, Format.CHAT)).headers for _ in range(3)]
    assert [each.get("retry-after") for each in headers] == ["3", "Mon, 16 Nov 2026 12:00:00 GMT", None]
    assert headers[2]["retry-after-ms"] == "250"


@ALL
async def test_the_official_sdks_raise_on_an_error_event(fake: FakeProvider, format: Format) -> None:
    fake.will(replace(WORDS, faults=(ErrorEvent(2, shape="nested"),)))
    with pytest.raises((openai.APIError, anthropic.APIError), match=r"(?i)overloaded"):
        await read_officially(fake, format)
    assert fake.asked[0].deltas == 2


async def test_responses_fail_in_three_shapes(fake: FakeProvider, http: httpx.AsyncClient) -> None:
    faults = ErrorEvent(1), ErrorEvent(1, shape="nested"), ErrorEvent(1, shape="failed")
    fake.will(*(replace(WORDS, faults=(fault,)) for fault in faults))
    flat, nested, failed = [(await events(http, Format.RESPONSES))[-1] for _ in range(3)]
    assert (flat["type"], flat["code"]) == ("error", "server_is_overloaded")
    assert (nested["type"], nested["error"]["code"]) == ("error", "server_is_overloaded")
    assert (failed["type"], failed["response"]["id"], failed["response"]["status"]) == (
        "response.failed",
        "resp_3",
        "failed",
    )


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
    fake: FakeProvider, format: Format, writing: Writing
) -> None:
    fake.will(replace(FULL, writing=writing))
    read = await read_officially(fake, format)
    assert (read.text, read.reasoning, read.calls) == (FULL.text, FULL.reasoning, CALLS)


async def test_characters_are_split_between_chunks_and_a_bom_comes_first(
    fake: FakeProvider, http: httpx.AsyncClient
) -> None:
    fake.will(replace(FULL, writing=Writing("split_characters", bom=True)))
    async with http.stream("POST", PATHS[Format.CHAT], json=body(Format.CHAT)) as response:
        pieces = [piece async for piece in response.aiter_bytes()]
    broken = [piece for piece in pieces if not _is_text(piece)]
    assert len(broken) > 10
    assert b"".join(pieces).startswith(b"\xef\xbb\xbf")
    assert FULL.text in "".join(deltas(parsed(b"".join(pieces).removeprefix(b"\xef\xbb\xbf"))))


def _is_text(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True


@ALL
async def test_a_model_continues_its_text_where_it_was_interrupted(
    fake: FakeProvider, http: httpx.AsyncClient, format: Format
) -> None:
    fake.always(continuing(WORDS))
    assert "".join(deltas(await events(http, format))) == WORDS.text
    assert "".join(deltas(await events(http, format, partial="one two thre"))) == "e four five six"
    assert (await ask(http, format, partial="nonsense")).status_code == 500
    assert "the model never wrote 'nonsense'" in fake.violations[0]
