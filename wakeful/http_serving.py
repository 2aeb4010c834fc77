"""Serve an ASGI application over HTTP: listen on an address, check bearer tokens, stop when the program says so.

The A2A server and the MCP server share it. uvicorn comes with their extras, so it is imported only to serve.
"""

import asyncio
import contextlib
import hmac
import ipaddress
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING

from wakeful.contract.errors import ConfigurationError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

GRACE_SECONDS = 3
"""How long requests may continue when the server stops: a stream could last for days, and runs continue without it."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one.

    Raises:
        ConfigurationError: the address cannot be listened on.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigurationError([f"cannot listen on {host!r}, port {port}: {error.strerror or error}"]) from error


async def serve_app(app: "ASGIApp", listening: socket.socket, *, until: asyncio.Event) -> None:
    """Serve until the event is set."""
    import uvicorn

    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=GRACE_SECONDS)
    server = uvicorn.Server(config)

    async def stop() -> None:
        await until.wait()
        server.should_exit = True

    stopping = asyncio.create_task(stop())
    try:
        # Not `serve`: that would take the signals, which are the program's.
        await server._serve(sockets=[listening])
    finally:
        stopping.cancel()


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def has_token(headers: Iterable[tuple[bytes, bytes]], token: bytes) -> bool:
    """Whether the headers of a request have this bearer token."""
    written = next((bytes(value) for name, value in headers if name == b"authorization"), b"")
    scheme, _, given = written.partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), token)


def in_url(host: str) -> str:
    """The host as a URL names it: an IPv6 address has brackets."""
    return f"[{host}]" if ":" in host else host
