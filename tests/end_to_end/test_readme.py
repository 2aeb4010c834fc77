"""The README is true: its code is in examples/, and its commands print what it shows."""

import asyncio
import json
import os
import re
import shlex
import sys
from functools import partial

import pytest

from tests.support.processes import ROOT, dev_process
from tests.support.terminal import Terminal, terminal
from wakeful.connection import temporal_command

README = (ROOT / "README.md").read_text()
KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def transcript(command: str) -> str:
    """What the README shows as the output of the command that starts like this."""
    (shown,) = re.findall(rf"^\$ {re.escape(command)}[^\n]*\n((?:[^$`\n][^\n]*\n)*)", README, re.MULTILINE)
    return str(shown)


@pytest.fixture(autouse=True)
def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)


@pytest.mark.parametrize("example", ["hello.py", "shop.py"])
def test_the_code_shown_is_the_example(example: str) -> None:
    assert (ROOT / "examples" / example).read_text() in blocks("python")


async def test_hello_world_prints_what_is_shown() -> None:
    assert await output([sys.executable, "examples/hello.py"]) == transcript("python examples/hello.py")


async def test_the_approval_shows_at_a_terminal_what_is_shown() -> None:
    async with dev_process("--app", "examples/shop.py:registry") as where:
        for command in ("wakeful run buyer", "wakeful approve restock/1-1", "wakeful show restock"):
            (line,) = [line for line in README.splitlines() if line.startswith(f"$ {command}")]
            async with terminal(*shlex.split(line)[2:], TEMPORAL_ADDRESS=where["address"]) as seen:
                assert await seen.ended() == 0, seen.text
                await seen.until(partial(shows_only, transcript(command)))


def shows_only(text: str, seen: Terminal) -> bool:
    """Except for who decided and when, and for the time that a call took, which a busy machine shows."""
    shown = re.sub(r"  \d+\.\ds$", "", f"{seen.text}\n", flags=re.MULTILINE)
    return DECIDED.sub("", shown) == DECIDED.sub("", text) and len(DECIDED.findall(shown)) == len(DECIDED.findall(text))


DECIDED = re.compile(r" \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC  approved by \S+@\S+ \(CLI\)$", re.MULTILINE)


async def test_the_temporal_commands_run_and_resume_an_agent() -> None:
    (block,) = [block for block in blocks("console") if "temporal workflow" in block]
    commands = [shlex.split(line.removeprefix("$ ")) for line in block.splitlines()]
    async with dev_process() as where:
        env = {"TEMPORAL_ADDRESS": where["address"], "NO_COLOR": "1"}
        start, query, signal, result = [[temporal_command(), *command[1:]] for command in commands]
        await output(start, env)
        async with asyncio.timeout(60):
            while "waiting for a decision on refund" not in (status := await output(query, env)):
                await asyncio.sleep(0.1)
        assert "2-1" in status
        await output(signal, env)
        ended = json.loads(await output([*result, "--output", "json"], env))["result"]
    shown = json.loads(blocks("json")[0])
    assert {**ended, "run_id": "…", "response": "Done: …", "usage": shown["usage"], "spent": shown["spent"]} == shown
    assert shown["usage"].keys() <= ended["usage"].keys()
    assert shown["spent"].keys() == ended["spent"].keys()


async def output(command: list[str], env: dict[str, str] | None = None) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()
