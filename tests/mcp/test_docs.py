"""The page on MCP tells the truth: its program runs, and its configuration starts a server."""

import asyncio
import json
import os
import re
import sys

import pytest
from mcp import Client as McpClient
from mcp import StdioServerParameters
from temporalio.client import Client as TemporalClient

from tests.support.processes import ROOT, WAKEFUL
from tests.support.waiting import BOUND_SECONDS

pytestmark = pytest.mark.integration

PAGE = (ROOT / "docs" / "mcp.md").read_text().partition("## Serve agents as MCP tools")[2]


async def test_the_program_serves_an_agent_and_calls_it() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(BOUND_SECONDS):
        out, _ = await process.communicate()
    [greeting, thread] = out.decode().splitlines()
    assert (process.returncode, greeting, thread[:12]) == (0, "Hello, Ada!", "mcp-greeter-")


async def test_the_configuration_of_a_desktop_app_starts_a_server(temporal: TemporalClient) -> None:
    (written,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    given = json.loads(written)["mcpServers"]["shop"]
    assert given["command"] == "wakeful"
    env = {**os.environ, **given["env"], "TEMPORAL_ADDRESS": temporal.service_client.config.target_host}
    server = StdioServerParameters(command=WAKEFUL, args=given["args"], cwd=ROOT, env=env)
    async with asyncio.timeout(BOUND_SECONDS), McpClient(server) as caller:
        assert "buyer" in {tool.name for tool in (await caller.list_tools()).tools}
