"""How fast the simulation is: schedules, and activations by the model of core against the SDK's real core.

Both cores replay the same simulated histories, one after the other, so their ratio does not depend on the machine.
"""

import logging
import time
import warnings
from collections.abc import Sequence

from benchmarks.environment import Environment
from benchmarks.plan import Plan
from benchmarks.results import Results, Simulation
from benchmarks.sampling import progress
from tests.simulation.core import completed_part
from tests.simulation.execution import Execution
from tests.simulation.judge import RealCore, replay_on_model
from tests.simulation.schedule import STEPS, run


async def measure_simulation(_env: Environment, plan: Plan, results: Results) -> None:
    """The same schedules in every repeat; the first one warms up."""
    measured = Simulation(schedules=plan.schedules, steps=STEPS)
    logging.disable(logging.CRITICAL)  # workflows log every fault
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        async with RealCore() as core:
            for repeat in range(plan.repeat + 1):
                progress(f"simulation: {plan.schedules} schedules, {repeat} of {plan.repeat}")
                taken = await _measure_once(core, plan.schedules)
                if repeat:
                    measured.add(*taken)
    logging.disable(logging.NOTSET)
    results.simulation = measured


async def _measure_once(core: RealCore, schedules: int) -> tuple[float, float, float]:
    """Schedules, and activations of the real core and of its model, per second."""
    before = time.perf_counter()
    worlds = [run(str(seed)).world for seed in range(schedules)]
    per_second = schedules / (time.perf_counter() - before)
    executions = [each for world in worlds for each in world.server.executions if each.previous_started]
    return per_second, await _real_activations(core, executions), _model_activations(executions)


async def _real_activations(core: RealCore, executions: Sequence[Execution]) -> float:
    activations, before = 0, time.perf_counter()
    for execution in executions:
        replay = await core.replay(execution.workflow_id, completed_part(execution.history))
        activations += len(replay.activations)
    return activations / (time.perf_counter() - before)


def _model_activations(executions: Sequence[Execution]) -> float:
    activations, before = 0, time.perf_counter()
    for execution in executions:
        replay = replay_on_model(execution.workflow_id, execution.run_id, completed_part(execution.history))
        activations += len(replay.activations)
    return activations / (time.perf_counter() - before)
