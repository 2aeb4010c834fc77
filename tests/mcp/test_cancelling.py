"""B-715: a client that cancels its request cancels the run; one that merely goes away does not."""

import asyncio

import anyio
import httpx
import pytest
from mcp import Client as McpClient
from mcp.shared.exceptions import MCPError
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_HANDSHAKE_VERSION as HANDSHAKE
from mcp_types.version import LATEST_MODERN_VERSION as MODERN

import wakeful.mcp
from tests.mcp.calling import text
from tests.mcp.conftest import http_server
from tests.support.journal import Journal
from tests.support.waiting import BOUND_SECONDS, until, until_status
from wakeful import RunStatus
from wakeful.client.client import Client


async def test_a_cancelled_request_cancels_its_run(url: str, agents: Client, thread_id: str, journal: Journal) -> None:
    async with McpClient(url, mode="legacy") as caller, anyio.create_task_group() as group:
        group.start_soon(caller.call_tool, "tester", {"message": "linger", "thread_id": thread_id})
        await journal.until("linger", "began")
        group.cancel_scope.cancel()
    result = await agents.result(thread_id)
    assert result.status_reason == "cancelled"
    assert result.detail == "the MCP client cancelled its request: caller cancelled"


async def test_a_request_that_times_out_leaves_its_run_if_you_want_so(
    agents: Client, thread_id: str, journal: Journal
) -> None:
    """Many clients cancel a request that takes longer than a minute."""
    async with http_server(wakeful.mcp.app(agents, agents=["tester"], cancels=False)) as url:
        async with McpClient(url, mode="legacy") as caller:
            asked = {"message": "linger", "thread_id": thread_id}
            with pytest.raises(MCPError, match="timed out"):
                await caller.call_tool("tester", asked, read_timeout_seconds=0.5)
        await journal.until("linger", "began")
        assert (await agents.status(thread_id)).status is not RunStatus.DONE
    await agents.cancel(thread_id)
    await agents.result(thread_id)


async def test_a_connection_that_is_lost_leaves_the_run(
    url: str, mode: str, agents: Client, thread_id: str, journal: Journal
) -> None:
    """Over HTTP, the newest protocol has no other way to cancel than to hang up: use the tool `cancel`."""
    call = {"message": "linger", "thread_id": thread_id}
    async with httpx.AsyncClient(timeout=BOUND_SECONDS) as http:
        headers = await opened(http, url, mode)
        posting = asyncio.create_task(http.post(url, json=tool_call("tester", call, mode), headers=headers))
        await journal.until("linger", "began")
        posting.cancel()
        await asyncio.wait({posting})
    async with McpClient(url, mode=mode) as caller:
        joined = asyncio.Event()

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            joined.set()

        again = asyncio.create_task(caller.call_tool("tester", call, progress_callback=on_progress))
        await joined.wait()
        assert (await agents.status(thread_id)).status is RunStatus.RUNNING
        await caller.call_tool("cancel", {"thread_id": thread_id})
        assert text(await again) == "The run ended as cancelled: an MCP client cancelled it."
    assert journal.said("linger").count("began") == 1


async def opened(http: httpx.AsyncClient, url: str, mode: str) -> dict[str, str]:
    """The headers of a session, which the newest protocol does not have."""
    headers = {"accept": "application/json, text/event-stream"}
    if mode != "legacy":
        return {**headers, "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "tester"}
    params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    answer = await http.post(url, json=request, headers=headers)
    headers |= {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": HANDSHAKE}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await http.post(url, json=ready, headers=headers)).status_code == 202
    return headers


def tool_call(name: str, arguments: dict[str, str], mode: str) -> dict[str, object]:
    envelope = {PROTOCOL_VERSION_META_KEY: MODERN, CLIENT_CAPABILITIES_META_KEY: {}} if mode != "legacy" else {}
    params = {"name": name, "arguments": arguments, "_meta": envelope}
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}


async def test_a_message_that_no_run_has_read_is_withdrawn(
    url: str, agents: Client, thread_id: str, journal: Journal
) -> None:
    await agents.send(thread_id, "linger", agent_id="tester")
    await journal.until("linger", "began")
    async with McpClient(url, mode="legacy") as caller, anyio.create_task_group() as group:
        group.start_soon(caller.call_tool, "tester", {"message": "and then add", "thread_id": thread_id})
        await until(agents, thread_id, lambda view: view.queued == 1)
        group.cancel_scope.cancel()
    view = await until(agents, thread_id, lambda view: view.queued == 0)
    assert (view.runs, view.steps) == (1, 1)
    await agents.cancel(thread_id)
    await until_status(agents, thread_id, RunStatus.DONE)
