"""Agents in files as the programs use them: all faults in one message; reloaded on change, and on SIGHUP."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from textwrap import dedent

import pytest
from temporalio.client import Client

from tests.support.processes import ROOT, WAKEFUL, wakeful

APP = '''
from pydantic import BaseModel
from wakeful import Agent, Plugin, Registry, ScriptedModel, say, tool


@tool
def look(where: str) -> str:
    """Look."""
    return where


class Limits(BaseModel):
    most: int = 3


class Guard(Plugin[Limits]):
    id = "guard"


registry = Registry(
    agents=[Agent(id="coded")],
    tools=[look],
    plugins=[Guard()],
    models={"default": ScriptedModel([say("hello, {input}")])},
)
'''


@pytest.fixture
def app(tmp_path: Path) -> str:
    (tmp_path / "files_app.py").write_text(APP)
    return f"{tmp_path / 'files_app.py'}:registry"


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "clerk.toml").write_text('[agent.clerk]\ninstructions = "Be brief."\n')
    return tmp_path / "agents"


class Program:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> str:
        """The next line of its output."""
        assert self.process.stdout is not None
        async with asyncio.timeout(60):
            return (await self.process.stdout.readline()).decode().rstrip("\n")


@contextlib.asynccontextmanager
async def started(*command: str) -> AsyncIterator[Program]:
    """A program of ours; its errors are read with its output. Ctrl-C must end it cleanly."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env={**os.environ}
    )
    try:
        yield Program(process)
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(60):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_bad_registry_is_refused_in_one_message_with_every_fault(app: str, agents: Path) -> None:
    (agents / "clerk.toml").write_text(
        dedent(
            """
            [agent.clerk]
            model = "gpt"
            tools = ["look", "fly"]
            plugins = ["guard"]
            max_round = 3

            [agent.clerk.plugin_settings.guard]
            most = "many"

            [agent.coded]
            """
        ).lstrip()
    )
    (agents / "more.toml").write_text("[agent.clerk]\n")
    ran = await wakeful("worker", "--app", app, "--agents", str(agents))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.replace(f"{agents}/", "").splitlines() == [
        "wakeful: clerk.toml:2: agent 'clerk' names unknown model 'gpt'; registered: default",
        "wakeful: clerk.toml:3: agent 'clerk' names unknown tool 'fly'; registered: look",
        "wakeful: clerk.toml:5: agent 'clerk': unknown key 'max_round'; did you mean 'max_rounds'?",
        "wakeful: clerk.toml:7: agent 'clerk': the settings of plugin 'guard' are invalid: most: Input should be a "
        "valid integer, unable to parse string as an integer",
        "wakeful: clerk.toml:10: agent 'coded' is registered twice: here and in code",
        "wakeful: more.toml:1: agent 'clerk' is registered twice: here and at clerk.toml:1",
    ]


async def test_a_worker_reloads_its_agents_on_sighup(temporal: Client, app: str, agents: Path, thread_id: str) -> None:
    address = temporal.service_client.config.target_host
    command = [sys.executable, "worker.py", "--app", app, "--agents", str(agents)]
    async with started(*command, "--address", address, "--task-queue", thread_id) as worker:
        assert (await worker.line()).endswith(f"task queue '{thread_id}': clerk, coded")

        (agents / "clerk.toml").write_text('[agent.clerk]\ntools = ["fly"]\nmodel = "gpt"\n')
        worker.process.send_signal(signal.SIGHUP)
        assert [(await worker.line()).replace(f"{agents}/", "") for _ in range(3)] == [
            "agents not reloaded, version 1 stays in force:",
            "  clerk.toml:2: agent 'clerk' names unknown tool 'fly'; registered: look",
            "  clerk.toml:3: agent 'clerk' names unknown model 'gpt'; registered: default",
        ]

        (agents / "clerk.toml").write_text('[agent.clerk]\ninstructions = "Be kind."\n[agent.helper]\n')
        worker.process.send_signal(signal.SIGHUP)
        assert await worker.line() == "agents reloaded, version 2 is in force: added helper; changed clerk"
        ran = await wakeful("run", "helper", "you", "--task-queue", thread_id, address=address)
        assert (ran.code, ran.out.splitlines()[-1]) == (0, "hello, you"), ran.err
        assert ["run started" in await worker.line(), "run ended" in await worker.line()] == [True, True]

        worker.process.send_signal(signal.SIGHUP)
        assert await worker.line() == "agents unchanged, version 2 stays in force"


@pytest.mark.integration
async def test_dev_reloads_agents_as_soon_as_they_change(agents: Path) -> None:
    (agents / "clerk.toml").write_text('[agent.clerk]\ninstructions_file = "clerk.md"\n')
    (agents / "clerk.md").write_text("Be brief.")
    command = [WAKEFUL, "dev", "--json", "--port", "0", "--ui-port", "0", "--agents", str(agents)]
    async with started(*command) as dev:
        assert json.loads(await dev.line())["task_queue"]
        (agents / "clerk.md").write_text("Be kind.")
        assert json.loads(await dev.line()) == {
            "outcome": "reloaded",
            "version": 2,
            "added": [],
            "changed": ["clerk"],
            "removed": [],
            "sources": [],
        }
        (agents / "other.toml").write_text("[agent.clerk]\n")
        refused = json.loads(await dev.line())
        assert (refused["outcome"], refused["version"]) == ("refused", 2)
        assert refused["problems"] == [
            f"{agents}/other.toml:1: agent 'clerk' is registered twice: here and at {agents}/clerk.toml:1"
        ]
        (agents / "other.toml").unlink()
        assert json.loads(await dev.line()) == {"outcome": "unchanged", "version": 2}
