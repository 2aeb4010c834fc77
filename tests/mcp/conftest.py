"""An MCP server over HTTP on this machine, and a worker for its agents."""

import asyncio
import contextlib
import socket
import uuid
from collections.abc import AsyncIterator

import pytest
import uvicorn
from mcp import Client as McpClient
from starlette.types import ASGIApp
from temporalio.client import Client as TemporalClient

import wakeful.mcp
from tests.conftest import worker_settings
from tests.support.served_agents_app import registry
from tests.support.waiting import BOUND_SECONDS
from wakeful.client.client import Client
from wakeful.contract import ids
from wakeful.worker import running_worker

QUEUE = "mcp"


@pytest.fixture(scope="session")
async def agents(temporal: TemporalClient) -> AsyncIterator[Client]:
    """A client whose runs are driven by a worker with the agents of the MCP server."""
    async with (
        running_worker(temporal, registry, worker_settings(task_queue=QUEUE)),
        Client(temporal, task_queue=QUEUE) as client,
    ):
        yield client


@contextlib.asynccontextmanager
async def http_server(app: ASGIApp) -> AsyncIterator[str]:
    """Serve an app on a free port; yields the URL of its MCP endpoint."""
    bound = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    async with asyncio.timeout(BOUND_SECONDS):
        while not server.started:
            await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        await serving


@pytest.fixture(scope="session")
async def url(agents: Client) -> AsyncIterator[str]:
    """An MCP server with all agents, whose clients decide everything."""
    async with http_server(wakeful.mcp.app(agents, registry=registry, decisions="all")) as url:
        yield url


@pytest.fixture
def thread_id() -> str:
    """The id of a thread that a client opens, by a server without a tenant and a user."""
    return ids.request_thread_id("test", uuid.uuid4().hex)


@contextlib.asynccontextmanager
async def connected(caller: McpClient) -> AsyncIterator[McpClient]:
    """A connected client, for a fixture: a task of its own enters and leaves it, as its cancel scopes demand."""
    opened, left = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with caller:
            opened.set()
            await left.wait()

    holding = asyncio.create_task(hold())
    waiting = asyncio.create_task(opened.wait())
    await asyncio.wait({holding, waiting}, return_when=asyncio.FIRST_COMPLETED)
    try:
        yield caller
    finally:
        left.set()
        waiting.cancel()
        await holding


@pytest.fixture(params=["legacy", "auto"])
def mode(request: pytest.FixtureRequest) -> str:
    """The handshake protocols, or the newest one."""
    return str(request.param)
