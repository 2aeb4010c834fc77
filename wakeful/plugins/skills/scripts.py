"""Run a script of a skill: a process without a shell, with a time limit, and without the worker's secrets."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SCRIPT_BYTES = 16 * 1024 * 1024
"""Bytes that a script may write to its output before it is killed."""
OUTPUT_LIMIT = 64 * 1024
"""Characters of a script's output that the model reads."""
_KEPT_BYTES = 4 * OUTPUT_LIMIT
"""Of which so many bytes are kept: a character has at most four."""
_CHUNK = 64 * 1024

ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")
"""The environment variables that scripts inherit from the worker: no keys or passwords."""


class TooMuchOutput(Exception):
    """A script writes more than is read."""


@dataclass(frozen=True)
class Ran:
    """How a script ended."""

    exit_code: int
    stdout: str
    stderr: str


async def run_script(script: Path, args: Sequence[str], *, directory: Path, seconds: float) -> Ran:
    """Run a script to its end: a Python file with the worker's Python, anything else as an executable.

    Raises:
        TimeoutError: it took too long; it was killed, with all processes that it started.
        TooMuchOutput: it wrote without end, and was killed in the same way.
        OSError: it cannot be started.
    """
    command = [sys.executable, str(script)] if script.suffix == ".py" else [str(script)]
    process = await asyncio.create_subprocess_exec(
        *command,
        *args,
        cwd=directory,
        env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(seconds):
            async with asyncio.TaskGroup() as reading:
                out = reading.create_task(_read(process.stdout))
                err = reading.create_task(_read(process.stderr))
            await process.wait()
    except BaseException as error:  # it timed out, wrote too much, or the call was cancelled
        # The whole process group: processes that a script started may outlive it and hold its output open.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # Else `wait` would wait for the end of outputs that are not read any more, or that another process holds open.
        process._transport.close()  # type: ignore[attr-defined]  # asyncio has no public way
        await process.wait()
        if isinstance(error, ExceptionGroup) and (too_much := error.subgroup(TooMuchOutput)) is not None:
            raise too_much.exceptions[0] from None
        raise
    return Ran(process.returncode or 0, out.result(), err.result())


async def _read(stream: asyncio.StreamReader) -> str:
    """The beginning of an output, which is read to its end.

    Raises:
        TooMuchOutput: it has none in sight.
    """
    kept, size = bytearray(), 0
    while chunk := await stream.read(_CHUNK):
        size += len(chunk)
        if size > SCRIPT_BYTES:
            raise TooMuchOutput(f"it wrote more than {SCRIPT_BYTES:,} bytes")
        kept += chunk[: max(0, _KEPT_BYTES - len(kept))]
    text = kept.decode(errors="replace")
    if len(text) <= OUTPUT_LIMIT and size == len(kept):
        return text
    return f"{text[:OUTPUT_LIMIT]}\n[output truncated: it has {size:,} bytes]"
