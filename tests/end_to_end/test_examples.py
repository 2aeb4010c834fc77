"""The pages on sub-agents and registries tell the truth: their code runs, and so do the examples, without a key."""

import ast
import asyncio
import os
import re
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from tests.support.processes import ROOT
from wakeful import Registry
from wakeful.testing import runtime
from wakeful.worker import load_registry

pytestmark = pytest.mark.integration

KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY")


async def lines_of(example: str) -> list[str]:
    """What an example prints until it has ended well."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, f"examples/team/{example}"),
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name not in KEYS},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(90):
        out, err = await process.communicate()
    assert process.returncode == 0, out.decode() + err.decode()
    return out.decode().splitlines()


async def test_a_lead_receives_the_results_of_three_researchers() -> None:
    lines = await lines_of("research.py")
    assert any(line.startswith("    researcher (returns): running after ") for line in lines)
    done = lines.index("lead: done after 6 steps")
    assert lines[done + 1 : done + 4] == [
        "    researcher (prices): done after 2 steps",
        "    researcher (reviews): done after 2 steps",
        "    researcher (returns): done after 3 steps",
    ]
    assert done < lines.index("The records of returns go back three years: this takes longer.")
    received = [line.removeprefix('<background-task-event kind="completed" task_id=').rstrip(">") for line in lines]
    assert sorted(task for task in received if task.startswith('"bg_')) == [
        '"bg_0" name="prices"',
        '"bg_1" name="reviews"',
        '"bg_2" name="returns"',
    ]
    answer = lines[-1]
    assert answer.startswith("lead: Stock the Mokka.")
    assert all(fact in answer for fact in ("249", "4.6 stars", "2% came back"))


async def test_a_reviewer_takes_the_thread_over_and_keeps_it() -> None:
    lines = [line.strip() for line in await lines_of("reviewer.py") if line]
    assert lines == [
        "you: Write a sentence about the Mokka for our leaflet.",
        "writer: The Mokka makes coffee that is very, very good.",
        "handoff_to_reviewer: reviewer takes over from here",
        "-- writer hands off to reviewer",
        "count_words: 9",
        "reviewer: 9 words are too many, and “very” says nothing. Better: The Mokka makes good coffee.",
        "you: How many words are left?",
        "count_words: 5",
        "reviewer: It has 5 words now.",
    ]


async def test_two_peers_go_on_talking_when_their_worker_was_restarted() -> None:
    lines = await lines_of("peers.py")
    assert [line for line in lines if not line.startswith("    ")] == [
        "buyer to seller: How much are ten machines?",
        "seller to buyer: They are 249 each.",
        "-- the worker is stopped while the buyer ponders; both threads sleep in Temporal",
        "-- another worker has started",
        "buyer to seller: Too much. I offer 199 each.",
        "seller to buyer: The best I can do is 219 each.",
        "buyer to seller: Agreed, 219 each.",
    ]
    assert lines[-1] == "    buyer: Ten machines at 219 each are coming."


async def test_the_code_of_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """First what users write, then what they ask the client for, as the blocks stand."""
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)
    blocks = blocks_of("docs/sub-agents.md")
    names: dict[str, Any] = {}
    for block in blocks:
        if "await " not in block:
            exec(block, names)
    async with runtime(names["registry"]) as client:
        names["client"] = client
        await client.send("t7", "hello", agent_id="writer")
        for block in blocks:
            if "await " in block:
                code = compile(block, "docs/sub-agents.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                await FunctionType(code, names)()
    assert names["result"].spent.turns == 1
    assert [node.agent_id for node in names["tree"].walk()] == ["chief"]


async def test_agents_in_a_file_run_with_the_tool_that_is_code() -> None:
    registry = load_registry("examples/files/app.py:registry")
    async with runtime(registry) as client:
        result = await client.run("clerk", "how many espresso machines are there?")
    assert (sorted(registry.agents), result.response) == (["buyer", "clerk"], "There are 3 espresso machines.")


def test_the_code_and_the_file_of_the_page_on_registries_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, dependencies, remote = blocks_of("docs/registries.md")
    exec(dependencies, {"__name__": "dependencies"})
    file, remote_file = blocks_of("docs/registries.md", "toml")
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/support.toml").write_text(file)
    (tmp_path / "agents/support.md").write_text("Be kind.\n")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    exec(code, names)
    assert sorted(names["registry"].agents) == ["coder", "researcher", "support"]
    exec(remote, names := {"__name__": "remote"})
    (tmp_path / "remote.toml").write_text(remote_file)
    in_file = Registry(agent_files=[tmp_path / "remote.toml"])
    assert in_file.sources == names["registry"].sources
    assert in_file.resolve("rates").agent_id == "rates"


def blocks_of(page: str, language: str = "python") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
