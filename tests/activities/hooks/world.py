"""An agent with plugins, the activities that run its hooks, and plugins made of functions."""

import asyncio
from typing import Any, cast

from pydantic import BaseModel

from tests.activities.wiring import activities, cache_of, environment, raw
from wakeful import (
    Agent,
    BeforeInference,
    HookContext,
    ModelRequest,
    ModelResponse,
    Plugin,
    Registry,
    StateKey,
    ToolContext,
    say,
    tool,
)
from wakeful.authoring.plugin import AnyPlugin
from wakeful.authoring.scripted import ScriptedModel, Turn
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.decisions import DecisionAction, ToolCallResume
from wakeful.contract.hooks import HookEffects, HooksInput, LifecyclePhase
from wakeful.contract.inference import InferInput, TranscriptRef
from wakeful.contract.messages import Message, Role, TextBlock, ToolCall
from wakeful.contract.runs import RunIdentity
from wakeful.contract.state import StateAction, StateOp, StateView
from wakeful.contract.tools import ToolCallInput, ToolOutcome
from wakeful.contract.transcript import EMPTY_DIGEST, chained

IDENTITY = RunIdentity(thread_id="test", run_id="r", agent_id="a")
RESUMED = ToolCallResume(action=DecisionAction.RESUME)
VISITS = StateKey("visits", int, merge="add", default=0)
ASKED = Message(id="1", role=Role.USER, content=(TextBlock(text="go"),))


@tool
def pay(amount: int, ctx: ToolContext) -> str:
    """Pay."""
    ctx.state.add(VISITS, amount)
    if amount > 100:
        raise ValueError("too much")
    if amount > 10 and ctx.resume_input is None:
        ctx.suspend("sure?")
    return f"paid {amount} of {ctx.state.get(VISITS)}"


@tool(read_only=True)
def look(where: str) -> str:
    """Look."""
    return where


class World:
    """An agent with plugins, and the activities that run for it."""

    def __init__(self, *plugins: AnyPlugin, turn: Turn | None = None, **changes: Any) -> None:
        self.model = ScriptedModel([turn or say("hello")], strict=False)
        agent = Agent(id="a", model="m", tools=[pay, look], plugins=plugins, state=[VISITS], **changes)
        self.registry = Registry(agents=[agent], models={"m": self.model})
        self.bind(self.registry.resolve("a"))

    def bind(self, agent: ResolvedAgent) -> None:
        self.agent = agent
        self.cache = cache_of(agent)

    async def infer(self, **changes: Any) -> ModelResponse:
        input = InferInput(
            agent=self.agent.digest(),
            transcript=TranscriptRef(length=1, digest=chained(EMPTY_DIGEST, ASKED)),
            appended=(ASKED,),
            identity=IDENTITY,
            step=1,
            state=StateView(revision=4),
        ).model_copy(update=changes)
        with activities(self.registry, self.cache) as made:
            return await environment().run(made.infer.infer, input)

    async def call_tool(self, name: str, **changes: Any) -> ToolOutcome:
        arguments = changes.pop("arguments", {"amount": 5} if name == "pay" else {"where": "up"})
        input = ToolCallInput(
            call=ToolCall(id="c", name=name, arguments=arguments),
            identity=IDENTITY,
            idempotency_key="k",
            agent=self.agent.digest(),
            step=1,
            state=StateView(revision=4, values={"visits": 1}),
        ).model_copy(update=changes)
        with activities(self.registry, self.cache) as made:
            return await environment(tool=name).run(made.tools.call_tool, raw(input))

    async def run_hooks(self, *phases: LifecyclePhase, **changes: Any) -> HookEffects:
        input = HooksInput(
            agent=self.agent.digest(), phases=phases, identity=IDENTITY, step=3, state=StateView(revision=4)
        ).model_copy(update=changes)
        with activities(self.registry, self.cache) as made:
            return await environment().run(made.hooks.run_hooks, input)

    @property
    def request(self) -> ModelRequest:
        (request,) = self.model.requests
        return request


def adding(value: int) -> StateOp:
    return StateOp(key="visits", action=StateAction.MERGE, value=value)


def plugin(id: str, *, on_error: str = "skip", timeout: float = 5.0, **hooks: Any) -> AnyPlugin:
    """A plugin with these functions for hooks."""
    methods = {name: _method(function) for name, function in hooks.items()}
    return cast("AnyPlugin", type(id, (Plugin,), {"id": id, "on_error": on_error, "timeout": timeout, **methods})())


def _method(function: Any) -> Any:
    async def later(_self: object, ctx: Any) -> Any:
        return await function(ctx)

    return later if asyncio.iscoroutinefunction(function) else lambda _self, ctx: function(ctx)


class Manners(BaseModel):
    text: str = "be kind"


class Manner(Plugin[Manners]):
    id = "manner"

    async def before_inference(self, ctx: BeforeInference[Manners]) -> None:
        ctx.add_context("manner", ctx.settings.text)
        ctx.settings.text = "spoilt"


def fails(ctx: HookContext) -> None:
    ctx.state.add(VISITS, 100)
    ctx.stop("never")
    raise RuntimeError("oh no")


async def hangs(ctx: HookContext) -> None:
    ctx.block("never")
    await asyncio.sleep(60)
