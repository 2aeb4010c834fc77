"""Serve an ASGI application over HTTP until it is to stop, with uvicorn."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import uvicorn
from typing_extensions import override

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


async def serve(app: "ASGIApp", listening: socket.socket, *, until: asyncio.Event) -> None:
    """Serve until the event is set."""
    config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=GRACE_SECONDS)
    server = _Server(config)
    stopping = asyncio.create_task(_stop(server, until))
    try:
        await server.serve(sockets=[listening])
    finally:
        stopping.cancel()


class _Server(uvicorn.Server):
    """Leaves signals to the program."""

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _stop(server: uvicorn.Server, until: asyncio.Event) -> None:
    await until.wait()
    server.should_exit = True
