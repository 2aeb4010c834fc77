"""An HTTP peer that never stops: it answers every request with a head and then, without end, with the same bytes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass


@dataclass
class EndlessPeer:
    """Where it listens, and how many bytes it could send: what the reader has not read stays with the peer."""

    url: str
    sent: int = 0


@contextlib.asynccontextmanager
async def endless_peer(
    chunk: bytes, *, status: str = "200 OK", begin: bytes = b"", headers: Mapping[str, str] | None = None
) -> AsyncIterator[EndlessPeer]:
    """The peer while it runs.

    Args:
        begin: what the body begins with.
    """
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in (headers or {}).items())]
    head = "\r\n".join([*lines, "Connection: close", "", ""]).encode() + begin

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head)
            while True:
                writer.write(chunk)
                await writer.drain()
                peer.sent += len(chunk)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    peer = EndlessPeer(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    try:
        yield peer
    finally:
        server.close()
