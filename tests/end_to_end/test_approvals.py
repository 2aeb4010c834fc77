"""The approvals example does what its page says: only the right click counts, and it counts once."""

import asyncio
import sys

import pytest

from tests.support.processes import ROOT

pytestmark = pytest.mark.integration


async def test_the_webhook_demo_runs_from_end_to_end() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "examples/approvals/webhook.py", "--demo"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(90):
        out, err = await process.communicate()
    assert process.returncode == 0, out.decode() + err.decode()
    said = out.decode().splitlines()
    assert said[0].startswith("chat: assistant asks: Refund 249.00 EUR for order 1042?")
    assert [line.split(": ")[1].split()[0] for line in said[1:5]] == ["401", "401", "403", "409"]
    # Two clicks at once have one decision id: if both were handled when the first one asks, both are repeats.
    assert sum("200 applied" in line for line in said) <= 1
    assert any("200 applied" in line or "200 repeated" in line for line in said)
    assert said[-1].startswith('run: Done: {"refunded":249.0')
