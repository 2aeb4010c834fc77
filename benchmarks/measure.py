"""The measurements. Each interleaves the sides, repeat by repeat, so that both see the same neighbours' noise."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from benchmarks.clocks import Neighbours, cpu_seconds
from benchmarks.figures import HistorySize, Results, Series
from benchmarks.plan import KB, Plan
from benchmarks.samples import add, in_turn, new_series, say
from benchmarks.stage import Side, Stage
from benchmarks.startup import measure_startup
from benchmarks.streams import measure_stream
from benchmarks.watching import measure_watching
from benchmarks.worker import BARE_WORKFLOWS
from wakeful_workflows import AgentRun

QUIET_CORES = 0.35
"""A sample counts as undisturbed while others use less than this of the machine."""
TRIES = 3
"""After which a disturbed sample is kept all the same."""


async def measure_step(stage: Stage, plan: Plan, results: Results) -> None:
    """What a run without steps costs, and what each step adds to it, while nothing else runs."""
    start = _costs(results, "start", "of a run without steps")
    step = _costs(results, "step", "a step")
    for repeat in range(plan.repeat):
        for side in in_turn(stage.sides, repeat):
            say(f"step: {side.name}, {plan.step_steps} steps, {repeat + 1} of {plan.repeat}")
            fixed, whole = await _undisturbed(stage, side, steps=plan.step_steps)
            for series, cost in zip(start, fixed, strict=True):
                add(series, side, cost)
            for series, cost in zip(step, _a_step(fixed, whole, plan.step_steps), strict=True):
                add(series, side, cost)


async def measure_long(stage: Stage, plan: Plan, results: Results) -> None:
    """A step's cost in a long run, to see whether it grows with what went before it."""
    long = _costs(results, "long", f"a step, run of {plan.long_steps}")
    for repeat in range(min(plan.repeat, 2)):
        for side in in_turn(stage.sides, repeat):
            say(f"long: {side.name}, {plan.long_steps} steps, {repeat + 1}")
            fixed, whole = await _cost(stage, side, steps=0), await _cost(stage, side, steps=plan.long_steps)
            for series, cost in zip(long, _a_step(fixed, whole, plan.long_steps), strict=True):
                add(series, side, cost)


Cost = tuple[float | None, float | None, float | None]
"""Wall, worker's CPU and server's CPU, in milliseconds."""


def _costs(results: Results, key: str, of: str) -> tuple[Series, Series, Series]:
    return (
        new_series(results, f"{key}.time", f"time {of}", "ms"),
        new_series(results, f"{key}.worker_cpu", f"worker CPU {of}", "ms"),
        new_series(results, f"{key}.server_cpu", f"server CPU {of}", "ms"),
    )


async def _undisturbed(stage: Stage, side: Side, *, steps: int) -> tuple[Cost, Cost]:
    """Without steps and with them; taken again while others kept the machine busy, whatever came out."""
    for _ in range(TRIES):
        neighbours = Neighbours(stage.pids)
        costs = await _cost(stage, side, steps=0), await _cost(stage, side, steps=steps)
        if (neighbours.cores() or 0.0) <= QUIET_CORES:
            break
    return costs


async def _cost(stage: Stage, side: Side, *, steps: int) -> Cost:
    before = time.perf_counter(), cpu_seconds(side.pid), cpu_seconds(stage.server_pid)
    await stage.run(side, steps=steps, size=KB)
    after = time.perf_counter(), cpu_seconds(side.pid), cpu_seconds(stage.server_pid)
    wall, worker, server = (
        None if was is None or is_now is None else (is_now - was) * 1000
        for was, is_now in zip(before, after, strict=True)
    )
    return wall, worker, server


def _a_step(fixed: Cost, whole: Cost, steps: int) -> Cost:
    wall, worker, server = (
        None if first is None or all_of_it is None else (all_of_it - first) / steps
        for first, all_of_it in zip(fixed, whole, strict=True)
    )
    return wall, worker, server


