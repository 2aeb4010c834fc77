"""A server as a subprocess, whose last words on stderr are kept: they say why it did not start."""

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from mcp.client._transport import TransportStreams
from mcp.client.stdio import StdioServerParameters, stdio_client

KEPT_LINES = 3
MAX_LINE = 64 * 1024

_logger = logging.getLogger("wakeful")


class LastWords:
    """The newest lines that a server wrote to stderr."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)

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
    program = StdioServerParameters(command=command[0], args=list(command[1:]), env=dict(env), cwd=cwd)
    readable, writable = os.pipe()
    reading = asyncio.create_task(_read_lines(readable, last_words, clean))
    try:
        with os.fdopen(writable, "w") as errors:
            async with stdio_client(program, errlog=errors) as streams:
                errors.close()  # only the server writes: its end ends the pipe
                yield streams
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(reading), 0.5)  # what it wrote just before it ended
    finally:
        reading.cancel()


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
