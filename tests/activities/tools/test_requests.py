"""What a tool requests: applied by the loop together with the call's result, also for agents without hooks."""

from typing import Any

import pytest
from pydantic import BaseModel

from tests.activities.hooks.world import IDENTITY, World, plugin
from tests.activities.wiring import activities, cache_of, environment, raw
from wakeful import Agent, Registry, ScriptedModel, ToolContext, tool
from wakeful.contract.context import ContextMessage
from wakeful.contract.hooks import FinalAnswer, HookEffects, RequestChanges
from wakeful.contract.messages import TextBlock, ToolCall
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.runs import StopDetail
from wakeful.contract.tools import ToolCallInput, ToolOutcome, ToolResult


class Weather(BaseModel):
    sky: str


@tool
def everything(ctx: ToolContext) -> str:
    """Request everything."""
    ctx.add_context("old.1", "never added")
    ctx.remove_context_prefix("old.")
    ctx.remove_context("hint")
    ctx.add_context("note", "Be brief.", persistent=True)
    ctx.add_permissions(Rule(tool="pay", behavior=Behavior.DENY))
    ctx.override(InferenceOverrides(temperature=0))
    ctx.exclude_tools("pay")
    ctx.include_only_tools("look", "everything")
    ctx.stop("enough")
    ctx.finish(Weather(sky="blue"))
    ctx.finish("too late")
    ctx.handoff("billing")
    return "done"


@tool
def undecided(how: str, ctx: ToolContext) -> str:
    """Request a stop, and raise, suspend, or request too much."""
    ctx.stop("enough")
    ctx.handoff("billing")
    if how == "raise":
        raise RuntimeError("oh no")
    if how == "suspend":
        ctx.suspend("sure?")
    ctx.clear_context()
    ctx.finish("x" * 130_000)
    return "done"


NOTE = ContextMessage(key="note", content=(TextBlock(text="Be brief."),), persistent=True)
EFFECTS = HookEffects(
    context=(NOTE,),
    forget=("hint",),
    forget_prefixes=("old.",),
    permissions=(Rule(tool="pay", behavior=Behavior.DENY),),
    next_request=RequestChanges(
        overrides=InferenceOverrides(temperature=0), excluded=("pay",), included=("everything", "look")
    ),
    stop=StopDetail(code="enough"),
    finish=FinalAnswer(text='{"sky": "blue"}', output={"sky": "blue"}),
)


async def outcome_of(name: str, *, agent: Agent | None = None, **arguments: Any) -> ToolOutcome:
    registry = Registry(
        agents=[agent or Agent(id="a", model="m", tools=[everything, undecided])], models={"m": ScriptedModel([])}
    )
    resolved = registry.resolve("a")
    input = ToolCallInput(
        call=ToolCall(id="c", name=name, arguments=arguments),
        identity=IDENTITY,
        idempotency_key="k",
        agent=resolved.digest() if agent else None,
    )
    with activities(registry, cache_of(resolved)) as made:
        return await environment(tool=name).run(made.tools.call_tool, raw(input))


async def test_what_a_tool_requests_comes_with_its_result_b204() -> None:
    result = ToolResult.success("everything", "done")
    assert await outcome_of("everything") == ToolOutcome(result=result, handoff="billing", effects=EFFECTS)


async def test_requests_of_a_tool_and_of_hooks_around_it_are_merged_b204() -> None:
    hooks = plugin("p", after_tool_execute=lambda ctx: (ctx.emit("seen"), ctx.handoff("sales"), None)[-1])
    agent = Agent(id="a", model="m", tools=[everything], plugins=[hooks])
    outcome = await outcome_of("everything", agent=agent)
    assert outcome.effects is not None
    assert (outcome.handoff, outcome.effects.handoff) == ("billing", "sales")
    assert outcome.effects.model_copy(update={"events": (), "handoff": None}) == EFFECTS


@pytest.mark.parametrize("how", ["raise", "suspend"])
async def test_a_tool_that_raises_or_suspends_requests_nothing(how: str) -> None:
    outcome = await outcome_of("undecided", how=how)
    assert (outcome.effects, outcome.handoff) == (None, None)


async def test_a_tool_that_requests_too_much_has_an_error_for_its_result() -> None:
    outcome = await outcome_of("undecided", how="return")
    assert "its request is too large: 130" in outcome.result.text
    assert (outcome.result.status, outcome.effects, outcome.handoff) == ("error", None, None)


async def test_an_inference_uses_what_was_requested_for_it_b058() -> None:
    world = World()
    await world.infer(changes=RequestChanges(overrides=InferenceOverrides(max_tokens=9), excluded=("pay",)))
    assert (world.request.settings.max_tokens, [tool.id for tool in world.request.tools]) == (9, ["look"])
    world = World()
    await world.infer(changes=RequestChanges(included=("pay",)))
    assert [tool.id for tool in world.request.tools] == ["pay"]


async def test_hooks_of_the_request_add_to_what_was_requested_for_it_and_later_hooks_to_the_next_one() -> None:
    def before(ctx: Any) -> None:
        ctx.include_only_tools("look")
        ctx.override(InferenceOverrides(temperature=0))

    def after(ctx: Any) -> None:
        ctx.exclude_tools("look")
        ctx.finish("Enough.")

    world = World(plugin("p", before_inference=before, after_inference=after))
    response = await world.infer(changes=RequestChanges(overrides=InferenceOverrides(max_tokens=9), included=("pay",)))
    assert [tool.id for tool in world.request.tools] == ["look", "pay"]
    assert (world.request.settings.max_tokens, world.request.settings.temperature) == (9, 0)
    assert response.effects == HookEffects(
        base=4, next_request=RequestChanges(excluded=("look",)), finish=FinalAnswer(text="Enough.")
    )


async def test_an_answer_of_a_hook_before_the_call_means_that_neither_the_model_nor_the_tool_is_called_b015() -> None:
    finishing: dict[str, Any] = {
        name: lambda ctx: ctx.finish("Enough.") for name in ("before_inference", "before_tool_execute")
    }
    world = World(plugin("p", **finishing))
    response = await world.infer()
    assert (response.skipped, world.model.requests) == (True, ())
    outcome = await world.call_tool("pay")
    assert outcome.result.text == "The call was not executed, because the run ends: a hook has answered"
    assert outcome.effects == HookEffects(base=4, finish=FinalAnswer(text="Enough."))