async def measure_history(stage: Stage, plan: Plan, results: Results) -> None:
    """Events and bytes that runs leave in history. They are exact, so each is taken once, and several at a time."""
    todo = [(side, steps, size) for size in plan.sizes for steps in plan.lengths for side in stage.sides]
    todo += [(stage.whole, steps, size) for steps, size in plan.whole]
    gate = asyncio.Semaphore(4)

    async def weigh(side: Side, steps: int, size: int) -> HistorySize:
        async with gate:
            say(f"history: {side.name}, {steps} steps of {size} bytes")
            executions = await stage.executions(await stage.run(side, steps=steps, size=size))
        return HistorySize(
            side=side.name,
            steps=steps,
            size=size,
            events=sum(execution.events for execution in executions),
            bytes=sum(execution.bytes for execution in executions),
            executions=len(executions),
        )

    results.histories += await asyncio.gather(*(weigh(*one) for one in todo))


async def measure_replay(stage: Stage, plan: Plan, results: Results) -> None:
    """How long a worker needs to bring a run back to mind, a step."""
    steps = plan.replay_steps
    replayer = Replayer(
        workflows=[AgentRun, *BARE_WORKFLOWS],
        data_converter=stage.client.data_converter,
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    histories: dict[str, list[WorkflowHistory]] = {}
    for side in stage.sides:
        say(f"replay: {side.name}, {steps} steps, recording")
        executions = await stage.executions(await stage.run(side, steps=steps, size=KB))
        histories[side.name] = [execution.history for execution in executions]
    series = new_series(results, "replay", "replay a step", "ms")
    for repeat in range(plan.repeat + 1):
        for side in in_turn(stage.sides, repeat):
            say(f"replay: {side.name}, {repeat} of {plan.repeat}")
            before = time.perf_counter()
            for history in histories[side.name]:
                await replayer.replay_workflow(history)
            if repeat:  # the first one warms up
                add(series, side, (time.perf_counter() - before) * 1000 / steps)


async def measure_runs(stage: Stage, plan: Plan, results: Results) -> None:
    """Runs a second when several are started at once."""
    for count in plan.concurrent:
        label = f"runs a second, {count} at once"
        series = new_series(results, f"runs.{count}", label, "/s", more_is_better=True)
        for repeat in range(min(plan.repeat, 3) if count > 1 else plan.repeat):
            for side in in_turn(stage.sides, repeat):
                say(f"runs: {side.name}, {count} at once, {repeat + 1}")
                before = time.perf_counter()
                await asyncio.gather(*(stage.run(side, steps=plan.concurrent_steps, size=KB) for _ in range(count)))
                add(series, side, count / (time.perf_counter() - before))


async def measure_decision(stage: Stage, plan: Plan, results: Results) -> None:
    """From a decision to the model: the suspended run is told to go on, makes the call, and asks the model again."""
    series = new_series(results, "decision", "decision to next inference", "ms")
    for repeat in range(plan.repeat * plan.decisions):
        for side in in_turn(stage.deciding, repeat):
            say(f"decision: {side.name}, {repeat + 1} of {plan.repeat * plan.decisions}")
            id = await stage.suspend(side)
            decided = time.time()
            await side.decide(id)
            asked = float(await side.result(id))  # the model's last word is when it was asked for it
            add(series, side, (asked - decided) * 1000)


Measurement = Callable[[Stage, Plan, Results], Awaitable[None]]

MEASUREMENTS: dict[str, Measurement] = {
    "step": measure_step,
    "long": measure_long,
    "history": measure_history,
    "replay": measure_replay,
    "runs": measure_runs,
    "decision": measure_decision,
    "stream": measure_stream,
    "watching": measure_watching,
    "startup": measure_startup,
}


async def measure(stage: Stage, plan: Plan, results: Results, names: Sequence[str]) -> None:
    neighbours = Neighbours(stage.pids)
    for name in names:
        await MEASUREMENTS[name](stage, plan, results)
    results.machine.busy_elsewhere = neighbours.cores()
