"""A program of a user that cannot reach Temporal ends with the error, and exits as Python does."""

import asyncio
import os
import sys

import pytest

PROGRAM = "import asyncio, wakeful; asyncio.run(wakeful.connect())"


@pytest.mark.integration
async def test_a_program_that_cannot_connect_exits_and_does_not_abort() -> None:
    """With the SDK alone, about every second program aborts: the native thread needs the GIL once more."""
    for _ in range(8):
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM),
            env={**os.environ, "TEMPORAL_ADDRESS": "127.0.0.1:1"},
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            _, errors = await program.communicate()
        assert program.returncode == 1, errors.decode()
        assert errors.decode().splitlines()[-1].startswith("wakeful.contract.errors.ConnectionFailed: cannot reach")
