"""Run a script of a skill: a program with arguments and no shell, with a time limit and without our secrets."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

OUTPUT_LIMIT = 64 * 1024
"""Characters of what a script says that a model is given."""

PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")
"""What scripts see of the worker's environment; keys and passwords are not among it."""


@dataclass(frozen=True)
class Ran:
    """How a script ended."""

    exit_code: int
    stdout: str
    stderr: str


async def run_script(script: Path, args: Sequence[str], *, directory: Path, seconds: float) -> Ran:
    """Run a script to its end: a Python file with the worker's Python, anything else as the program it is.

    Raises:
        TimeoutError: it took too long; it and what it started are killed.
        OSError: it cannot be started.
    """
    command = [sys.executable, str(script)] if script.suffix == ".py" else [str(script)]
    process = await asyncio.create_subprocess_exec(
        *command,
        *args,
        cwd=directory,
        env={name: os.environ[name] for name in PASSED_ON if name in os.environ},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds):
            out, err = await process.communicate()
    except BaseException:  # too slow, or the call is cancelled
        # The whole group: what a script started may outlive it, and hold its output open.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    return Ran(process.returncode or 0, _shown(out), _shown(err))


def _shown(output: bytes) -> str:
    text = output.decode(errors="replace")
    return text if len(text) <= OUTPUT_LIMIT else f"{text[:OUTPUT_LIMIT]}\n[cut: it has {len(text):,} characters]"
