"""`python -m benchmarks.peers`: run the workload on every installed plugin, bare and Wakeful, and print the ratios."""

import argparse
import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from temporalio.client import Client, WorkflowFailureError, WorkflowHistoryEventFilterType

from benchmarks.environment import BareSide, Environment, Side, child_process, environment
from benchmarks.peers.catalog import PEERS
from benchmarks.peers.worker import SANDBOXED
from benchmarks.plan import KB
from benchmarks.report import MISSING, table
from benchmarks.results import this_machine
from benchmarks.sampling import OtherLoad, cpu_seconds, interleaved, progress
from benchmarks.workload import BARE, Work
from wakeful.cli.process import run_and_leave

MB = KB * KB


@dataclass(frozen=True)
class Cost:
    """Seconds of one run; the CPU times are 0 where they are not known."""

    time: float
    worker_cpu: float
    server_cpu: float


@dataclass
class Measured:
    """One side: the costs of its runs without steps and with steps, and the history of the last one."""

    without: list[Cost] = field(default_factory=list)
    with_steps: list[Cost] = field(default_factory=list)
    events: int = 0
    bytes: int = 0
    executions: int = 0
    failure: str = ""
    """Why its run did not finish; the side is not measured further."""


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description="Measure other agent plugins for Temporal and Wakeful against a hand-written workflow.",
    )
    parser.add_argument("--steps", type=int, default=20, help="steps per run (default: 20)")
    parser.add_argument("--size", type=int, default=KB, help="bytes per tool result (default: 1024)")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="runs per side (default: 3)")
    parser.add_argument("--sandbox", action="store_true", help="run bare and the plugins in the SDK's default sandbox")
    parser.add_argument("--timeout", type=float, default=600, metavar="SECONDS", help="per run (default: 600)")
    parsed = parser.parse_args(argv)
    if parsed.steps < 1 or parsed.repeat < 1:
        parser.error("--steps and --repeat must be at least 1")
    return parsed


async def compare(options: argparse.Namespace) -> str:
    async with environment(sandboxed=options.sandbox) as env, _peer_sides(env, options.sandbox) as peers:
        sides = (*env.sides, env.whole, *peers)
        load = OtherLoad([env.server_pid, *{side.pid for side in sides}])
        measured = {side.name: Measured() for side in sides}
        for side in peers:
            progress(f"{side.name}: warm-up")
            _id, measured[side.name].failure = await _run(env, side, Work(3, 100), options.timeout)
        for repeat in range(options.repeat):
            for side in interleaved(sides, repeat):
                if not measured[side.name].failure:
                    progress(f"{side.name}: {options.steps} steps, {repeat + 1} of {options.repeat}")
                    await _measure(env, side, options, measured[side.name])
        return _report(options, measured, load.cores())


@contextlib.asynccontextmanager
async def _peer_sides(env: Environment, sandboxed: bool) -> AsyncIterator[list[Side]]:
    """The installed plugins, with one worker process per plugin."""
    async with contextlib.AsyncExitStack() as stack:
        sides: list[Side] = []
        pids: dict[str, int] = {}
        options = [SANDBOXED] if sandboxed else []
        for peer in PEERS:
            if peer.missing:
                missing = ", ".join(peer.missing)
                progress(f"{peer.name}: skipped, not installed: {missing} (see benchmarks/peers/requirements.txt)")
                continue
            if peer.module not in pids:
                started = child_process("benchmarks.peers.worker", peer.module, env.address, *options)
                pids[peer.module], _output = await stack.enter_async_context(started)
            sides.append(
                BareSide(env.client, pids[peer.module], peer.name, workflow=peer.workflow, task_queue=peer.module)
            )
        yield sides


async def _measure(env: Environment, side: Side, options: argparse.Namespace, measured: Measured) -> None:
    for steps, costs in ((0, measured.without), (options.steps, measured.with_steps)):
        before = _clocks(env, side)
        id, measured.failure = await _run(env, side, Work(steps, options.size, side.tool), options.timeout)
        time, worker_cpu, server_cpu = (end - start for start, end in zip(before, _clocks(env, side), strict=True))
        measured.events, measured.bytes, measured.executions = await _history(env.client, id)
        if measured.failure:
            return
        costs.append(Cost(time, worker_cpu, server_cpu))


