"""A reader who follows a page: saves its files, runs its commands, and compares what they print."""

import asyncio
import contextlib
import os
import re
import shlex
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

from tests.support.page import Block, Command, save
from tests.support.processes import Program, running, wakeful
from tests.support.terminal import terminal
from tests.support.waiting import BOUND_SECONDS
from wakeful.connection import temporal_command

KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY")
SERVER, WEB_UI, _ = PORTS = ("7233", "8233", "9000")
"""The ports on the page; the reader takes free ones instead."""
EXPORT = re.compile(r"export TEMPORAL_ADDRESS=\S+\n\s*")
"""What `wakeful dev` prints in addition on a port that is not the default one."""
READING = {"inbox", "show", "status", "curl"}
"""A person types these a moment after something has happened; the reader tries again until it has."""


class Reader:
    """Follows a page block by block, in a folder. Programs that keep running have a terminal each."""

    def __init__(self, folder: Path, terminals: contextlib.AsyncExitStack) -> None:
        self._folder = folder
        self._ports = dict(zip(PORTS, _free_ports(len(PORTS)), strict=True))
        self._address = f"localhost:{self._ports[SERVER]}"
        self._env = {
            **dict.fromkeys(KEYS, ""),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TEMPORAL_ADDRESS": self._address,
        }
        self._terminals = terminals
        self._running: dict[str, contextlib.AsyncExitStack] = {}
        self._newest: Command | None = None

    async def follow(self, block: Block) -> None:
        """Do what the block says. If the prose before it says "start it again", restart the newest program first."""
        if "start it again" in block.before:
            assert self._newest is not None
            await self._start(self._newest)
        match block.language:
            case "console":
                for command in block.commands:
                    await self._type(command)
            case "python" | "diff" | "ini":
                save(block, self._folder)
            case _:
                pass  # shown, not run

    async def _type(self, command: Command) -> None:
        match shlex.split(command.line):
            case ["wakeful", "dev" | "worker", *_] | ["temporal", *_]:
                await self._start(command)
            case ["wakeful", "run" | "watch", *_] as typed:
                async with terminal(*typed[1:], out=None, **self._env) as seen:
                    await seen.until(lambda seen: command.has_printed(seen.text))
                    assert await seen.ended() == 0
            case typed:
                printed, until = await self._printed(typed), time.monotonic() + BOUND_SECONDS
                while READING.intersection(typed[:2]) and not command.has_printed(printed) and time.monotonic() < until:
                    printed = await self._printed(typed)
                assert command.has_printed(printed), f"$ {command.line}\n{printed}"

    async def _start(self, command: Command) -> None:
        """Start a program that keeps running. Ctrl-C first ends the one in its place."""
        ports = ("--port", self._ports[SERVER], "--ui-port", self._ports[WEB_UI])
        match shlex.split(self._with_ports(command.line)):
            case ["wakeful", "dev", *options]:
                await self._open("server", self._wakeful("dev", *options, *ports), command)
            case ["wakeful", "worker", *options]:
                await self._open("worker", self._wakeful("worker", *options), command)
            case ["temporal", *options]:
                await self._open("server", self._temporal(*options, *ports), command)
            case _:
                raise AssertionError(f"the reader cannot start {command.line!r}")
        self._newest = command

    async def _open(
        self, name: str, program: contextlib.AbstractAsyncContextManager[asyncio.StreamReader], command: Command
    ) -> None:
        if name in self._running:
            await self._running[name].aclose()
        self._running[name] = await self._terminals.enter_async_context(contextlib.AsyncExitStack())
        output = await self._running[name].enter_async_context(program)
        async with asyncio.timeout(BOUND_SECONDS):
            printed = [(await output.readline()).decode() for _ in command.prints.splitlines()]
            if EXPORT.search("".join(printed)):
                printed.append((await output.readline()).decode())
        assert command.has_printed(self._without_ports(EXPORT.sub("", "".join(printed)))), printed

    @contextlib.asynccontextmanager
    async def _wakeful(self, *arguments: str) -> AsyncIterator[asyncio.StreamReader]:
        async with running(*arguments, environ=self._env, cwd=self._folder) as program:
            assert program.stdout is not None
            try:
                yield program.stdout
            finally:
                await _press_ctrl_c(program)

    @contextlib.asynccontextmanager
    async def _temporal(self, *arguments: str) -> AsyncIterator[asyncio.StreamReader]:
        server = await asyncio.create_subprocess_exec(
            *(temporal_command(), *arguments),
            cwd=self._folder,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert server.stdout is not None
        try:
            async with asyncio.timeout(BOUND_SECONDS):
                while b"Temporal Server:" not in await server.stdout.readline():
                    pass
            yield server.stdout
        finally:
            await _press_ctrl_c(server)

    async def _printed(self, typed: list[str]) -> str:
        """What a command prints until it ends."""
        if typed[0] == "wakeful":
            ran = await wakeful(*typed[1:], address=self._address)
            return ran.out + ran.err
        process = await asyncio.create_subprocess_exec(
            *map(self._with_ports, typed),
            cwd=self._folder,
            env={**os.environ, **self._env},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(BOUND_SECONDS):
            out, _ = await process.communicate()
        return out.decode()

    def _with_ports(self, line: str) -> str:
        for shown, port in self._ports.items():
            line = line.replace(shown, port)
        return line

    def _without_ports(self, text: str) -> str:
        for shown, port in self._ports.items():
            text = text.replace(port, shown)
        return text


async def _press_ctrl_c(program: Program | asyncio.subprocess.Process) -> None:
    program.send_signal(signal.SIGINT)
    async with asyncio.timeout(BOUND_SECONDS):
        await program.wait()


def _free_ports(count: int) -> list[str]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [str(each.getsockname()[1]) for each in sockets]
