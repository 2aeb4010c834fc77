"""Run a script of a skill: a process without a shell, with a time limit, and without the worker's secrets."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

OUTPUT_LIMIT = 64 * 1024
"""Characters of a script's output that the model reads."""

ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")
"""The environment variables that scripts inherit from the worker: no keys or passwords."""


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
    try:
        async with asyncio.timeout(seconds):
            out, err = await process.communicate()
    except BaseException:  # it timed out, or the call was cancelled
        # The whole process group: processes that a script started may outlive it and hold its output open.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    return Ran(process.returncode or 0, _text(out), _text(err))


def _text(output: bytes) -> str:
    text = output.decode(errors="replace")
    return (
        text
        if len(text) <= OUTPUT_LIMIT
        else f"{text[:OUTPUT_LIMIT]}\n[output truncated: it has {len(text):,} characters]"
    )
