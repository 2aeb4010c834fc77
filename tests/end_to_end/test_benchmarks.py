"""The benchmark runs from end to end, and its exact counts hold.

A step writes as many events as the hand-written workflow's, streaming adds nothing to history, and neither do watchers.
"""

import asyncio
import sys
from pathlib import Path

import pytest

from benchmarks.peers.catalog import PEERS
from benchmarks.plan import QUICK
from benchmarks.results import Results
from benchmarks.startup import MEASURED
from benchmarks.workload import BARE, WAKEFUL, WORKFLOW_STREAMS
from tests.support.processes import ROOT

pytestmark = pytest.mark.integration

TIMEOUT_SECONDS = 180


async def test_the_benchmark_runs_and_reports_which_targets_are_met(tmp_path: Path) -> None:
    picture = tmp_path / "history-bytes.svg"
    results, output = await _measured(tmp_path, "--only", "history", "--only", "stream", "--plot", str(picture))

    assert "met           events per step equal to bare" in output
    assert "met           history added by streaming 2,000 tokens: 0 bytes, 0 events" in output
    per_step = [_events_between(results, side, 5, 20) / 15 for side in (BARE, WAKEFUL)]
    assert per_step == [12, 12]
    assert picture.read_text().startswith("<svg")


async def test_history_is_the_same_with_no_watcher_and_with_fifty(tmp_path: Path) -> None:
    results, output = await _measured(tmp_path, "--only", "watching")

    assert "met           history equal with 0, 1, 50 watchers" in output
    assert "token lag p95 <= 500 ms, one watcher" in output
    wakeful, streams = results.watched_runs(WAKEFUL), results.watched_runs(WORKFLOW_STREAMS)
    assert len({(run.events, run.bytes) for [run] in wakeful.values()}) == 1
    viewed = [run.events for [run] in streams.values()]
    assert viewed == sorted(set(viewed))  # there each poll of a viewer is an update, which adds events
    assert {BARE, WAKEFUL} <= results.series["watching.lag_p95"].samples.keys()
    assert {BARE, WAKEFUL} == results.series["watching.visible"].samples.keys()


async def test_reading_from_history_is_measured_beside_a_query_of_a_worker(tmp_path: Path) -> None:
    results, output = await _measured(tmp_path, "--only", "reading")

    assert results.reading is not None
    assert len(results.reading.queried) == len(results.reading.first_read) == QUICK.repeat
    assert f"A query of a closed run of {QUICK.replay_steps} steps" in output
    assert "a run is read from history in <= 1.5x the time of a worker's query, both by replay: " in output


async def test_tracing_is_measured_beside_no_tracing(tmp_path: Path) -> None:
    results, output = await _measured(tmp_path, "--only", "tracing")

    assert results.tracing is not None
    assert len(results.tracing.on) == len(results.tracing.off) == QUICK.repeat
    assert "time per step with tracing <= 1.08x without: " in output


async def test_an_empty_cache_is_filled_from_archives_beside_every_history(tmp_path: Path) -> None:
    results, output = await _measured(tmp_path, "--only", "rebuild")

    assert results.rebuild is not None
    assert len(results.rebuild.archives) == len(results.rebuild.histories) == QUICK.repeat
    assert results.rebuild.executions > 1
    assert results.rebuild.segments > 1
    assert f"A conversation of {results.rebuild.messages} messages" in output


async def test_the_simulation_is_measured_beside_the_real_core(tmp_path: Path) -> None:
    results, output = await _measured(tmp_path, "--only", "simulation")

    assert results.simulation is not None
    assert len(results.simulation.run) == len(results.simulation.multiples) == QUICK.repeat
    assert f"The simulation: {QUICK.schedules} schedules" in output


async def test_an_idle_fleet_makes_only_the_calls_of_the_sweep(tmp_path: Path) -> None:
    results, output = await _measured(tmp_path, "--only", "fleet")

    assert {call for fleet in results.idle_fleets for call in fleet.calls} <= {
        "describe_task_queue",
        "list_workflow_executions",
    }
    assert [fleet.workers for fleet in results.idle_fleets] == [*QUICK.fleets]
    assert results.recovery is not None
    assert len(results.recovery.sleeping) + len(results.recovery.in_progress) == QUICK.runs_per_kill
    assert "calls of an idle fleet <= 1 per second: " in output


async def test_the_start_of_commands_is_measured_beside_python_and_the_sdk(tmp_path: Path) -> None:
    results, output = await _measured(tmp_path, "--only", "startup")

    assert [startup.command for startup in results.startups] == [*MEASURED]
    assert all(len(startup.seconds) == QUICK.starts for startup in results.startups)
    assert "CPU of wakeful --help <= 0.35 s: " in output
    assert "CPU of wakeful status, before its first RPC <= 0.8 s: " in output


async def test_the_comparison_of_plugins_skips_those_that_are_not_installed() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.peers", "--steps", "2", "--repeat", "1"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(TIMEOUT_SECONDS):
        output, progress = await process.communicate()

    assert process.returncode == 0
    rows = [row.split("  ")[0] for row in output.decode().splitlines()]
    assert {BARE, WAKEFUL} <= {*rows}
    for peer in PEERS:
        assert (peer.name in rows) != (f"{peer.name}: skipped" in progress.decode())


async def _measured(tmp_path: Path, *options: str) -> tuple[Results, str]:
    """The results and the output of a quick benchmark with these options."""
    out = tmp_path / "results.json"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks", "--quick", "--out", str(out), *options),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    async with asyncio.timeout(TIMEOUT_SECONDS):
        output, _ = await process.communicate()
    assert process.returncode == 0
    return Results.model_validate_json(out.read_text()), output.decode()


def _events_between(results: Results, side: str, fewer: int, more: int) -> int:
    events = {point.steps: point.events for point in results.points(side, 1024)}
    return events[more] - events[fewer]
