"""HTTP/1.1 by hand, so that a reply can end where a proper server's never would."""

import asyncio
import re
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from tests.support.fake_provider.script import Raw, Writing

BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


async def read_request(first: bytes, reader: asyncio.StreamReader) -> Request:
    """The request whose first byte has been read already."""
    head = (first + await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, target, _ = head[0].split(" ")
    path, _, query = target.partition("?")
    headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, query, headers, body)


async def next_byte(reader: asyncio.StreamReader) -> bytes:
    """The first byte of the next request; nothing if the client has closed or reset the connection."""
    try:
        return await reader.read(1)
    except ConnectionError:
        return b""


class Outgoing:
    """One reply. If it is `broken` on purpose, the connection serves no other."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.headers: Mapping[str, str] = {}
        self.writing = Writing()
        self.broken = False
        self._kept = b""

    def prepare(self, headers: Mapping[str, str], writing: Writing) -> None:
        """How a reply in pieces is sent."""
        self.headers = headers
        self.writing = writing
        self._kept = BOM if writing.bom else b""

    async def whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.writer.write(_head(status, {**headers, "Content-Length": str(len(body))}) + body)
        await self.writer.drain()

    async def raw(self, reply: Raw) -> None:
        missing = 0 if reply.then == "end" else 1
        length = {"Content-Length": str(len(reply.body) + missing)}
        self.writer.write(_head(reply.code, {**reply.headers, **length}) + reply.body)
        await self.writer.drain()
        if reply.then == "stall":
            await asyncio.Event().wait()  # cancelled when the client closes the connection
        if reply.then == "cut":
            await self.cut()

    async def head(self) -> None:
        self.writer.write(_head(200, {**self.headers, "Transfer-Encoding": "chunked"}))
        await self.writer.drain()

    async def send(self, data: bytes) -> None:
        self._kept += data
        if self.writing.writes != "whole":
            await self.flush()

    async def flush(self) -> None:
        data, self._kept = self._kept, b""
        for piece in _pieces(data, self.writing):
            # Each piece is an HTTP chunk of its own: a client reads them apart even if TCP has joined them.
            self.writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await self.writer.drain()

    async def finish(self) -> None:
        await self.flush()
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def cut(self) -> None:
        await self.flush()
        self.broken = True
        self.writer.close()

    async def reset(self) -> None:
        await self.flush()
        self.broken = True
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()


def _pieces(data: bytes, writing: Writing) -> list[bytes]:
    match writing.writes:
        case "byte":
            return [data[place : place + 1] for place in range(len(data))]
        case "split_characters":
            return [piece for piece in re.findall(rb"[^\xc0-\xff]*[\xc0-\xff]?", data) if piece]
        case "event" | "whole":
            return [data] if data else []


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    written = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Scripted\r\n{written}\r\n".encode()
