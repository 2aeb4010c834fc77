"""Agents with plugins and state."""

import asyncio

from wakeful import Agent, Plugin, ScriptedModel, StateKey, ToolContext, ToolMode, call, say, tool
from wakeful.authoring.hook_contexts import (
    AfterInference,
    AfterToolExecute,
    BeforeInference,
    BeforeToolExecute,
    HookContext,
    RunEnd,
    StepEnd,
    StepStart,
    ToolGate,
)
from wakeful.authoring.scripted import Turn

COUNT = StateKey("count", int, merge="add", default=0)
NAMES = StateKey("names", list[str], merge="append", default=[])
OWNER = StateKey("owner", str, default="")


@tool(read_only=True)
async def tally(name: str, ctx: ToolContext) -> str:
    """Count a name."""
    ctx.state.add(COUNT, 1)
    ctx.state.append(NAMES, name)
    await asyncio.sleep(0.05)
    return name


@tool(read_only=True)
async def claim(name: str, ctx: ToolContext) -> str:
    """Claim what only one can have."""
    ctx.state.set(OWNER, name)
    ctx.state.add(COUNT, 1)
    await asyncio.sleep(0.2)
    return f"{name} claims it"


@tool(read_only=True)
def visit(room: int) -> str:
    """Visit a room."""
    return f"nothing in room {room}"


class Everywhere(Plugin):
    """Has every hook, and requests nothing that costs an event."""

    id = "everywhere"
    state = (COUNT,)

    def on_activate(self, ctx: HookContext) -> None:
        ctx.emit("on_activate")

    def run_start(self, ctx: HookContext) -> None:
        ctx.emit("run_start")

    def step_start(self, ctx: StepStart) -> None:
        ctx.emit("step_start")

    def before_inference(self, ctx: BeforeInference) -> None:
        ctx.emit("before_inference")
        ctx.add_context("note", "Be kind.")

    def after_inference(self, ctx: AfterInference) -> None:
        ctx.emit("after_inference")
        ctx.state.add(COUNT, 1)

    def tool_gate(self, ctx: ToolGate) -> None:
        ctx.emit("tool_gate")

    def before_tool_execute(self, ctx: BeforeToolExecute) -> None:
        ctx.emit("before_tool_execute")

    def after_tool_execute(self, ctx: AfterToolExecute) -> None:
        ctx.emit("after_tool_execute")

    def step_end(self, ctx: StepEnd) -> None:
        ctx.emit("step_end")

    def run_end(self, ctx: RunEnd) -> None:
        ctx.emit("run_end")

    def on_deactivate(self, ctx: HookContext) -> None:
        ctx.emit("on_deactivate")


ROOMS = (1, 6)
HOOKED = Agent(id="hooked", model="rooms", tools=[visit], plugins=[Everywhere()], max_rounds=0)
PLAIN = Agent(id="plain", model="rooms", tools=[visit], max_rounds=0)
TALLYING = Agent(
    id="tallying", model="tallies", tools=[tally, claim], tool_mode=ToolMode.PARALLEL, state=[COUNT, NAMES, OWNER]
)
TWENTY = [f"n{number:02}" for number in range(20)]


def _all_at_once() -> list[Turn]:
    turn = call("tally", name=TWENTY[0])
    for name in TWENTY[1:]:
        turn &= call("tally", name=name)
    return [turn, say("done")]


AGENTS = [HOOKED, PLAIN, TALLYING]
MODELS = {
    "rooms": ScriptedModel(when={f"^{n}$": [*(call("visit", room=r) for r in range(n)), say("done")] for n in ROOMS}),
    "tallies": ScriptedModel(
        _all_at_once(), when={"claim": [call("claim", name="ann") & call("claim", name="bob"), say("done")]}
    ),
}
