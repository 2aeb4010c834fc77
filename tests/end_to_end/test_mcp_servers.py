"""MCP servers that we did not write, in agents: two from PyPI, two from npm, over stdio and streamable HTTP.

It installs them into folders of its own, and needs Node.js with npm for two of them.
"""

import asyncio
import contextlib
import json
import os
import shutil
import socket
import venv
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.mcp_app import Obeying
from tests.support.processes import kill, worker_process
from tests.support.waiting import until
from wakeful import Agent, Behavior, McpServer, Registry
from wakeful.client.client import Client
from wakeful.contract.events import ActivitySnapshot
from wakeful.contract.messages import ImageBlock, Message, Role
from wakeful.worker import WorkerSettings, running_worker

NEEDS_NODE = pytest.mark.skipif(not (shutil.which("node") and shutil.which("npm")), reason="needs Node.js with npm")
pytestmark = pytest.mark.integration

NPM = "@modelcontextprotocol/server-"
INSTALL_SECONDS = 600
APP = "tests.end_to_end.test_mcp_servers:registry"
"""For a worker in a process of its own: `MCP_TEST_COMMAND` has the server's command."""

if "MCP_TEST_COMMAND" in os.environ:
    asked = McpServer(name="s", command=json.loads(os.environ["MCP_TEST_COMMAND"]), restart_delay=0.2)
    registry = Registry(agents=[Agent(id="clerk", mcp=[asked])], models={"default": Obeying()})


@pytest.fixture(scope="module")
async def pypi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the programs of the servers from PyPI are."""
    folder = tmp_path_factory.mktemp("pypi")
    venv.create(folder, with_pip=True)
    await done(folder, str(folder / "bin/pip"), "install", "-q", "mcp-server-time", "mcp-server-git")
    return folder / "bin"


@pytest.fixture(scope="module")
async def npm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the programs of the servers from npm are."""
    folder = tmp_path_factory.mktemp("npm")
    (folder / "package.json").write_text("{}")
    await done(folder, "npm", "install", "--silent", f"{NPM}everything", f"{NPM}filesystem")
    return folder / "node_modules/.bin"


async def done(folder: Path, *command: str) -> None:
    process = await asyncio.create_subprocess_exec(*command, cwd=folder)
    async with asyncio.timeout(INSTALL_SECONDS):
        assert await process.wait() == 0