def _clocks(env: Environment, side: Side) -> tuple[float, float, float]:
    return time.perf_counter(), cpu_seconds(side.pid) or 0.0, cpu_seconds(env.server_pid) or 0.0


async def _run(env: Environment, side: Side, work: Work, seconds: float) -> tuple[str, str]:
    """Run the workload; gives the run's id, and why it failed if it did."""
    id = await side.start(work)
    handle = env.client.get_workflow_handle(id)
    try:
        async with asyncio.timeout(seconds):
            await side.result(id)
    except TimeoutError:
        await handle.terminate()
        return id, f"not finished after {seconds:.0f} s"
    except WorkflowFailureError as error:
        async for event in handle.fetch_history_events(event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT):
            if reason := event.workflow_execution_terminated_event_attributes.reason:
                return id, f"terminated: {reason}"
        return id, str(error.cause)
    return id, ""


async def _history(client: Client, id: str) -> tuple[int, int, int]:
    """Events, bytes and executions of a run, as the server counts them."""
    events = size = executions = 0
    run_id: str | None = None
    while run_id != "":
        handle = client.get_workflow_handle(id, run_id=run_id)
        info = (await handle.describe()).raw_description.workflow_execution_info
        events, size, executions = events + info.history_length, size + info.history_size_bytes, executions + 1
        async for event in handle.fetch_history_events(page_size=1):
            run_id = event.workflow_execution_started_event_attributes.continued_execution_run_id
            break
    return events, size, executions


def _report(options: argparse.Namespace, measured: dict[str, Measured], load: float | None) -> str:
    machine = this_machine(bare_sandboxed=options.sandbox)
    versions = dict.fromkeys(peer.versions for peer in PEERS if not peer.missing)
    bare = measured[BARE]
    lines = [
        f"Python {machine.python}, temporalio {machine.temporalio}, {machine.system}, {machine.cores} cores, "
        f"{MISSING if load is None else load} of them used by other processes meanwhile",
        *versions,
        "",
        f"{options.steps} steps with results of {options.size:,} bytes, best of {options.repeat}; "
        f"time and CPU per step; ratios to bare{', which is sandboxed as the plugins are' if options.sandbox else ''}",
        "",
        *table(
            ["", "time", "worker CPU", "server CPU", "history", "", "events", "executions"],
            [_row(name, side, bare, options.steps) for name, side in measured.items()],
        ),
    ]
    failures = [f"{name}: {side.failure}" for name, side in measured.items() if side.failure]
    return "\n".join([*lines, *(["", *failures] if failures else [])])


def _row(name: str, side: Measured, bare: Measured, steps: int) -> list[str]:
    costs = ["failed"] * 3 if side.failure else [_per_step(side, bare, steps, of) for of in _COSTS]
    size = f"{side.bytes / MB:.2f} MB" if side.bytes >= MB else f"{side.bytes / KB:.0f} KB"
    return [name, *costs, size, f"{side.bytes / bare.bytes:.2f}x", f"{side.events:,}", f"{side.executions}"]


_COSTS: tuple[Callable[[Cost], float], ...] = (
    lambda cost: cost.time,
    lambda cost: cost.worker_cpu,
    lambda cost: cost.server_cpu,
)


def _per_step(side: Measured, bare: Measured, steps: int, of: Callable[[Cost], float]) -> str:
    """Milliseconds for bare, a ratio for other sides. The best run counts: other load can only add to a cost."""
    values = [
        (min(map(of, measured.with_steps)) - min(map(of, measured.without))) * 1000 / steps for measured in (side, bare)
    ]
    if side is bare:
        return f"{values[1]:.1f} ms"
    return f"{values[0] / values[1]:.2f}x" if values[1] else MISSING


def main() -> None:
    print(asyncio.run(compare(arguments())))


if __name__ == "__main__":
    run_and_leave(main, name="benchmarks.peers")
