"""How a call fails: statuses, error bodies, timeouts and lost connections, seen through `OpenAIChat`."""

import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
from pydantic import JsonValue

from tests.activities.providers.calls import failure, parts
from tests.activities.providers.openai_chat.wire import ANSWER, HALF, calls, completion, delta
from tests.support.fake_provider.script import EVENT_STREAM, HANG, RESET, Answer, Raw, Reply
from tests.support.fake_provider.server import FakeProvider
from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful_activities.providers.openai_chat.provider import OpenAIChat
from wakeful_activities.providers.shared.failures import (
    MAX_RETRY_AFTER,
    Endpoint,
    connection_error,
    interrupted,
    retry_after,
)

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def test_a_goaway_is_an_interruption_with_its_own_cause() -> None:
    """B-130"""
    goaway = httpx.RemoteProtocolError("<ConnectionTerminated error_code:0, last_stream_id:1, additional_data:None>")
    error = interrupted(Endpoint("m", "far.example", None), goaway, timeout=600)
    assert (error.kind, error.cause) == (ProviderErrorKind.STREAM_INTERRUPTED, "goaway")


@pytest.mark.parametrize(
    ("key", "quoted"),
    [
        ("x", "'Rate limit exceeded'"),
        ("exceed", "'Rate limit exceeded'"),
        ("exceeded", "'Rate limit [api key]'"),
        (None, "'Rate limit exceeded'"),
    ],
)
def test_a_placeholder_for_a_key_does_not_blot_out_parts_of_messages(key: str | None, quoted: str) -> None:
    assert Endpoint("m", "far.example", key).quote("Rate limit exceeded") == quoted


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
    chat: OpenAIChat, fake: FakeProvider, status: int, kind: ProviderErrorKind
) -> None:
    """B-120, B-121"""
    error = await failure(chat, fake, Raw.json({"error": {"message": "no luck"}}, code=status))
    assert error.kind is kind
    assert str(error).startswith(f"model 'test-model' at {fake.host} answered {status}: 'no luck'; ")


async def test_a_redirect_is_reported_and_not_followed(chat: OpenAIChat, fake: FakeProvider) -> None:
    fake.will(Raw(b"", 307, {"Location": f"{fake.chat_url}/elsewhere"}), ANSWER)
    with pytest.raises(ProviderError, match=r"answered 307; .* check the base URL"):
        await parts(chat)
    assert len(fake.asked) == 1


@pytest.mark.parametrize(
    "message",
    [
        "Prompt is too long: 9 > 8",
        "This model's maximum context length is 8192 tokens.",
        "Input is too long for requested model.",
        "Please reduce the length of the messages.",
        "Too many tokens in the request",
        "Request too large for test-model",
        "Reached context length of 4096 tokens",
        "the request exceeds the available context size, try increasing it",
    ],
)
async def test_a_bad_request_about_the_context_is_an_overflow(
    chat: OpenAIChat, fake: FakeProvider, message: str
) -> None:
    """B-121"""
    error = await failure(chat, fake, Raw.json({"error": {"message": message}}, code=400))
    assert error.kind is ProviderErrorKind.CONTEXT_OVERFLOW


async def test_an_overflow_is_recognised_by_its_code_too(chat: OpenAIChat, fake: FakeProvider) -> None:
    """B-121"""
    body: JsonValue = {"error": {"message": "No.", "code": "context_length_exceeded"}}
    error = await failure(chat, fake, Raw.json(body, code=400))
    assert error.kind is ProviderErrorKind.CONTEXT_OVERFLOW


@pytest.mark.parametrize("field", ["code", "type"])
async def test_an_exhausted_quota_is_not_retried(chat: OpenAIChat, fake: FakeProvider, field: str) -> None:
    """B-121"""
    body: JsonValue = {"error": {"message": "You exceeded your current quota.", field: "insufficient_quota"}}
    error = await failure(chat, fake, Raw.json(body, code=429, headers={"Retry-After": "5"}))
    assert (error.kind, error.retry_after) == (ProviderErrorKind.INVALID_REQUEST, None)
    assert str(error) == (
        f"model 'test-model' at {fake.host} answered 429: 'You exceeded your current quota.'; "
        "check the account's plan and billing: waiting does not help"
    )