@contextlib.asynccontextmanager
async def everything_over_http(npm: Path) -> AsyncIterator[str]:
    """The address of `server-everything` over streamable HTTP."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        str(npm / "mcp-server-everything"), "streamableHttp", env={**os.environ, "PORT": str(port)}
    )
    try:
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                await asyncio.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        await process.wait()


@contextlib.asynccontextmanager
async def clerk_with(temporal: TemporalClient, thread_id: str, server: McpServer) -> AsyncIterator[Client]:
    made = Registry(agents=[Agent(id="clerk", mcp=[server])], models={"default": Obeying()})
    async with running_worker(temporal, made, WorkerSettings(task_queue=thread_id)):
        yield Client(temporal, task_queue=thread_id)


def calls(*turns: tuple[str, dict[str, Any]]) -> str:
    return json.dumps([[(f"mcp__s__{tool}", arguments)] for tool, arguments in turns])


async def results_of(client: Client, thread_id: str) -> list[Message]:
    return [message for message in await client.transcript(thread_id) if message.role is Role.TOOL]


async def test_the_time_server(temporal: TemporalClient, thread_id: str, pypi: Path) -> None:
    """B-830"""
    server = McpServer(name="s", command=[str(pypi / "mcp-server-time")])
    async with clerk_with(temporal, thread_id, server) as client:
        asked = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
        result = await client.run("clerk", calls(("convert_time", asked)), thread_id=thread_id)
    assert "21:00" in result.response


async def test_the_git_server(temporal: TemporalClient, thread_id: str, pypi: Path, tmp_path: Path) -> None:
    """B-830: what it declares destructive is asked about."""
    await done(tmp_path, "git", "init", "-q", ".")
    (tmp_path / "a.txt").write_text("hello\n")
    server = McpServer(name="s", command=[str(pypi / "mcp-server-git"), "--repository", str(tmp_path)])
    repo: dict[str, Any] = {"repo_path": str(tmp_path)}
    async with clerk_with(temporal, thread_id, server) as client:
        turns = calls(("git_add", {**repo, "files": ["a.txt"]}), ("git_status", repo), ("git_reset", repo))
        await client.start("clerk", turns, thread_id=thread_id)
        [ticket] = (await until(client, thread_id, lambda view: bool(view.pending))).pending
        assert ticket.suspension.action == "tool:PermissionConfirm"
        status = (await results_of(client, thread_id))[1].text
        await client.decide(thread_id, ticket.pending.id, "cancel", reason="keep it")
        await client.result(thread_id)
    assert "new file:   a.txt" in status


@NEEDS_NODE
async def test_the_filesystem_server(temporal: TemporalClient, thread_id: str, npm: Path, tmp_path: Path) -> None:
    """B-830: what is outside of its folder is refused, and a rule lets it write without a question."""
    (tmp_path / "a.txt").write_text("hello")
    server = McpServer(
        name="s",
        command=[str(npm / "mcp-server-filesystem"), str(tmp_path)],
        permissions={"write_file": Behavior.ALLOW},
    )
    async with clerk_with(temporal, thread_id, server) as client:
        turns = calls(
            ("write_file", {"path": str(tmp_path / "b.txt"), "content": "written"}),
            ("read_text_file", {"path": str(tmp_path / "a.txt")}),
            ("read_text_file", {"path": "/etc/passwd"}),
        )
        await client.run("clerk", turns, thread_id=thread_id)
        wrote, read, refused = [message.text for message in await results_of(client, thread_id)]
    assert (tmp_path / "b.txt").read_text() == "written"
    assert ("Successfully wrote" in wrote, read) == (True, "hello")
    assert "Access denied" in refused


@NEEDS_NODE
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_everything_server(temporal: TemporalClient, thread_id: str, npm: Path, transport: str) -> None:
    """B-830: text, structured data, pictures, resources, progress and cancel."""
    async with contextlib.AsyncExitStack() as stack:
        if transport == "stdio":
            server = McpServer(name="s", command=[str(npm / "mcp-server-everything"), "stdio"])
        else:
            server = McpServer(name="s", url=await stack.enter_async_context(everything_over_http(npm)))
        client = await stack.enter_async_context(clerk_with(temporal, thread_id, server))
        turns = calls(
            ("get_sum", {"a": 2, "b": 40}),
            ("get_structured_content", {"location": "New York"}),
            ("get_tiny_image", {}),
            ("get_resource_reference", {"resourceType": "Text", "resourceId": 1}),
        )
        await client.run("clerk", turns, thread_id=thread_id)
        added, weather, image, resource = await results_of(client, thread_id)
        assert "42" in added.text
        assert json.loads(weather.text).keys() >= {"temperature", "conditions", "humidity"}
        assert any(isinstance(block, ImageBlock) for block in image.content)
        assert "[resource demo://" in resource.text
        await watch_and_cancel(client, f"{thread_id}-long")


async def watch_and_cancel(client: Client, thread_id: str) -> None:
    long = calls(("trigger_long_running_operation", {"duration": 20, "steps": 40}))
    await client.start("clerk", long, thread_id=thread_id, live=True)
    async with asyncio.timeout(60):
        async for record in client.watch(thread_id, live=True):
            if isinstance(record.event, ActivitySnapshot):
                assert "loaded" in json.dumps(record.event.content)
                break
    await client.cancel(thread_id)
    async with asyncio.timeout(15):  # it would take longer if the call were not cancelled
        assert (await client.result(thread_id)).status_reason == "cancelled"


@NEEDS_NODE
async def test_a_question_of_the_everything_server_is_answered_after_its_worker_was_killed(
    temporal: TemporalClient, thread_id: str, npm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-830: the server dies with its worker; the call begins anew, and the recorded answer is given to it."""
    monkeypatch.setenv("MCP_TEST_COMMAND", json.dumps([str(npm / "mcp-server-everything"), "stdio"]))
    client = Client(temporal, task_queue=thread_id)
    address, journal = temporal.service_client.config.target_host, tmp_path / "journal"
    async with worker_process(address, thread_id, journal, app=APP) as first:
        await client.start("clerk", calls(("trigger_elicitation_request", {})), thread_id=thread_id)
        [ticket] = (await until(client, thread_id, lambda view: bool(view.pending))).pending
        await kill(first)
    assert isinstance(ticket.suspension.response_schema, dict)
    assert "name" in ticket.suspension.response_schema["properties"]  # type: ignore[operator]  # a JSON object
    await client.decide(thread_id, ticket.pending.id, "resume", result={"name": "Ada Lovelace"})
    async with worker_process(address, thread_id, journal, app=APP):
        result = await client.result(thread_id)
    assert "Ada Lovelace" in result.response
