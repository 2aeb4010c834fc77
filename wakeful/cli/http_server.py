"""An HTTP server that stops on a signal. It imports uvicorn, which only some extras install."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from wakeful.cli.serving import stop_on_signals

GRACE_SECONDS = 2
"""How long a server that stops waits for requests under way: their runs continue without it."""


class _Server(uvicorn.Server):
    """Leaves signals to the program."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve_http(app: ASGIApp, bound: socket.socket, *, greeting: str) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=GRACE_SECONDS)
    server = _Server(config)
    stop = asyncio.create_task(stop_on_signals().wait())
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    print(greeting, flush=True)
    await asyncio.wait({stop, serving}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    await serving
    stop.cancel()
