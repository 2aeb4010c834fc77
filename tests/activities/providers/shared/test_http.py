"""Keys, base URLs and connections of a provider behind HTTP, seen through `OpenAIChat`."""

import asyncio
import logging
from contextlib import aclosing
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.activities.providers.calls import HELLO, failure, parts
from tests.activities.providers.openai_chat.wire import (
    ANSWER,
    CANARY,
    HALF,
    completion,
    delta,
)
from tests.support.fake_provider.script import EVENT_STREAM, HANG, RESET, Answer, Raw, Reply
from tests.support.fake_provider.server import FakeProvider, fake_provider
from wakeful.authoring.provider import StreamingProvider
from wakeful.contract.errors import ConfigurationError, ProviderError, ProviderErrorKind
from wakeful.contract.streaming import (
    StartPart,
    TextPart,
)
from wakeful_activities.providers.anthropic.provider import AnthropicMessages
from wakeful_activities.providers.openai_chat.provider import OPENAI_URL, OpenAIChat


async def test_a_connection_that_is_read_to_its_end_is_reused() -> None:
    async with fake_provider() as server:
        chat = OpenAIChat(api_key=None, base_url=server.chat_url)
        server.will(Answer("one"), Answer("two"))
        await parts(chat)
        await parts(chat)
        assert not server.asked[0].closed.is_set()
        await chat.aclose()


async def test_leaving_a_stream_closes_the_connection(chat: OpenAIChat, fake: FakeProvider) -> None:
    fake.will(Raw(HALF, headers=EVENT_STREAM, then="stall"))
    async with aclosing(chat.stream(HELLO)) as stream:
        assert [await anext(stream), await anext(stream)] == [StartPart("test-model"), TextPart("hi")]
    await fake.until(fake.asked[0].closed.is_set)


async def test_cancelling_a_call_closes_the_connection(chat: OpenAIChat, fake: FakeProvider) -> None:
    fake.will(HANG)
    call = asyncio.create_task(parts(chat))
    await fake.request()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await fake.until(fake.asked[0].closed.is_set)


