"""Which requests a server refuses: those of web pages, if it trusts its own machine, and those that cost too much."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wakeful import http_connections, http_serving
from wakeful.http_serving import BODY_BYTES, BoundedBodies, listen, refusal_of_page, serve_app

HOSTS = ("agents.example.com", "10.0.0.7:41241")


def status(*headers: tuple[str, str]) -> int | None:
    """With which status a request with these headers is refused."""
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    refusal = refusal_of_page(encoded, HOSTS)
    return None if refusal is None else refusal.status


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:41241",
        "127.0.0.1",
        "127.0.0.1:80",
        "127.9.9.9",
        "[::1]:41241",
        "[::1]",
        "agents.example.com",
        "Agents.Example.com:8443",
        "10.0.0.7:41241",
    ],
)
def test_a_request_for_loopback_or_for_a_known_name_passes(host: str) -> None:
    assert status(("host", host)) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:41241",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "evil.example#localhost",
        "localhost:41241:x",
        "[::1",
        "2130706433",
        "0x7f.1",
        "10.0.0.7",
        "10.0.0.7:80",
        "",
        " localhost",
        "localhost\\",
        "lo\xe7alhost",
        "a" * 100_000,
    ],
)
def test_a_request_for_another_host_is_refused(host: str) -> None:
    assert status(("host", host)) == 421
    assert status(("host", "localhost"), ("origin", f"http://{host}")) == 403


def test_a_request_without_a_host_or_with_two_is_refused() -> None:
    assert status() == 421
    assert status(("host", "localhost"), ("host", "evil.example")) == 421


@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://agents.example.com", "http://[::1]:3000"])
def test_a_page_of_this_machine_or_of_the_server_itself_passes(origin: str) -> None:
    assert status(("host", "localhost"), ("origin", origin)) is None


@pytest.mark.parametrize("origin", ["null", "", "file://", "http://evil.example", "ftp://localhost", "localhost"])
def test_a_page_of_another_origin_is_refused(origin: str) -> None:
    assert status(("host", "localhost"), ("origin", origin)) == 403
    assert status(("host", "localhost"), ("origin", "http://localhost"), ("origin", origin)) == 403


async def answer(*chunks: bytes, length: str | None = None, ends: bool = True) -> tuple[int, bytes]:
    """What a request with this body gets of a server that answers with the body, if that has at most ten bytes."""

    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        assert not message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": message["body"]})

    incoming = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in reversed(chunks)]
    if ends:
        incoming = [{"type": "http.request", "body": b"", "more_body": False}, *incoming]
    sent: list[Message] = []

    async def receive() -> Message:
        if not incoming and not sent:
            await asyncio.Event().wait()  # for ever
        return incoming.pop() if incoming else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [] if length is None else [(b"content-length", length.encode())]
    bounded = BoundedBodies(echo, limit=10, values=4, seconds=0.05)
    await bounded({"type": "http", "headers": headers}, receive, send)
    return sent[0]["status"], sent[1]["body"]


async def test_a_body_within_the_limits_arrives_whole() -> None:
    assert await answer() == (200, b"")
    assert await answer(b"01234", b"56789", length="10") == (200, b"0123456789")


@pytest.mark.parametrize("length", ["11", "0000011", "9" * 5_000])
async def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_read(length: str) -> None:
    assert (await answer(length=length, ends=False))[0] == 413


async def test_a_body_that_grows_too_large_is_refused_while_it_arrives() -> None:
    assert (await answer(b"01234", b"56789", b"x", ends=False))[0] == 413
    assert (await answer(b"01234", b"56789x", length="5", ends=False))[0] == 413


async def test_a_body_of_too_many_values_is_refused_while_it_arrives() -> None:
    assert await answer(b"[1,2,3]") == (200, b"[1,2,3]")
    assert await answer(b'",,,,,,,,"') == (200, b'",,,,,,,,"')
    code, text = await answer(b"[1,2", b",3,4", ends=False)
    assert code == 413
    assert b"more than 4 JSON values" in text


async def test_a_body_that_does_not_arrive_in_time_is_refused() -> None:
    code, text = await answer(b"01234", ends=False)
    assert code == 408
    assert b"took longer than 0.05 s" in text


@contextlib.asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[tuple[str, int]]:
    """The address of a server for an application."""
    listening, stop = listen("127.0.0.1", 0), asyncio.Event()
    serving = asyncio.create_task(serve_app(app, listening, until=stop))
    try:
        yield listening.getsockname()
    finally:
        stop.set()
        await asyncio.wait_for(serving, 30)


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"hello"})


async def test_a_client_that_still_sends_a_body_that_is_too_large_sees_the_refusal() -> None:
    body = b"x" * (BODY_BYTES + 3_000_000)
    async with served(BoundedBodies(hello)) as (host, port), httpx.AsyncClient() as http:
        for content in (body, _chunks(body)):
            answered = await http.post(f"http://{host}:{port}/", content=content)
            assert (answered.status_code, answered.json()["error"]["code"]) == (413, 413)


async def _chunks(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 100_000):
        yield body[start : start + 100_000]


async def test_the_rest_of_a_body_that_is_refused_is_read_for_a_moment_and_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_serving, "REST_SECONDS", 0.3)
    async with served(BoundedBodies(hello)) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\nx")
        assert (await asyncio.wait_for(reader.read(), 30)).startswith(b"HTTP/1.1 413 ")
        writer.close()


async def test_a_client_that_does_not_read_its_answer_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_serving, "STALLED_MILLISECONDS", 300)
    ended = asyncio.Event()

    async def flood(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while (await receive())["type"] != "http.disconnect":
                await send({"type": "http.response.body", "body": b"x" * 20_000_000, "more_body": True})
        finally:
            ended.set()

    async with served(flood) as address:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await asyncio.to_thread(client.connect, address)
            await asyncio.to_thread(client.sendall, GET)
            await asyncio.wait_for(ended.wait(), 30)


GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def test_a_request_whose_headers_grow_too_large_is_refused() -> None:
    async with served(hello) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(GET[:-2] + b"X: " + b"x" * 1_000_000)
        with contextlib.suppress(ConnectionError):
            assert (await asyncio.wait_for(reader.read(), 30)).startswith(b"HTTP/1.1 400 ")
        writer.close()


@pytest.mark.parametrize(("head", "before"), [(b"", 0), (GET[:20], 0), (GET[:20], 1)])
async def test_a_request_whose_headers_do_not_end_in_time_is_disconnected(
    monkeypatch: pytest.MonkeyPatch, head: bytes, before: int
) -> None:
    monkeypatch.setattr(http_connections, "HEAD_SECONDS", 0.3)
    async with served(hello) as address:
        reader, writer = await asyncio.open_connection(*address)
        for _ in range(before):
            writer.write(GET)
            await asyncio.wait_for(reader.readuntil(b"hello"), 30)
        writer.write(head)
        assert await asyncio.wait_for(reader.read(), 30) == b""
        writer.close()


async def test_a_request_that_trickles_in_is_disconnected_in_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "HEAD_SECONDS", 0.3)
    async with served(hello) as address:
        reader, writer = await asyncio.open_connection(*address)
        async with asyncio.timeout(30):
            while not reader.at_eof():
                writer.write(b"G")
                with contextlib.suppress(TimeoutError, ConnectionError):
                    await asyncio.wait_for(reader.read(1), 0.02)
        writer.close()


async def test_a_connection_that_asks_again_or_is_answered_late_is_not_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_connections, "HEAD_SECONDS", 0.2)
    asked = asyncio.Event()

    async def late(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.wait({asyncio.ensure_future(asked.wait())}, timeout=0.5)
        await hello(scope, receive, send)

    async with served(late) as address:
        reader, writer = await asyncio.open_connection(*address)
        for _ in range(2):
            writer.write(GET)
            answered = await asyncio.wait_for(reader.readuntil(b"hello"), 30)
            assert answered.startswith(b"HTTP/1.1 200 ")
            asked.set()
        writer.close()


async def test_of_too_many_connections_the_last_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "CONNECTIONS", 2)
    async with served(hello) as address:
        first, _ = [await asyncio.open_connection(*address) for _ in range(2)]
        reader, writer = await asyncio.open_connection(*address)
        assert (await asyncio.wait_for(reader.read(), 30)).startswith(b"HTTP/1.1 503 ")
        first[1].write(GET)
        assert (await asyncio.wait_for(first[0].readuntil(b"hello"), 30)).startswith(b"HTTP/1.1 200 ")
        writer.close()
