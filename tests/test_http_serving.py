"""Which requests a server refuses: those of web pages, if it trusts its own machine, and those that cost too much."""

import asyncio
import contextlib
import socket

import pytest
from starlette.types import Message, Receive, Scope, Send

from wakeful import http_serving
from wakeful.http_serving import BoundedBodies, listen, refusal_of_page, serve_app

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
        return incoming.pop() if incoming else await asyncio.Event().wait()  # type: ignore[return-value]  # never

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [] if length is None else [(b"content-length", length.encode())]
    await BoundedBodies(echo, limit=10, seconds=0.05)({"type": "http", "headers": headers}, receive, send)
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


async def test_a_body_that_does_not_arrive_in_time_is_refused() -> None:
    code, text = await answer(b"01234", ends=False)
    assert code == 408
    assert b"took longer than 0.05 s" in text


async def test_a_client_that_does_not_read_its_answer_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_serving, "STALLED_MILLISECONDS", 300)
    ended, stop = asyncio.Event(), asyncio.Event()

    async def flood(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while (await receive())["type"] != "http.disconnect":
                await send({"type": "http.response.body", "body": b"x" * 20_000_000, "more_body": True})
        finally:
            ended.set()

    listening = listen("127.0.0.1", 0)
    serving = asyncio.create_task(serve_app(flood, listening, until=stop))
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await asyncio.to_thread(client.connect, listening.getsockname())
        await asyncio.to_thread(client.sendall, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await asyncio.wait_for(ended.wait(), 30)
        stop.set()
        await asyncio.wait_for(serving, 30)


async def test_a_request_whose_headers_do_not_end_is_refused() -> None:
    stop = asyncio.Event()

    async def never(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "lifespan"

    listening = listen("127.0.0.1", 0)
    serving = asyncio.create_task(serve_app(never, listening, until=stop))
    reader, writer = await asyncio.open_connection(*listening.getsockname())
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1_000_000)
    with contextlib.suppress(ConnectionError):
        assert (await asyncio.wait_for(reader.read(), 30)).startswith(b"HTTP/1.1 400 ")
    writer.close()
    stop.set()
    await asyncio.wait_for(serving, 30)
