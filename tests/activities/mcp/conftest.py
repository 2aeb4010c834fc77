"""The tests' MCP server over HTTP, in a process of its own."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.mcp_app import COMMAND
from tests.support.processes import ROOT
from wakeful import McpServer, Secret
from wakeful_activities.mcp.connection import McpConnection

CANARY = "canary-4711-token"
PATIENCE = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.asynccontextmanager
async def http_desk(port: int, **environ: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The server on this port, once it answers; killed in the end."""
    env = {**os.environ, "DESK_TOKEN": CANARY, **environ}
    process = await asyncio.create_subprocess_exec(*COMMAND, "--http", str(port), cwd=ROOT, env=env)
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                await asyncio.sleep(0.05)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def remote_desk(port: int, **settings: object) -> McpServer:
    token = Secret(env="DESK_SECRET")
    return McpServer.model_validate(
        {"name": "desk", "url": f"http://127.0.0.1:{port}/mcp", "token": token, "restart_delay": 0.05, **settings}
    )


@pytest.fixture(scope="session")
async def port(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[int]:
    found = free_port()
    async with http_desk(found, DESK_JOURNAL=str(tmp_path_factory.mktemp("desk") / "journal")):
        yield found


@contextlib.asynccontextmanager
async def connected(server: McpServer) -> AsyncIterator[McpConnection]:
    connection = McpConnection(server, {**os.environ, "DESK_SECRET": CANARY})
    try:
        yield connection
    finally:
        await connection.aclose()


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"
