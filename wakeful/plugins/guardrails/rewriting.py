"""Replace what a regular expression matches, within a time limit.

The linear engine finds matches and replaces none. Python's engine replaces them, but may backtrack for hours, and
nothing in its process runs meanwhile: so it works in a process of its own, which can be killed.
"""

import asyncio
import contextlib
import json
import sys

SECONDS = 5.0
"""How long one replacement may take, the start of its process included."""

_PROGRAM = "import json, re, sys; json.dump(re.subn(*json.load(sys.stdin)), sys.stdout)"


async def replaced(pattern: str, replacement: str, text: str) -> tuple[str, int]:
    """The text with every match replaced, and the number of matches.

    Raises:
        TimeoutError: it took too long.
        ChildProcessError: the process ended without a result.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", _PROGRAM, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(SECONDS):
            written, _ = await process.communicate(json.dumps([pattern, replacement, text]).encode())
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            process.kill()
        await process.wait()
    if process.returncode:
        raise ChildProcessError(f"the replacement of {pattern!r} ended with exit code {process.returncode}")
    new, count = json.loads(written)
    return new, count
