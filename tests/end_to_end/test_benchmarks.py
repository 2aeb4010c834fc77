"""The benchmark runs from end to end, and its exact counts hold.

A step writes as many events as the hand-written workflow's, streaming adds nothing to history, and neither do watchers.
"""

import asyncio
import sys
from pathlib import Path

import pytest

from benchmarks.figures import Results
from benchmarks.plan import QUICK
from benchmarks.sides import BARE, OURS, PEER
from benchmarks.startup import MEASURED
from tests.support.processes import ROOT

pytestmark = pytest.mark.integration

TIMEOUT_SECONDS = 180


async def test_the_benchmark_runs_and_reports_which_targets_are_met(tmp_path: Path) -> None:
    picture = tmp_path / "history-bytes.svg"
    results, said = await _measured(tmp_path, "--only", "history", "--only", "stream", "--plot", str(picture))

    assert "met           events a step equal to bare" in said
    assert "met           history added by streaming 2,000 tokens: 0 bytes, 0 events" in said
    a_step = [_events_between(results, side, 5, 20) / 15 for side in (BARE, OURS)]
    assert a_step == [12, 12]
    assert picture.read_text().startswith("<svg")


async def test_history_is_the_same_with_no_watcher_and_with_fifty(tmp_path: Path) -> None:
    results, said = await _measured(tmp_path, "--only", "watching")

    assert "met           history equal with 0, 1, 50 watchers" in said
    assert "token lag p95 <= 500 ms, one watcher" in said
    ours, peer = results.watched_runs(OURS), results.watched_runs(PEER)
    assert len({(run.events, run.bytes) for [run] in ours.values()}) == 1
    viewed = [run.events for [run] in peer.values()]
    assert viewed == sorted(set(viewed))  # where a poll is an update, each viewer writes
    assert {BARE, OURS} <= results.series["watching.lag_p95"].samples.keys()
    assert {BARE, OURS} == results.series["watching.visible"].samples.keys()


async def test_the_start_of_commands_is_measured_beside_python_and_the_sdk(tmp_path: Path) -> None:
    results, said = await _measured(tmp_path, "--only", "startup")

    assert [startup.command for startup in results.startups] == [*MEASURED]
    assert all(len(startup.seconds) == QUICK.starts for startup in results.startups)
    assert "CPU of wakeful --help <= 0.35 s: " in said
    assert "CPU of wakeful status, before its first RPC <= 0.8 s: " in said


async def _measured(tmp_path: Path, *options: str) -> tuple[Results, str]:
    """What a quick benchmark of so much has found, and what it said."""
    out = tmp_path / "results.json"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks", "--quick", "--out", str(out), *options),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    async with asyncio.timeout(TIMEOUT_SECONDS):
        said, _ = await process.communicate()
    assert process.returncode == 0
    return Results.model_validate_json(out.read_text()), said.decode()


def _events_between(results: Results, side: str, fewer: int, more: int) -> int:
    events = {point.steps: point.events for point in results.points(side, 1024)}
    return events[more] - events[fewer]
