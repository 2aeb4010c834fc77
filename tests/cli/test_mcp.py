"""`wakeful mcp` tries a server; the page's example does what the page shows."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.mcp_app import COMMAND
from tests.support.processes import ROOT, wakeful
from tests.support.waiting import until
from wakeful import Registry
from wakeful.client.client import Client
from wakeful.worker import WorkerSettings, load_registry, running_worker

PAGE = (ROOT / "docs/mcp.md").read_text()
APP = ("--app", "examples/mcp/app.py:registry")


def shown(command: str) -> list[str]:
    """What the page shows as the output of a command."""
    (output,) = re.findall(rf"^\$ {re.escape(command)}[^\n]*\n((?:[^$`\n][^\n]*\n)*)", PAGE, re.MULTILINE)
    return str(output).splitlines()


@pytest.mark.integration
async def test_tools_are_listed_and_called_as_the_page_shows() -> None:
    """B-830"""
    listed = await wakeful("mcp", "list", *APP)
    assert listed.out.splitlines()[1:] == shown("wakeful mcp list")[1:]
    called = await wakeful("mcp", "call", "trains", "departures", "--arguments", '{"city": "Rome"}', *APP)
    assert called.out.splitlines() == shown("wakeful mcp call")
    asked = await wakeful("mcp", "call", "book", "--arguments", '{"city": "Rome"}', *APP)
    assert asked.code == 1
    assert "the server asks 'Which seat to Rome?'" in asked.err


@pytest.mark.integration
async def test_a_server_can_be_given_by_its_command() -> None:
    """B-830"""
    desk = ("--command", " ".join(COMMAND))
    listed = await wakeful("mcp", "list", "desk", *desk, "--json")
    assert '"id":"mcp__desk__echo"' in listed.out
    failed = await wakeful("mcp", "call", "fail", *desk)
    assert (failed.code, failed.err) == (1, "wakeful: fail: Error executing tool fail: the printer is on fire\n")


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("list",), "name a server: your registry with --app"),
        (("list", "gone", *APP), "no MCP server 'gone'; registered: trains"),
        (("list", "--command", "/no/such/program"), "MCP server 'server': No such file or directory"),
        (("call", "a", "b", "c", *APP), "name a server and a tool"),
        (("list", "--command", "x", "--url", "http://x"), "give command, a program to start, or url"),
    ],
)
async def test_mistakes_are_named(args: tuple[str, ...], problem: str) -> None:
    ran = await wakeful("mcp", *args)
    assert ran.code != 0
    assert problem in ran.err


@pytest.mark.integration
async def test_the_pages_example_books_a_seat(temporal: TemporalClient, thread_id: str) -> None:
    """B-830"""
    registry = load_registry(APP[1])
    async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
        client = Client(temporal, task_queue=thread_id)
        await client.start("clerk", "to Rome, please", thread_id=thread_id)
        [ticket] = (await until(client, thread_id, lambda view: bool(view.pending))).pending
        assert ticket.pending.id == "2-1"
        await client.decide(thread_id, ticket.pending.id, "resume", result={"seat": "12A"})
        assert (await client.result(thread_id)).response == "booked seat 12A to Rome"


def test_the_registry_of_the_page_is_valid_in_code_and_in_a_file(tmp_path: Path) -> None:
    """B-830"""
    (code,) = re.findall(r"```python\n(from wakeful.*?|import sys\n.*?)```", PAGE, re.DOTALL)[:1]
    found: dict[str, Any] = {}
    exec(compile(code, "docs/mcp.md", "exec"), found)
    (toml,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "clerk.toml").write_text(toml)
    in_file = Registry(agent_files=[tmp_path])
    for registry in (found["registry"], in_file):
        assert [server.name for server in registry.mcp_servers_of("clerk")] == ["trains", "maps"]


def test_a_worker_without_mcp_servers_does_not_import_the_sdk() -> None:
    code = "import sys, wakeful.worker; sys.exit('mcp' in sys.modules or 'httpx2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
