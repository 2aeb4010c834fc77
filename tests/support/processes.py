"""Our own programs in processes of their own, which tests read, stop and kill."""

import asyncio
import contextlib
import importlib
import json
import multiprocessing
import os
import pkgutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.app import JOURNAL
from wakeful import cli

ROOT = Path(__file__).parents[2]
WAKEFUL = str(Path(sys.executable).parent / "wakeful")


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


# Imports take longer than most commands: one process imports everything, and commands are forked off it.
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(
    ["wakeful.history.reader", *(module.name for module in pkgutil.walk_packages(cli.__path__, "wakeful.cli."))]
)


async def wakeful(*args: str, address: str | None = None, stdin: str = "", **environ: str) -> Ran:
    """Run the `wakeful` command to its end, in a process of its own."""
    env = {**os.environ, **({"TEMPORAL_ADDRESS": address} if address else {}), **environ}
    with tempfile.TemporaryDirectory() as folder:
        given, out, err = Path(folder, "in"), Path(folder, "out"), Path(folder, "err")
        given.write_text(stdin)
        process = _forks.Process(target=_command, args=(args, env, given, out, err))
        process.start()
        try:
            await asyncio.to_thread(process.join, 90)
            assert process.exitcode is not None, f"wakeful {' '.join(args)} takes too long: {err.read_text()}"
        finally:
            process.kill()
        return Ran(process.exitcode, out.read_text(), err.read_text())


def _command(args: tuple[str, ...], env: dict[str, str], given: Path, out: Path, err: Path) -> None:
    """Run the program behind `wakeful`, with files instead of pipes."""
    sys.stdin = given.open()
    for descriptor, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(ROOT)
    sys.argv = ["wakeful", *args]
    importlib.import_module("wakeful.cli.app").main()


@contextlib.asynccontextmanager
async def worker_process(
    address: str,
    task_queue: str,
    journal: Path,
    *options: str,
    app: str = "tests.support.app:registry",
    errors: int = asyncio.subprocess.DEVNULL,
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker for the tests' agents, in a process of its own. It is killed in the end, if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "worker.py", "--app", app),
        *("--address", address, "--task-queue", task_queue, *options),
        cwd=ROOT,
        env={**os.environ, JOURNAL: str(journal)},
        stdout=asyncio.subprocess.PIPE,
        stderr=errors,
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
async def dev_process(*args: str, cwd: Path = ROOT) -> AsyncIterator[dict[str, str]]:
    """`wakeful dev` on free ports; yields its addresses, and stops it with Ctrl-C, which must end it cleanly."""
    process = await asyncio.create_subprocess_exec(
        *(WAKEFUL, "dev", "--json", "--port", "0", "--ui-port", "0", *args), cwd=cwd, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            where: dict[str, str] = json.loads(await process.stdout.readline())
        yield where
    finally:
        # Also after a failure: if it were killed, its server would stay, and hold the pipe that `wait` waits for.
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(60):
            code = await process.wait()
    assert code == 0


async def kill(process: asyncio.subprocess.Process) -> None:
    """kill -9."""
    process.send_signal(signal.SIGKILL)
    await process.wait()
