"""Our own programs as processes of their own: to be read, stopped and killed."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.app import JOURNAL

ROOT = Path(__file__).parents[2]
WAKEFUL = str(Path(sys.executable).parent / "wakeful")


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


async def wakeful(*args: str, address: str | None = None) -> Ran:
    """Run the `wakeful` command to its end."""
    env = {**os.environ, **({"TEMPORAL_ADDRESS": address} if address else {})}
    process = await asyncio.create_subprocess_exec(
        WAKEFUL, *args, env=env, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(90):
        out, err = await process.communicate()
    return Ran(process.returncode or 0, out.decode(), err.decode())


@contextlib.asynccontextmanager
async def worker_process(
    address: str, task_queue: str, journal: Path, *options: str, app: str = "tests.support.app:registry"
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker for the tests' agents, in a process of its own. It is killed in the end, if it is still there."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "worker.py", "--app", app),
        *("--address", address, "--task-queue", task_queue, *options),
        cwd=ROOT,
        env={**os.environ, JOURNAL: str(journal)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        assert b"task queue" in await process.stdout.readline()
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@contextlib.asynccontextmanager
async def dev_process(*args: str) -> AsyncIterator[dict[str, str]]:
    """`wakeful dev` on free ports; gives where it is, and stops it with Ctrl-C, which must end it cleanly."""
    process = await asyncio.create_subprocess_exec(
        *(WAKEFUL, "dev", "--json", "--port", "0", "--ui-port", "0", *args), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            where: dict[str, str] = json.loads(await process.stdout.readline())
        yield where
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(60):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def kill(process: asyncio.subprocess.Process) -> None:
    """kill -9."""
    process.send_signal(signal.SIGKILL)
    await process.wait()
