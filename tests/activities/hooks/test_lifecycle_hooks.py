"""Hooks of the lifecycle phases, which run in an activity of their own."""

import asyncio

from tests.activities.hooks.world import IDENTITY, VISITS, World, adding, fails, plugin
from tests.activities.wiring import activities, environment
from wakeful import (
    HookContext,
    Plugin,
    RunEnd,
    RunResult,
    StepEnd,
)
from wakeful.contract.hooks import EmittedEvent, HookEffects, HookFailure, HooksInput, LifecyclePhase
from wakeful.contract.runs import NaturalEnd
from wakeful.registry.plugin_lifecycles import PluginLifecycles


async def test_lifecycle_hooks_run_in_an_activity_of_their_own() -> None:
    def note(ctx: HookContext) -> None:
        ctx.emit(type(ctx).__name__, ctx.step)
        ctx.state.add(VISITS, 1)

    world = World(plugin("p", on_activate=note, run_start=note, on_deactivate=note), plugin("q", run_start=note))
    effects = await world.run_hooks(LifecyclePhase.ACTIVATE, LifecyclePhase.RUN_START)
    assert effects == HookEffects(
        base=4,
        state=(adding(1), adding(1), adding(1)),
        events=tuple(EmittedEvent(plugin=id, name="HookContext", payload=3) for id in "ppq"),
    )
    assert await world.run_hooks(LifecyclePhase.STEP_END) == HookEffects(base=4)


async def test_step_end_hooks_read_the_answer_and_run_end_hooks_the_result() -> None:
    result = RunResult(
        thread_id="test", run_id="r", agent_id="a", status_reason="natural", termination=NaturalEnd(), response="bye"
    )

    def step_end(ctx: StepEnd) -> None:
        ctx.emit("step", ctx.response)

    async def run_end(ctx: RunEnd) -> None:
        ctx.emit("run", ctx.result.response)

    world = World(plugin("p", step_end=step_end, run_end=run_end, on_deactivate=fails))
    effects = await world.run_hooks(
        LifecyclePhase.STEP_END, LifecyclePhase.RUN_END, LifecyclePhase.DEACTIVATE, response="hi", result=result
    )
    assert effects == HookEffects(
        base=4,
        events=(
            EmittedEvent(plugin="p", name="step", payload="hi"),
            EmittedEvent(plugin="p", name="run", payload="bye"),
        ),
        failures=(HookFailure(plugin="p", phase="deactivate", error="RuntimeError: oh no"),),
    )


async def test_a_plugin_that_is_registered_later_is_set_up_once_before_its_first_hook() -> None:
    done: list[str] = []

    class Late(Plugin):
        id = "late"

        async def setup(self) -> None:
            await asyncio.sleep(0)
            done.append("setup")

        async def shutdown(self) -> None:
            done.append("shutdown")

        def run_start(self, ctx: HookContext) -> None:
            done.append("run_start")

    world = World(Late())
    lifecycles = PluginLifecycles()
    input = HooksInput(agent=world.agent.digest(), phases=(LifecyclePhase.RUN_START,), identity=IDENTITY)
    with activities(world.registry, world.cache, lifecycles) as made:
        async with lifecycles.running([]):
            await asyncio.gather(*(environment().run(made.hooks.run_hooks, input) for _ in range(2)))
    assert done == ["setup", "run_start", "run_start", "shutdown"]
