"""TypeScript tools and a client, from docs/foreign-tools.md and docs/foreign-clients.md alone: what the pages show.

It needs Node.js with npm, and installs Temporal's TypeScript SDK.
"""

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from tests.support.processes import ROOT, dev_process
from wakeful.client.client import Client
from wakeful.connection import Address, connect
from wakeful.contract.messages import Role

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not (shutil.which("node") and shutil.which("npm")), reason="needs Node.js 20 or newer, with npm"
    ),
]

TOOLS, CLIENTS = ((ROOT / f"docs/foreign-{page}.md").read_text() for page in ("tools", "clients"))
FILES = re.findall(r"```(?:python|typescript)\n((?:#|//) (\S+)\n.*?)```", TOOLS + CLIENTS, re.DOTALL)
COMMANDS = re.findall(r"^\$ (.*)$", TOOLS, re.MULTILINE)
(SHOWN,) = re.findall(r"^\$ npx tsx client\.ts\n(.*?)```", TOOLS, re.DOTALL | re.MULTILINE)

ODD_APP = '''
from wakeful import Agent, Registry, ScriptedModel, call, say, tool

ODD = ["undefined_", "bytes_", "half", "string_", "object_", "big", "long", "outcome", "missing"]

def odd(name):
    @tool(name=name, task_queue="odd", read_only=True)
    def declared() -> None:
        """Return or throw something odd."""
    return declared

calls = call(ODD[0])
for name in ODD[1:]:
    calls &= call(name)
clerk = Agent(id="clerk", tools=[odd(name) for name in ODD])
registry = Registry(agents=[clerk], models={"default": ScriptedModel([calls, say("done")])})
'''

ODD_TOOLS = """
import { NativeConnection, Worker } from '@temporalio/worker';

const activities = {
  undefined_: async () => undefined,
  bytes_: async () => new Uint8Array([137, 80, 78, 71]),
  half: async () => 'a smile: 😀'.slice(0, -1),
  string_: async () => { throw 'just a string'; },
  object_: async () => { throw { code: 7 }; },
  big: async () => ({ number: 7n }),
  long: async () => { throw new Error('x'.repeat(50_000)); },
  outcome: async () => ({ result: { tool_name: 'outcome', status: 'done', data: 7 } }),
};

async function main() {
  const connection = await NativeConnection.connect({ address: process.env.TEMPORAL_ADDRESS });
  await (await Worker.create({ connection, taskQueue: 'odd', activities })).run();
}

main();
"""


@pytest.fixture(scope="module")
async def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the pages, with what `npm install` brings."""
    folder = tmp_path_factory.mktemp("shop")
    for code, name in FILES:
        (folder / name).write_text(code)
    for command in COMMANDS:
        if command.startswith("npm install"):
            await output_of(folder, command)
    return folder


async def output_of(folder: Path, command: str, **env: str) -> str:
    """What a command prints until it ends, which must be well."""
    async with running(folder, command, env, stderr=asyncio.subprocess.PIPE) as process, asyncio.timeout(240):
        out, err = await process.communicate()
    assert process.returncode == 0, out.decode() + err.decode()
    return out.decode()


@contextlib.asynccontextmanager
async def running(
    folder: Path, command: str, env: Mapping[str, str], *, stderr: int = asyncio.subprocess.DEVNULL
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A command in the folder, which is killed in the end with the programs that it has started."""
    process = await asyncio.create_subprocess_exec(
        *shlex.split(command),
        cwd=folder,
        env={**os.environ, **env},
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def test_the_pages_have_an_app_tools_and_a_client() -> None:
    assert [name for _code, name in FILES] == ["app.py", "tools.ts", "test_clerk.py", "client.ts"]


async def test_an_agent_is_tested_with_stand_ins_for_its_tools(folder: Path) -> None:
    await output_of(folder, f"{sys.executable} test_clerk.py")


async def test_a_typescript_client_runs_an_agent_with_typescript_tools(folder: Path) -> None:
    options = next(command for command in COMMANDS if command.startswith("wakeful dev")).split()[2:]
    async with dev_process(*options, cwd=folder) as server:
        address = {"TEMPORAL_ADDRESS": server["address"]}
        async with running(folder, "npx tsx tools.ts", address):
            assert await output_of(folder, "npx tsx client.ts", **address) == SHOWN


async def test_the_typescript_of_the_pages_has_no_type_errors(folder: Path) -> None:
    options = "--noEmit --strict --skipLibCheck --target es2022 --module nodenext"
    await output_of(folder, f"npx tsc {options} tools.ts client.ts")


async def test_whatever_a_typescript_tool_returns_or_throws_the_model_reads_one_clear_line(folder: Path) -> None:
    (folder / "odd.py").write_text(ODD_APP)
    (folder / "odd.ts").write_text(ODD_TOOLS)
    async with dev_process("--app", "odd.py:registry", cwd=folder) as server:
        client = Client(await connect(Address(server["address"])))
        async with running(folder, "npx tsx odd.ts", {"TEMPORAL_ADDRESS": server["address"]}), asyncio.timeout(90):
            result = await client.run("clerk", "go")
            messages = await client.transcript(result.thread_id)
    read = [message.text for message in messages if message.role is Role.TOOL]
    unreadable = "The tool ran, but its result cannot be read:"
    beginnings = [
        "null",
        f"{unreadable} it is binary data of 4 bytes, and not JSON.",
        f"{unreadable} Invalid JSON: unexpected end of hex escape at line 1 column 17 (half a surrogate pair",
        "Execution failed: just a string",
        "Execution failed: Object: undefined",
        "Execution failed: ValueError: Unable to convert [object Object] to payload",
        "Execution failed: xxxxxxxxxx",
        f"{unreadable} result.status: Input should be 'success', 'pending' or 'error'.",
        "Execution failed: NotFoundError: Activity function missing is not registered on this Worker",
    ]
    assert [text[: len(begins)] for text, begins in zip(read, beginnings, strict=True)] == beginnings
    assert max(map(len, read)) == 10_000
