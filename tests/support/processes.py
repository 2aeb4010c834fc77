"""Our own programs in processes of their own, which tests read, stop and kill."""

import asyncio
import contextlib
import fcntl
import importlib
import json
import multiprocessing
import os
import pkgutil
import signal
import sys
import tempfile
import termios
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
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
    [
        "wakeful.history.reader",
        "wakeful.worker",
        *(module.name for module in pkgutil.walk_packages(cli.__path__, "wakeful.cli.")),
    ]
)


async def wakeful(*args: str, address: str | None = None, stdin: str = "", **environ: str) -> Ran:
    """Run the `wakeful` command to its end, in a process of its own."""
    env = {**os.environ, **({"TEMPORAL_ADDRESS": address} if address else {}), **environ}
    with tempfile.TemporaryDirectory() as folder:
        given, out, err = Path(folder, "in"), Path(folder, "out"), Path(folder, "err")
        given.write_text(stdin)
        process = _forks.Process(target=_command, args=(args, env, given, out, err))
        await asyncio.to_thread(process.start)  # the first one waits for the imports
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
    _become_wakeful(args, env)


def _become_wakeful(args: tuple[str, ...], env: Mapping[str, str], cwd: Path = ROOT) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = ["wakeful", *args]
    importlib.import_module("wakeful.cli.app").main()


class Program:
    """`wakeful` in a process of its own while it runs; tests use it as they use `asyncio.subprocess.Process`."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None

    @classmethod
    async def start(cls, args: tuple[str, ...], env: Mapping[str, str], *files: int, cwd: Path = ROOT) -> "Program":
        """Start it with these files as its standard ones, which are closed here."""
        given: tuple[Connection, ...] = tuple(
            map(Connection, files)
        )  # so that the multiprocessing module passes them on
        process = _forks.Process(target=_program, args=(args, dict(env), given, cwd))
        try:
            await asyncio.to_thread(process.start)  # the first one waits for the imports
        finally:
            for file in given:
                file.close()
        return cls(process)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        if (code := self.returncode) is None:
            loop.add_reader(self._process.sentinel, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(self._process.sentinel)
            self._process.join()
            code = self._process.exitcode
        assert code is not None
        return code

    async def communicate(self) -> tuple[bytes, bytes]:
        """The rest of its output and of its errors, until it has ended."""
        out, err = [await stream.read() if stream else b"" for stream in (self.stdout, self.stderr)]
        await self.wait()
        return out, err


def _program(args: tuple[str, ...], env: dict[str, str], files: tuple[Connection, ...], cwd: Path) -> None:
    for descriptor, file in enumerate(files):
        os.dup2(file.fileno(), descriptor)
        file.close()
    if os.isatty(0):  # make it the controlling terminal, so that Ctrl-C sends a signal
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    # As a new interpreter opens them: the process from which this one was forked has others.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for as long as the process runs
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    _become_wakeful(args, env, cwd)


@contextlib.asynccontextmanager
async def running(
    *args: str,
    address: str | None = None,
    errors: int = asyncio.subprocess.DEVNULL,
    environ: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
) -> AsyncIterator[Program]:
    """The `wakeful` command while the body runs, which reads its output. It is killed in the end, if it still runs.

    Args:
        errors: `PIPE`, if the body reads its errors, too.
    """
    env = {**os.environ, **({"TEMPORAL_ADDRESS": address} if address else {}), **(environ or {})}
    async with contextlib.AsyncExitStack() as pipes:
        stdout, out = await _pipe(pipes)
        stderr, err = await _pipe(pipes) if errors == asyncio.subprocess.PIPE else (None, _null())
        program = await Program.start(args, env, _null(), out, err, cwd=cwd)
        program.stdout, program.stderr = stdout, stderr
        try:
            yield program
        finally:
            program.kill()
            await program.wait()


async def _pipe(pipes: contextlib.AsyncExitStack) -> tuple[asyncio.StreamReader, int]:
    """A pipe: what it is read from, and the file to write to."""
    read, write = os.pipe()
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read, "rb", 0))
    pipes.callback(transport.close)
    return reader, write


def _null() -> int:
    return os.open(os.devnull, os.O_RDWR)


@contextlib.asynccontextmanager
async def worker_process(
    address: str,
    task_queue: str,
    journal: Path,
    *options: str,
    app: str = "tests.support.app:registry",
    errors: int = asyncio.subprocess.DEVNULL,
) -> AsyncIterator[Program]:
    """A worker for the tests' agents, in a process of its own. It is killed in the end, if it still runs."""
    command = ("worker", "--app", app, "--address", address, "--task-queue", task_queue, *options)
    async with running(*command, errors=errors, environ={JOURNAL: str(journal)}) as worker:
        assert worker.stdout is not None
        async with asyncio.timeout(60):
            assert b"task queue" in await worker.stdout.readline()
        yield worker


@contextlib.asynccontextmanager
async def dev_process(*args: str, cwd: Path = ROOT) -> AsyncIterator[dict[str, str]]:
    """`wakeful dev` on free ports; yields its addresses, and stops it with Ctrl-C, which must end it cleanly."""
    command = ("dev", "--json", "--port", "0", "--ui-port", "0", *args)
    async with running(*command, cwd=cwd) as dev:
        assert dev.stdout is not None
        try:
            async with asyncio.timeout(60):
                where: dict[str, str] = json.loads(await dev.stdout.readline())
            yield where
        finally:
            # Also after a failure: if it were killed, its server would stay.
            dev.send_signal(signal.SIGINT)
            async with asyncio.timeout(60):
                code = await dev.wait()
    assert code == 0


async def kill(process: asyncio.subprocess.Process | Program) -> None:
    """kill -9."""
    process.send_signal(signal.SIGKILL)
    await process.wait()
