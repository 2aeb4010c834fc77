"""Listen on an address, and serve an ASGI application there with uvicorn until it is to stop."""

import asyncio
import ipaddress
import socket
from typing import TYPE_CHECKING

from wakeful.contract.errors import ConfigurationError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

GRACE_SECONDS = 3
"""How long requests may continue when the server stops: a stream could last for days, and clients subscribe again."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one.

    Raises:
        ConfigurationError: the address cannot be listened on.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigurationError([f"cannot listen on {host!r}, port {port}: {error.strerror}"]) from error


async def serve_app(app: "ASGIApp", listening: socket.socket, *, until: asyncio.Event) -> None:
    """Serve until the event is set."""
    import uvicorn  # of the extra, whose absence `wakeful.a2a.app` reports

    config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=GRACE_SECONDS)
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
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