@pytest.mark.parametrize(
    "reply",
    [
        Raw.json({"error": {"message": f"Incorrect API key provided: {CANARY}."}}, code=401),
        Raw(f"<p>{'x' * 185}Bearer {CANARY}</p>".encode(), 403),
        Raw(f"you sent {CANARY}".encode()),
        Raw.json({"choices": [{"message": CANARY}]}),
        Raw.json(completion({"content": "x"}, finish_reason=CANARY)),
        Raw.sse(delta({"content": "x"}), {"error": {"message": f"who is {CANARY}?"}}),
        Raw.sse(delta({"content": "x"}), f'{{"{CANARY}'),
        Raw(f"data: \xff{CANARY}\n\n".encode("latin-1"), headers=EVENT_STREAM),
        RESET,
        HANG,
        Raw(HALF, headers=EVENT_STREAM, then="stall"),
    ],
)
async def test_the_key_is_in_no_error_and_no_log(
    fake: FakeProvider, reply: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    chat = OpenAIChat(api_key=CANARY, base_url=fake.chat_url, timeout=1.0)
    error: BaseException | None = await failure(chat, fake, reply)
    await chat.aclose()
    assert fake.asked[0].headers["authorization"] == f"Bearer {CANARY}"
    shown = [repr(chat), str(chat), caplog.text, *(repr(record.__dict__) for record in caplog.records)]
    while error is not None:
        shown += [str(error), repr(error)]
        error = error.__cause__ or error.__context__
    assert [words for words in shown if "sk-" in words] == []


async def test_a_key_is_stripped(fake: FakeProvider) -> None:
    chat = OpenAIChat(api_key=f"{CANARY}\n", base_url=fake.chat_url)
    fake.will(ANSWER)
    await parts(chat)
    await chat.aclose()
    assert fake.asked[0].headers["authorization"] == f"Bearer {CANARY}"


async def test_a_key_reference_is_read_at_each_call(
    fake: FakeProvider, http: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    for written, put in (
        ("env:WAKEFUL_TEST_KEY", partial(monkeypatch.setenv, "WAKEFUL_TEST_KEY")),
        (f"file:{file}", file.write_text),
    ):
        chat = OpenAIChat(api_key=written, base_url=fake.chat_url, client=http)
        for key in ("first", "second\n"):
            put(key)
            fake.will(ANSWER)
            await parts(chat)
            assert fake.asked[-1].headers["authorization"] == f"Bearer {key.strip()}"


@pytest.mark.parametrize(
    ("key", "put", "problem"),
    [
        ("env:NOT_THERE", "", "the API key is in environment variable 'NOT_THERE', which is empty or not set"),
        ("env:THERE", f"{CANARY}…", "environment variable 'THERE', which holds characters that no HTTP header can"),
        ("file:/not/there", "", "the API key is in file '/not/there', which cannot be read (FileNotFoundError)"),
    ],
)
async def test_a_key_reference_without_a_key_is_an_error_that_names_it(
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
def test_a_key_reference_that_names_nothing_is_rejected(key: str) -> None:
    with pytest.raises(ConfigurationError, match="names nothing"):
        OpenAIChat(api_key=key)


@pytest.mark.parametrize("key", [f"{CANARY}\n{CANARY}", f"{CANARY}…", f"{CANARY}\x00!"])
def test_a_key_that_no_header_can_carry_is_rejected_without_quoting_it(key: str) -> None:
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
def test_an_unusable_base_url_is_rejected_at_once(base_url: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        OpenAIChat(api_key="bad\nkey", base_url=base_url)
    assert len(caught.value.problems) == 2
    assert caught.value.problems[1].startswith(problem)


@pytest.mark.parametrize("key", [None, "", " "])
async def test_a_server_that_needs_no_key_is_sent_none(fake: FakeProvider, key: str | None) -> None:
    chat = OpenAIChat(api_key=key, base_url=f"{fake.chat_url}/?api-version=1")
    fake.will(ANSWER)
    await parts(chat)
    await chat.aclose()
    assert (fake.asked[0].path, fake.asked[0].query) == ("/v1/chat/completions", "api-version=1")
    assert "authorization" not in fake.asked[0].headers


async def test_the_environment_configures_key_and_server(fake: FakeProvider) -> None:
    chat = OpenAIChat.from_env({"OPENAI_API_KEY": CANARY, "OPENAI_BASE_URL": fake.chat_url})
    fake.will(ANSWER)
    await parts(chat)
    await chat.aclose()
    assert fake.asked[0].headers["authorization"] == f"Bearer {CANARY}"


@pytest.mark.parametrize("environ", [{}, {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": " "}])
async def test_an_empty_environment_configures_openai_itself(environ: dict[str, str]) -> None:
    chat = OpenAIChat.from_env(environ)
    await chat.aclose()
    assert isinstance(chat, StreamingProvider)
    assert repr(chat) == f"OpenAIChat(host={httpx.URL(OPENAI_URL).host!r})"


async def test_aclose_leaves_a_shared_client_open(http: httpx.AsyncClient) -> None:
    await OpenAIChat(api_key=None, client=http).aclose()
    assert not http.is_closed


async def test_aclose_closes_a_client_of_its_own(fake: FakeProvider) -> None:
    chat = OpenAIChat(api_key="k", base_url=fake.chat_url)
    fake.will(Answer("Hi."))
    await parts(chat)
    await chat.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        await parts(chat)


@pytest.mark.parametrize(
    ("chat", "variable"), [(OpenAIChat, "OPENAI_API_KEY"), (AnthropicMessages, "ANTHROPIC_API_KEY")]
)
async def test_without_a_key_nothing_is_sent_and_the_error_names_the_variable(
    chat: type[OpenAIChat] | type[AnthropicMessages], variable: str
) -> None:
    with pytest.raises(ProviderError, match=f"needs an API key; set {variable}") as raised:
        [part async for part in chat.from_env({}).stream(HELLO)]
    assert raised.value.kind is ProviderErrorKind.UNAUTHORIZED
