"""The fake provider fails where its script says."""

import asyncio
import json
import time
from dataclasses import replace

import httpx
import pytest

from tests.activities.providers.fake_provider.requests import (
    ALL,
    FULL,
    PATHS,
    WORDS,
    ask,
    body,
    deltas,
    events,
    parsed,
)
from tests.support.fake_provider.asked import Format
from tests.support.fake_provider.script import (
    HANG,
    HTML_PAGE,
    RESET,
    SILENCE,
    Answer,
    Cut,
    End,
    Hold,
    Reset,
    Stall,
    garbage_json,
    malformed_sse,
    unknown_event,
)
from tests.support.fake_provider.server import FakeProvider


@ALL
async def test_a_reset_a_cut_and_an_end_happen_after_their_deltas(
    fake: FakeProvider, http: httpx.AsyncClient, format: Format
) -> None:
    fake.will(*(replace(WORDS, faults=(fault,)) for fault in (Reset(3), Cut(3), End(3))))
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
    assert [asked.closed_at for asked in fake.asked[:2]] == [None, None]


@ALL
async def test_a_stream_can_end_before_and_after_its_stop_reason(
    fake: FakeProvider, http: httpx.AsyncClient, format: Format
) -> None:
    fake.will(*(replace(FULL, faults=fault) for fault in ((End("content"),), (End("stop"),), ())))
    before, after, whole = [await events(http, format) for _ in range(3)]
    assert deltas(before) == deltas(after) == deltas(whole)
    lacking = {Format.CHAT: (3, 2), Format.RESPONSES: (1, 1), Format.ANTHROPIC: (2, 1)}[format]
    assert (len(whole) - len(before), len(whole) - len(after)) == lacking


@pytest.mark.parametrize("answer", [HANG, SILENCE, replace(WORDS, faults=(Stall(2),))])
async def test_a_stalled_request_knows_when_its_client_closes_the_connection(
    fake: FakeProvider, http: httpx.AsyncClient, answer: Answer
) -> None:
    fake.will(answer)
    calling = asyncio.create_task(ask(http, Format.ANTHROPIC))
    asked = await fake.request()
    await fake.until(lambda: asked.deltas == (2 if answer.text else 0))
    assert not calling.done()
    assert asked.closed_at is None
    cancelled = time.monotonic()
    calling.cancel()
    async with asyncio.timeout(5):
        await asked.closed.wait()
    assert asked.closed_at is not None
    assert cancelled <= asked.closed_at <= cancelled + 1


async def test_a_client_that_leaves_a_running_stream_ends_it(fake: FakeProvider, http: httpx.AsyncClient) -> None:
    fake.will(replace(WORDS, text="word " * 10_000, chunk=1, pause=0.001))
    async with http.stream("POST", PATHS[Format.CHAT], json=body(Format.CHAT)) as response:
        await anext(response.aiter_bytes())
    async with asyncio.timeout(5):
        await fake.asked[0].closed.wait()
    assert 0 < fake.asked[0].deltas < 50_000


async def test_a_held_stream_continues_when_the_test_says_so(fake: FakeProvider, http: httpx.AsyncClient) -> None:
    held = asyncio.Event()
    fake.will(replace(WORDS, faults=(Hold(2, held),)))
    calling = asyncio.create_task(events(http, Format.CHAT))
    asked = await fake.request()
    await fake.until(lambda: asked.deltas == 2)
    held.set()
    assert "".join(deltas(await calling)) == WORDS.text


async def test_a_connection_can_be_reset_before_anything_is_sent(fake: FakeProvider, http: httpx.AsyncClient) -> None:
    fake.will(RESET)
    with pytest.raises(httpx.ReadError):
        await ask(http, Format.CHAT)


@pytest.mark.parametrize(("fault", "expected"), [(Reset(9), httpx.ReadError), (Cut(9), httpx.RemoteProtocolError)])
async def test_an_answer_that_is_not_streamed_is_interrupted_in_its_middle(
    fake: FakeProvider, http: httpx.AsyncClient, fault: Reset | Cut, expected: type[Exception]
) -> None:
    fake.will(replace(WORDS, faults=(fault,)), replace(WORDS, faults=(End(9),)))
    with pytest.raises(expected):
        await ask(http, Format.CHAT, stream=False)
    with pytest.raises(json.JSONDecodeError):
        (await ask(http, Format.CHAT, stream=False)).json()


async def test_malformed_events_can_be_injected_between_two_deltas(fake: FakeProvider, http: httpx.AsyncClient) -> None:
    fake.will(replace(WORDS, faults=(garbage_json(1), malformed_sse(2), unknown_event(3))), HTML_PAGE)
    sent = (await ask(http, Format.CHAT)).text
    assert sent.index('"one "') < sent.index('{"type": "mess\n') < sent.index('"two "') < sent.index("<<< not an event")
    assert "wakeful.tomorrow" in sent
    page = await ask(http, Format.CHAT)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")


async def test_a_script_that_runs_out_or_cannot_happen_is_a_violation(
    fake: FakeProvider, http: httpx.AsyncClient
) -> None:
    fake.will(replace(WORDS, faults=(Cut(99),)))
    impossible, run_out = await ask(http, Format.CHAT), await ask(http, Format.CHAT)
    assert (impossible.status_code, run_out.status_code) == (500, 500)
    assert "the answer has 7 deltas" in fake.violations[0]
    assert "has run out" in run_out.json()["error"]["message"]


async def test_a_connection_is_reused_for_the_next_request(fake: FakeProvider, http: httpx.AsyncClient) -> None:
    fake.always(WORDS)
    ports = set()
    for _ in range(3):
        async with http.stream("POST", PATHS[Format.CHAT], json=body(Format.CHAT)) as response:
            ports.add(response.extensions["network_stream"].get_extra_info("client_addr"))
            await response.aread()
    assert len(ports) == 1
    assert not fake.asked[0].closed.is_set()
