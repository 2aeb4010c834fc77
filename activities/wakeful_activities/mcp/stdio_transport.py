"""A server as a subprocess, whose last words on stderr are kept: they say why it did not start.

Not the SDK's transport, which reads a line of any length into memory.
"""

import asyncio
import logging
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from wakeful.contract.limits import MESSAGE_BYTES

KEPT_LINES = 3
MAX_LINE = 64 * 1024
"""Bytes of a line on stderr."""

FLUSH_SECONDS = 0.5
"""How long messages that were sent may take to be written, before the connection ends."""
EXIT_SECONDS = 2.0
"""How long a server may take to end after its stdin is closed, and again after SIGTERM."""

_logger = logging.getLogger("wakeful")


class LineTooLong(Exception):
    """A server writes a message that is longer than any may be."""


class LastWords:
    """The newest lines that a server wrote to stderr, and why we have ended the connection, if we have."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.problem: str | None = None

    def __str__(self) -> str:
        return " / ".join(self.lines)


@asynccontextmanager
async def stdio_transport(
    command: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None,
    *,
    last_words: LastWords,
    clean: Callable[[str], str],
) -> AsyncIterator[TransportStreams]:
    """A connection to the program, which ends with it.

    Args:
        clean: removes secrets from what the server writes to stderr.
    """
    readable, writable = os.pipe()
    reading_errors = asyncio.create_task(_read_lines(readable, last_words, clean))
    try:
        with os.fdopen(writable, "w") as errors:
            process = await asyncio.create_subprocess_exec(
                *command,
                env=get_default_environment() | dict(env),
                cwd=cwd,
                stdin=PIPE,
                stdout=PIPE,
                stderr=errors,
                limit=MESSAGE_BYTES,
                start_new_session=True,
            )
            errors.close()  # only the server writes: its end ends the pipe
            async with _streams(process, last_words) as streams:
                yield streams
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(reading_errors), 0.5)  # what it wrote just before it ended
    finally:
        reading_errors.cancel()
    if last_words.problem is not None:
        raise LineTooLong(last_words.problem)


@asynccontextmanager
async def _streams(process: Process, last_words: LastWords) -> AsyncIterator[TransportStreams]:
    """The messages from and to a process, which is stopped in the end."""
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    reading = asyncio.create_task(_receive(process, incoming, last_words))
    writing = asyncio.create_task(_send(process, outgoing, incoming))
    try:
        yield read, write
    finally:
        stopping = asyncio.create_task(_stop(process, reading, writing, read, write))
        cancelled: asyncio.CancelledError | None = None
        while not stopping.done():
            try:
                await asyncio.wait({stopping})
            except asyncio.CancelledError as error:  # it waits, too: else the process would be left behind
                cancelled = error
        if cancelled is not None:
            raise cancelled


async def _receive(
    process: Process, incoming: MemoryObjectSendStream[SessionMessage | Exception], last_words: LastWords
) -> None:
    assert process.stdout is not None
    async with incoming:
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:
                last_words.problem = f"it wrote a line of more than {MESSAGE_BYTES:,} bytes, and was stopped"
                _kill(process, signal.SIGKILL)
                return
            if not line:
                return
            try:
                await incoming.send(_parsed(line))
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):  # the connection is being closed
                return


def _parsed(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _send(
    process: Process,
    outgoing: MemoryObjectReceiveStream[SessionMessage],
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    assert process.stdin is not None
    async with outgoing:
        async for message in outgoing:
            try:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(f"{text}\n".encode())
                await process.stdin.drain()
            except OSError:
                await incoming.aclose()  # the session notices that the connection has ended
                return


async def _stop(
    process: Process,
    reading: "asyncio.Task[None]",
    writing: "asyncio.Task[None]",
    read: MemoryObjectReceiveStream[SessionMessage | Exception],
    write: MemoryObjectSendStream[SessionMessage],
) -> None:
    """Close stdin, and end the process with all that it has started: politely at first."""
    assert process.stdin is not None
    read.close()
    write.close()
    await asyncio.wait({writing}, timeout=FLUSH_SECONDS)
    process.stdin.close()
    # A server that writes without reading would never see that its stdin is closed.
    discarding = asyncio.create_task(_discard(process, reading))
    ended = asyncio.create_task(_exited(process))
    for polite in (None, signal.SIGTERM, signal.SIGKILL):
        if polite is not None:
            _kill(process, polite)
        if (await asyncio.wait({ended}, timeout=EXIT_SECONDS))[0]:
            break
    _kill(process, signal.SIGKILL)  # what it has started, and left behind
    for task in (discarding, ended, reading, writing):
        task.cancel()
    await asyncio.wait({discarding, ended, reading, writing})
    process._transport.close()  # type: ignore[attr-defined]  # a process that outlives the kill may hold its pipes


async def _discard(process: Process, reading: "asyncio.Task[None]") -> None:
    assert process.stdout is not None
    await asyncio.wait({reading})
    while await process.stdout.read(MAX_LINE):
        pass


async def _exited(process: Process) -> None:
    # Not `wait`, which also waits for the end of pipes that a child of the server may hold.
    while process.returncode is None:  # noqa: ASYNC110  # asyncio tells of the exit in no other way
        await asyncio.sleep(0.01)


def _kill(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


async def _read_lines(readable: int, last_words: LastWords, clean: Callable[[str], str]) -> None:
    reader = asyncio.StreamReader(limit=MAX_LINE)
    loop = asyncio.get_running_loop()
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(readable, "rb"))
    try:
        while True:
            try:
                line = await reader.readline()
            except ValueError:  # a line that is longer than the limit is left out
                continue
            if not line:
                return
            if text := clean(line.decode(errors="replace").strip()):
                last_words.lines.append(text)
                _logger.debug("an MCP server wrote to stderr", extra={"text": text})
    finally:
        pipe.close()
