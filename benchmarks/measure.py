"""The measurements. Each interleaves the sides, repeat by repeat, so that all of them meet the same noise."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from benchmarks.environment import Environment, Side
from benchmarks.fleet import measure_fleet
from benchmarks.plan import KB, Plan
from benchmarks.reading import measure_reading
from benchmarks.rebuilding import measure_rebuild
from benchmarks.results import HistorySize, Results, Series
from benchmarks.sampling import OtherLoad, add_sample, cpu_seconds, interleaved, new_series, progress
from benchmarks.simulating import measure_simulation
from benchmarks.startup import measure_startup
from benchmarks.streams import measure_stream
from benchmarks.tracing import measure_tracing
from benchmarks.watching import measure_watching
from benchmarks.worker import BARE_WORKFLOWS
from wakeful_workflows import AgentRun, ThreadArchive

QUIET_CORES = 0.35
"""A sample counts as quiet if other processes used at most this much CPU meanwhile."""
TRIES = 3
"""Of a sample; the last one is kept even if it was not quiet."""


async def measure_step(env: Environment, plan: Plan, results: Results) -> None:
    """The cost of a run without steps, and what each step adds, with one run at a time."""
    start = _costs(results, "start", "of a run without steps")
    step = _costs(results, "step", "per step")
    for repeat in range(plan.repeat):
        for side in interleaved(env.sides, repeat):
            progress(f"step: {side.name}, {plan.step_steps} steps, {repeat + 1} of {plan.repeat}")
            fixed, whole = await _quiet_costs(env, side, steps=plan.step_steps)
            for series, cost in zip(start, fixed, strict=True):
                add_sample(series, side, cost)
            for series, cost in zip(step, _per_step(fixed, whole, plan.step_steps), strict=True):
                add_sample(series, side, cost)


async def measure_long(env: Environment, plan: Plan, results: Results) -> None:
    """The cost of a step in a long run, which shows whether it grows with the length of the run."""
    long = _costs(results, "long", f"per step, run of {plan.long_steps}")
    for repeat in range(min(plan.repeat, 2)):
        for side in interleaved(env.sides, repeat):
            progress(f"long: {side.name}, {plan.long_steps} steps, {repeat + 1}")
            fixed, whole = await _cost(env, side, steps=0), await _cost(env, side, steps=plan.long_steps)
            for series, cost in zip(long, _per_step(fixed, whole, plan.long_steps), strict=True):
                add_sample(series, side, cost)


Cost = tuple[float | None, float | None, float | None]
"""Wall time, worker CPU and server CPU, in milliseconds."""


def _costs(results: Results, key: str, of: str) -> tuple[Series, Series, Series]:
    return (
        new_series(results, f"{key}.time", f"time {of}", "ms"),
        new_series(results, f"{key}.worker_cpu", f"worker CPU {of}", "ms"),
        new_series(results, f"{key}.server_cpu", f"server CPU {of}", "ms"),
    )


async def _quiet_costs(env: Environment, side: Side, *, steps: int) -> tuple[Cost, Cost]:
    """Of a run without steps and of one with steps; measured again if other processes kept the machine busy."""
    for _ in range(TRIES):
        other_load = OtherLoad(env.pids)
        costs = await _cost(env, side, steps=0), await _cost(env, side, steps=steps)
        if (other_load.cores() or 0.0) <= QUIET_CORES:
            break
    return costs


async def _cost(env: Environment, side: Side, *, steps: int) -> Cost:
    before = time.perf_counter(), cpu_seconds(side.pid), cpu_seconds(env.server_pid)
    await env.run(side, steps=steps, size=KB)
    after = time.perf_counter(), cpu_seconds(side.pid), cpu_seconds(env.server_pid)
    wall, worker, server = (
        None if start is None or end is None else (end - start) * 1000 for start, end in zip(before, after, strict=True)
    )
    return wall, worker, server


def _per_step(fixed: Cost, whole: Cost, steps: int) -> Cost:
    wall, worker, server = (
        None if base is None or total is None else (total - base) / steps
        for base, total in zip(fixed, whole, strict=True)
    )
    return wall, worker, server


async def measure_history(env: Environment, plan: Plan, results: Results) -> None:
    """The events and bytes of histories. They are exact, so one sample is enough, and runs can be concurrent."""
    todo = [(side, steps, size) for size in plan.sizes for steps in plan.lengths for side in env.sides]
    todo += [(env.whole, steps, size) for steps, size in plan.whole]
    gate = asyncio.Semaphore(4)

    async def history_size(side: Side, steps: int, size: int) -> HistorySize:
        async with gate:
            progress(f"history: {side.name}, {steps} steps of {size} bytes")
            id = await env.run(side, steps=steps, size=size)
            executions, archives = await env.executions(id), await env.archives(id)
        return HistorySize(
            side=side.name,
            steps=steps,
            size=size,
            events=sum(execution.events for execution in (*executions, *archives)),
            bytes=sum(execution.bytes for execution in (*executions, *archives)),
            executions=len(executions),
        )

    results.histories += await asyncio.gather(*(history_size(*one) for one in todo))


async def measure_replay(env: Environment, plan: Plan, results: Results) -> None:
    """How long a worker takes to replay a run, per step."""
    steps = plan.replay_steps
    replayer = Replayer(
        workflows=[AgentRun, ThreadArchive, *BARE_WORKFLOWS],
        data_converter=env.client.data_converter,
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    histories: dict[str, list[WorkflowHistory]] = {}
    for side in env.sides:
        progress(f"replay: {side.name}, {steps} steps, recording")
        executions = await env.executions(await env.run(side, steps=steps, size=KB))
        histories[side.name] = [execution.history for execution in executions]
    series = new_series(results, "replay", "replay per step", "ms")
    for repeat in range(plan.repeat + 1):
        for side in interleaved(env.sides, repeat):
            progress(f"replay: {side.name}, {repeat} of {plan.repeat}")
            before = time.perf_counter()
            for history in histories[side.name]:
                await replayer.replay_workflow(history)
            if repeat:  # the first repeat warms up
                add_sample(series, side, (time.perf_counter() - before) * 1000 / steps)


async def measure_runs(env: Environment, plan: Plan, results: Results) -> None:
    """Throughput with several concurrent runs."""
    for count in plan.concurrent:
        label = f"runs per second, {count} at once"
        series = new_series(results, f"runs.{count}", label, "/s", more_is_better=True)
        for repeat in range(min(plan.repeat, 3) if count > 1 else plan.repeat):
            for side in interleaved(env.sides, repeat):
                progress(f"runs: {side.name}, {count} at once, {repeat + 1}")
                before = time.perf_counter()
                await asyncio.gather(*(env.run(side, steps=plan.concurrent_steps, size=KB) for _ in range(count)))
                add_sample(series, side, count / (time.perf_counter() - before))


async def measure_decision(env: Environment, plan: Plan, results: Results) -> None:
    """From sending a decision, over the resumed tool call, to the next model call."""
    series = new_series(results, "decision", "decision to next inference", "ms")
    for repeat in range(plan.repeat * plan.decisions):
        for side in interleaved(env.deciding, repeat):
            progress(f"decision: {side.name}, {repeat + 1} of {plan.repeat * plan.decisions}")
            id = await env.suspend(side)
            decided = time.time()
            await side.decide(id)
            inferred = float(await side.result(id))  # the script answers with the time of the call
            add_sample(series, side, (inferred - decided) * 1000)


Measurement = Callable[[Environment, Plan, Results], Awaitable[None]]

MEASUREMENTS: dict[str, Measurement] = {
    "step": measure_step,
    "long": measure_long,
    "history": measure_history,
    "replay": measure_replay,
    "reading": measure_reading,
    "rebuild": measure_rebuild,
    "runs": measure_runs,
    "decision": measure_decision,
    "stream": measure_stream,
    "watching": measure_watching,
    "tracing": measure_tracing,
    "fleet": measure_fleet,
    "startup": measure_startup,
    "simulation": measure_simulation,
}


async def measure(env: Environment, plan: Plan, results: Results, names: Sequence[str]) -> None:
    other_load = OtherLoad(env.pids)
    for name in names:
        await MEASUREMENTS[name](env, plan, results)
    results.machine.busy_elsewhere = other_load.cores()
