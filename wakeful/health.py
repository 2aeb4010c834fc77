"""A worker's health over HTTP, for the probes of a supervisor such as Kubernetes.

It answers from the worker's event loop: if user code blocks the loop, there is no answer, and the probe fails as well.
It says nothing about Temporal: a worker that has lost its connection reconnects by itself.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping

from pydantic import JsonValue

from wakeful.contract.errors import ConfigurationError

REQUEST_SECONDS = 5.0
"""How long a request may take to arrive."""

Health = tuple[bool, Mapping[str, JsonValue]]
"""Whether the worker is healthy, and the details."""


@contextlib.asynccontextmanager
async def serving_health(port: int | None, read: Callable[[], Health]) -> AsyncIterator[None]:
    """Answer every GET on this port with 200 or 503, and the details as JSON, while the body runs.

    Raises:
        ConfigurationError: the port cannot be used.
    """
    if port is None:
        yield
        return

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(REQUEST_SECONDS):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(_response(read()))
                await writer.drain()
        writer.close()

    try:
        server = await asyncio.start_server(answer, port=port)
    except OSError as error:
        raise ConfigurationError([f"health port {port}: {error.strerror}; choose another one"]) from error
    async with server:
        yield


def _response(health: Health) -> bytes:
    is_healthy, details = health
    body = json.dumps({"status": "ok" if is_healthy else "stopping", **details}).encode()
    status = "200 OK" if is_healthy else "503 Service Unavailable"
    headers = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close"
    return f"HTTP/1.1 {status}\r\n{headers}\r\n\r\n".encode() + body
