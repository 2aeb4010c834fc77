"""A scripted model server on loopback. It does what the test lined up and records what it was asked.

It writes HTTP by hand, so that it can also do what a proper server would not: hang, reset, stop halfway.
"""

import asyncio
import json
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import assert_never

from pydantic import JsonValue

EVENT_STREAM = {"Content-Type": "text/event-stream; charset=utf-8"}


def sse(*events: JsonValue) -> bytes:
    written = []
    for event in events:
        kind = event.get("type") if isinstance(event, dict) else None
        name = f"event: {kind}\n" if kind else ""
        written.append(f"{name}data: {event if isinstance(event, str) else json.dumps(event)}\n\n")
    return "".join(written).encode()


@dataclass(frozen=True)
class Reply:
    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})

    @classmethod
    def json(cls, body: JsonValue, *, status: int = 200, headers: Mapping[str, str] | None = None) -> "Reply":
        return cls(json.dumps(body).encode(), status, {"Content-Type": "application/json", **(headers or {})})

    @classmethod
    def sse(cls, *events: JsonValue, headers: Mapping[str, str] | None = None) -> "Reply":
        """A stream of events; a string is sent as it is, and `type` also names the event."""
        return cls(sse(*events), headers={**EVENT_STREAM, **(headers or {})})


@dataclass(frozen=True)
class Hang:
    """Say nothing, or nothing more, until the other side gives up."""

    body: bytes = b""


@dataclass(frozen=True)
class Trickle:
    """Begin an answer, then send a byte every `seconds` and never end it."""

    seconds: float


@dataclass(frozen=True)
class Reset:
    """Break the connection with an RST."""


@dataclass(frozen=True)
class Cut:
    """Promise a longer body than is sent, then close."""

    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


Step = Reply | Hang | Trickle | Reset | Cut


@dataclass(frozen=True)
class Asked:
    line: str
    headers: Mapping[str, str]
    body: JsonValue


class OpenAIStub:
    def __init__(self, port: int) -> None:
        self.host = f"127.0.0.1:{port}"
        self.base_url = f"http://{self.host}/v1"
        self.steps: deque[Step] = deque()
        self.asked: list[Asked] = []
        self.arrived = asyncio.Event()
        self.hung_up = asyncio.Event()

    def will(self, *steps: Step) -> None:
        self.steps.extend(steps)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.asked.append(await _read(reader))
            self.arrived.set()
            await self._perform(self.steps.popleft(), reader, writer)
        except ConnectionError:
            self.hung_up.set()
        finally:
            writer.close()

    async def _perform(self, step: Step, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        match step:
            case Reply(body=body, status=status, headers=headers):
                writer.write(_head(status, headers, len(body)) + body)
                await writer.drain()
            case Hang(body=body):
                if body:
                    writer.write(_head(200, EVENT_STREAM, len(body) + 1) + body)
                await reader.read()
                self.hung_up.set()
            case Trickle(seconds=seconds):
                writer.write(_head(200, {}, 1_000_000))
                gone = asyncio.ensure_future(reader.read())
                while not gone.done():
                    writer.write(b" ")
                    await asyncio.wait([gone], timeout=seconds)
            case Reset():
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                writer.transport.abort()
            case Cut(body=body, headers=headers):
                writer.write(_head(200, headers, len(body) + 1) + body)
                await writer.drain()
            case _:
                assert_never(step)


@asynccontextmanager
async def openai_stub() -> AsyncIterator[OpenAIStub]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await stub.serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    stub = OpenAIStub(server.sockets[0].getsockname()[1])
    async with server:
        yield stub


def unused_address() -> str:
    """A loopback address where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)}
    return Asked(head[0], headers, json.loads(await reader.readexactly(int(headers["content-length"]))))


def _head(status: int, headers: Mapping[str, str], length: int) -> bytes:
    lines = {**headers, "Content-Length": str(length), "Connection": "close"}
    written = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} Scripted\r\n{written}\r\n".encode()
