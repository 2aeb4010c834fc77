"""The benchmark runs from end to end, and what it counts exactly holds: a step costs as many events as bare,
and an answer that streams in leaves no more than one that comes as a whole."""

import asyncio
import sys
from pathlib import Path

from benchmarks.figures import Results
from benchmarks.sides import BARE, OURS
from tests.support.processes import ROOT


async def test_the_benchmark_runs_and_says_which_targets_are_met(tmp_path: Path) -> None:
    out, picture = tmp_path / "results.json", tmp_path / "history-bytes.svg"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks", "--quick", "--only", "history", "--only", "stream"),
        *("--out", str(out), "--plot", str(picture)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    async with asyncio.timeout(90):
        said, _ = await process.communicate()

    assert process.returncode == 0
    assert "met           events a step equal to bare" in said.decode()
    assert "met           history added by streaming 2,000 tokens: 0 bytes, 0 events" in said.decode()
    results = Results.model_validate_json(out.read_text())
    a_step = [_events_between(results, side, 5, 20) / 15 for side in (BARE, OURS)]
    assert a_step == [12, 12]
    assert picture.read_text().startswith("<svg")


def _events_between(results: Results, side: str, fewer: int, more: int) -> int:
    events = {point.steps: point.events for point in results.points(side, 1024)}
    return events[more] - events[fewer]