@pytest.mark.parametrize(
    ("body", "quoted"),
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
async def test_the_servers_own_message_is_quoted(
    chat: OpenAIChat, fake: FakeProvider, body: bytes, quoted: str
) -> None:
    error = await failure(chat, fake, Raw(body, 422, {"X-Request-Id": "req_1"}))
    assert str(error) == (
        f"model 'test-model' at {fake.host} answered 422{quoted} (request id 'req_1'); "
        "change the request: the same one will be refused again"
    )


async def test_a_retry_after_is_passed_on(chat: OpenAIChat, fake: FakeProvider) -> None:
    """B-120, B-122"""
    error = await failure(chat, fake, Raw(b"", 429, {"Retry-After": "7"}))
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
        ({"retry-after": "1e300"}, MAX_RETRY_AFTER),
        ({"retry-after": "Fri, 16 Nov 9999 12:00:00 GMT"}, MAX_RETRY_AFTER),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_retry_after_is_read_in_each_of_its_forms(headers: dict[str, str], expected: float | None) -> None:
    """B-122, and beyond it milliseconds and dates"""
    assert retry_after(headers, now=NOW) == expected


@pytest.mark.parametrize(
    ("reply", "failing"),
    [
        (HANG, "answer"),
        (Answer("word " * 50, chunk=1, pause=0.02), "finish its answer"),
        (Raw(HALF, headers=EVENT_STREAM, then="stall"), "finish its answer"),
    ],
)
async def test_an_answer_that_is_not_complete_in_time_is_a_timeout(
    fake: FakeProvider, http: httpx.AsyncClient, reply: Reply, failing: str
) -> None:
    """B-120"""
    chat = OpenAIChat(api_key=None, base_url=fake.chat_url, timeout=0.5, client=http)
    error = await failure(chat, fake, reply)
    assert error.kind is ProviderErrorKind.TIMEOUT
    assert str(error).startswith(f"model 'test-model' at {fake.host} did not {failing} within 0.5 s")


def test_a_connection_that_is_not_accepted_in_time_is_a_timeout_too() -> None:
    """B-120"""
    error = connection_error(Endpoint("m", "far.example", None), httpx.ConnectTimeout(""), timeout=600)
    assert error.kind is ProviderErrorKind.TIMEOUT
    assert str(error).startswith("model 'm' at far.example accepted no connection in time (ConnectTimeout); ")


async def test_a_connection_that_is_lost_before_the_answer_is_a_provider_failure(
    chat: OpenAIChat, fake: FakeProvider
) -> None:
    """B-120"""
    error = await failure(chat, fake, RESET)
    assert error.kind is ProviderErrorKind.PROVIDER
    assert str(error).startswith(f"no answer from model 'test-model' at {fake.host} (ReadError: ")
    assert isinstance(error.__cause__, httpx.TransportError)


async def test_an_unreachable_server_is_named_with_what_to_check() -> None:
    """B-120"""
    with socket.socket() as probe:  # a port that nothing listens on
        probe.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{probe.getsockname()[1]}"
    chat = OpenAIChat(api_key=None, base_url=f"http://{host}/v1")
    with pytest.raises(ProviderError) as caught:
        await parts(chat)
    await chat.aclose()
    assert caught.value.kind is ProviderErrorKind.PROVIDER
    assert str(caught.value) == (
        f"no answer from model 'test-model' at {host} (ConnectError: 'All connection attempts failed'); "
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
    chat: OpenAIChat, fake: FakeProvider, body: bytes, problem: str
) -> None:
    """B-120"""
    error = await failure(chat, fake, Raw(body, 200, {"Content-Type": "text/html"}))
    assert error.kind is ProviderErrorKind.PROVIDER
    assert str(error) == (
        f"model 'test-model' at {fake.host} sent something that is not an answer ({problem}), beginning "
        f"{body.decode()!r}; a retry may help; if this persists, check that the base URL is the API's and no "
        "proxy answers for it"
    )


async def test_a_malformed_body_is_quoted_up_to_200_characters(chat: OpenAIChat, fake: FakeProvider) -> None:
    error = await failure(chat, fake, Raw(b"x" * 201))
    assert f"beginning '{'x' * 200}…'; " in str(error)


@pytest.mark.parametrize(
    "reply",
    [
        Raw.json(completion(calls("{"), finish_reason="content_filter")),
        Raw.sse(delta({"content": "I"}), delta(finish_reason="content_filter")),
    ],
    ids=["whole", "streamed"],
)
async def test_a_filtered_answer_is_not_retried(chat: OpenAIChat, fake: FakeProvider, reply: Reply) -> None:
    """B-120"""
    error = await failure(chat, fake, reply)
    assert error.kind is ProviderErrorKind.CONTENT_FILTERED
    assert str(error) == (
        f"model 'test-model' at {fake.host} withheld its answer: the provider's content filter stopped it; "
        "change the conversation"
    )
