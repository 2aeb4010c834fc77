"""The README tells the truth: its code is the example's, and its commands work as they stand."""

import asyncio
import json
import os
import re
import shlex
from pathlib import Path

from examples import quickstart
from tests.support.processes import ROOT, dev_process
from wakeful.connection import temporal_command

README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_code_shown_is_the_quickstart_example() -> None:
    assert Path(quickstart.__file__).read_text() in blocks("python")
    assert sorted(quickstart.registry.tools) == ["order", "stock"]


async def test_the_temporal_commands_run_and_resume_an_agent(tmp_path: Path) -> None:
    (block,) = [block for block in blocks("console") if "temporal workflow" in block]
    commands = [shlex.split(line.removeprefix("$ ")) for line in block.splitlines()]
    async with dev_process("--db", str(tmp_path / "wakeful.db")) as where:
        env = {**os.environ, "TEMPORAL_ADDRESS": where["address"], "NO_COLOR": "1"}
        start, query, signal, result = [[temporal_command(), *command[1:]] for command in commands]
        await output(start, env)
        async with asyncio.timeout(60):
            while "waiting for a decision on refund" not in (status := await output(query, env)):
                await asyncio.sleep(0.1)
        assert "2-1" in status
        await output(signal, env)
        ended = json.loads(await output([*result, "--output", "json"], env))["result"]
    shown = json.loads(blocks("json")[0])
    assert {**ended, "run_id": "…", "response": "Done: …", "usage": shown["usage"]} == shown


async def output(command: list[str], env: dict[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()
