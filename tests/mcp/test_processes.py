"""B-715: `wakeful mcp serve` in a process of its own, and what a client gets after a kill -9 of server and worker."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mcp import Client as McpClient
from mcp import StdioServerParameters, types
from temporalio.client import Client as TemporalClient

from tests.mcp.calling import text, thread_of
from tests.mcp.conftest import QUEUE
from tests.support.journal import Journal
from tests.support.processes import ROOT, WAKEFUL, kill, worker_process
from tests.support.waiting import BOUND_SECONDS
from wakeful import ConfigurationError
from wakeful.cli.app import load_command
from wakeful.client.client import Client
from wakeful.contract.ids import request_thread_id

APP = "tests.support.served_agents_app:registry"


def address_of(temporal: TemporalClient) -> str:
    return temporal.service_client.config.target_host


def serving(address: str, queue: str, *options: str, app: str = APP) -> list[str]:
    return ["mcp", "serve", "--app", app, "--address", address, "--task-queue", queue, *options]


@pytest.mark.integration
async def test_the_official_client_calls_agents_over_stdio(agents: Client, mode: str) -> None:
    args = serving(address_of(agents.temporal), QUEUE)
    server = StdioServerParameters(command=WAKEFUL, args=args, cwd=ROOT, env={**os.environ})
    async with asyncio.timeout(BOUND_SECONDS), McpClient(server, mode=mode) as caller:
        assert "payer" in {tool.name for tool in (await caller.list_tools()).tools}
        result = await caller.call_tool("payer", {"message": "hello"})
    assert text(result) == "heard hello"
    assert (await agents.result(thread_of(result))).response == "heard hello"


async def test_stdout_has_nothing_but_the_protocol(agents: Client, tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    process = await asyncio.create_subprocess_exec(
        *(WAKEFUL, *serving(address_of(agents.temporal), QUEUE, app="tests.support.noisy_app:registry")),
        *("--log-level", "debug"),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=errors.open("wb"),
    )
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    arguments = {"name": "payer", "arguments": {"message": "hello"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": arguments},
    ]
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("".join(f"{json.dumps(message)}\n" for message in messages).encode())
    lines: list[bytes] = []
    async with asyncio.timeout(BOUND_SECONDS):
        while not lines or json.loads(lines[-1]).get("id") != 2:
            lines.append(await process.stdout.readline())
        process.stdin.close()
        rest, _ = await process.communicate()
    assert (rest, process.returncode) == (b"", 0)
    assert {json.loads(line)["jsonrpc"] for line in lines} == {"2.0"}
    assert "I was imported!" in errors.read_text()


@contextlib.asynccontextmanager
async def http_process(
    address: str, queue: str, **environ: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """`wakeful mcp serve --http` on a free port, and its URL."""
    process = await asyncio.create_subprocess_exec(
        *(WAKEFUL, *serving(address, queue, "--http", "0", "--decisions", "all")),
        cwd=ROOT,
        env={**os.environ, **environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(BOUND_SECONDS):
            greeting = (await process.stdout.readline()).decode()
        assert greeting.startswith("MCP server on http://127.0.0.1:"), greeting
        yield process, greeting.split()[-1]
    finally:
        if process.returncode is None:
            process.terminate()
            async with asyncio.timeout(BOUND_SECONDS):
                assert await process.wait() == 0


@pytest.mark.faults
async def test_a_client_that_asks_again_after_a_kill_of_everything_gets_the_same_run(
    temporal: TemporalClient, thread_id: str, tmp_path: Path, mode: str
) -> None:
    """The server and the worker are killed in the middle of a tool, and the run ends once."""
    address, journal = address_of(temporal), Journal(tmp_path / "journal.jsonl")
    asked = {"message": "linger idempotent", "request_id": thread_id}
    async with (
        worker_process(address, thread_id, journal.path, app=APP) as worker,
        http_process(address, thread_id) as (server, url),
    ):
        calling = asyncio.create_task(_call(url, mode, asked))
        await journal.until("linger_idempotent", "began")
        await kill(worker)
        await kill(server)
        await asyncio.wait({calling})
        assert calling.exception() is not None
    async with (
        worker_process(address, thread_id, journal.path, app=APP),
        http_process(address, thread_id) as (_, url),
    ):
        results = await asyncio.gather(*(_call(url, mode, asked) for _ in range(3)))
    assert results == ["lingered, attempt 2"] * 3
    client = Client(temporal, task_queue=thread_id)
    thread = request_thread_id("tester", thread_id)
    assert [each.text for each in await client.transcript(thread) if each.role == "user"] == ["linger idempotent"]
    assert journal.said("linger_idempotent") == ["began", "began", "ended"]


@pytest.mark.faults
async def test_an_approval_is_asked_for_again_after_a_kill_of_everything(
    temporal: TemporalClient, thread_id: str, tmp_path: Path, mode: str
) -> None:
    address, journal = address_of(temporal), tmp_path / "journal.jsonl"
    asked, answers = {"message": "pay", "request_id": thread_id}, ["cancel", "accept"]

    async def ask(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult.model_validate({"action": answers.pop(0), "content": {}})

    for expected in ("has not finished", "paid 7"):
        async with (
            worker_process(address, thread_id, journal, app=APP) as worker,
            http_process(address, thread_id) as (server, url),
        ):
            async with McpClient(url, mode=mode, elicitation_callback=ask) as caller:
                assert expected in text(await caller.call_tool("payer", asked))
            await kill(worker)
            await kill(server)
    transcript = await Client(temporal, task_queue=thread_id).transcript(request_thread_id("payer", thread_id))
    assert [message.text for message in transcript] == ["pay", "", "paid 7", "paid 7"]


async def _call(url: str, mode: str, asked: dict[str, str]) -> str:
    async with McpClient(url, mode=mode) as caller:
        return text(await caller.call_tool("tester", asked))


def test_a_server_without_agents_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="name your agents"):
        CliRunner().invoke(load_command("mcp"), ["serve"], catch_exceptions=False)
