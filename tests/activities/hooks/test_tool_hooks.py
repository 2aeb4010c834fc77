"""Hooks around a tool call, and the state that they share with the tool."""

import copy
from typing import Any

import pytest

from tests.activities.hooks.world import IDENTITY, RESUMED, VISITS, World, adding, fails, plugin
from wakeful import (
    AfterToolExecute,
    BeforeToolExecute,
    ToolGate,
    call,
)
from wakeful.contract.hooks import EmittedEvent, HookEffects, HookFailure
from wakeful.contract.runs import Adapter, RunMode, StopDetail
from wakeful.contract.tools import ToolKind, ToolOutcome, ToolResult
from wakeful_activities.results import RESULT_LIMIT


async def test_a_tool_writes_state_and_reads_back_what_it_wrote() -> None:
    outcome = await World().call_tool("pay")
    assert outcome == ToolOutcome(
        result=ToolResult.success("pay", "paid 5 of 6"), effects=HookEffects(base=4, state=(adding(5),))
    )


async def test_a_tool_that_raises_or_suspends_has_written_nothing() -> None:
    for amount, status in ((500, "error"), (50, "pending")):
        outcome = await World().call_tool("pay", arguments={"amount": amount})
        assert (outcome.result.status, outcome.effects) == (status, None)
    outcome = await World().call_tool("pay", arguments={"amount": 50}, resume=RESUMED)
    assert outcome.effects == HookEffects(base=4, state=(adding(50),))


async def test_a_tool_of_an_agent_without_state_keys_reads_which_key_is_missing() -> None:
    outcome = await World().call_tool("pay", agent=None)
    assert "agent 'a' does not declare state key 'visits'" in outcome.result.text


async def test_hooks_around_a_call_run_in_order_and_share_its_state() -> None:
    """B-237."""
    seen: list[Any] = []

    def note(ctx: ToolGate | BeforeToolExecute | AfterToolExecute) -> None:
        arguments = copy.copy(ctx.call.arguments)
        seen.append((type(ctx).__name__, ctx.state.get(VISITS), arguments, ctx.tool and ctx.tool.id))
        ctx.state.add(VISITS, 1)
        if isinstance(ctx.call.arguments, dict):
            ctx.call.arguments["amount"] = 99  # its own copy

    world = World(plugin("p", tool_gate=note, before_tool_execute=note, after_tool_execute=note))
    outcome = await world.call_tool("pay")
    five = {"amount": 5}
    assert seen == [
        ("ToolGate", 1, five, "pay"),
        ("BeforeToolExecute", 2, five, "pay"),
        ("AfterToolExecute", 8, five, "pay"),
    ]
    assert outcome.result.data == "paid 5 of 8"
    assert outcome.effects is not None
    assert outcome.effects.state == (adding(1), adding(1), adding(5), adding(1))


async def test_tool_gate_recheck_executes_before_tool_hook_once() -> None:
    """B-231, B-237: gates judge a call with the answer and just before it runs; `before_tool_execute` runs once."""
    seen: list[str] = []

    def note(ctx: ToolGate | BeforeToolExecute) -> None:
        seen.append(type(ctx).__name__)

    world = World(plugin("p", tool_gate=note, before_tool_execute=note), turn=call("look", where="up"))
    await world.infer()
    await world.call_tool("look")
    assert seen == ["ToolGate", "ToolGate", "BeforeToolExecute"]


async def test_a_result_that_a_hook_sets_skips_the_tool_and_later_hooks_may_replace_it() -> None:
    """B-234, B-237."""
    later: list[str] = []
    world = World(
        plugin("p", before_tool_execute=lambda ctx: ctx.set_result("cached")),
        plugin("q", before_tool_execute=lambda _ctx: later.append("called")),
        plugin("r", after_tool_execute=lambda ctx: ctx.set_result(f"{ctx.result.data}!")),
        plugin("s", after_tool_execute=lambda ctx: ctx.set_result(f"{ctx.result.data}?")),
    )
    outcome = await world.call_tool("pay")
    assert (outcome, later) == (ToolOutcome(result=ToolResult.success("pay", "cached!?")), [])
    world = World(plugin("p", after_tool_execute=lambda ctx: ctx.set_result("x" * (RESULT_LIMIT + 1))))
    assert "[cut: the result has" in (await world.call_tool("look")).result.text


async def test_a_call_is_gated_again_just_before_and_suspended_until_a_decision() -> None:
    """B-231, B-233."""
    evaluated: list[bool] = []

    def ask(ctx: ToolGate) -> None:
        evaluated.append(ctx.is_first_check)
        if not ctx.approved:
            ctx.suspend("sure?")

    after = plugin("q", after_tool_execute=lambda ctx: ctx.emit("done"))
    world = World(plugin("p", tool_gate=ask), after)
    outcome = await world.call_tool("look")
    assert (outcome.result.status, outcome.gated, outcome.effects) == ("pending", True, None)
    outcome = await world.call_tool("look", resume=RESUMED)
    assert outcome == ToolOutcome(
        result=ToolResult.success("look", "up"),
        effects=HookEffects(base=4, events=(EmittedEvent(plugin="q", name="done"),)),
    )
    assert evaluated == [False, False]


@pytest.mark.parametrize("phase", ["tool_gate", "before_tool_execute"])
async def test_a_call_is_not_executed_when_a_hook_ends_the_run(phase: str) -> None:
    """B-232."""
    blocks: dict[str, Any] = {phase: lambda ctx: ctx.block("no")}
    stops: dict[str, Any] = {phase: lambda ctx: ctx.stop("enough")}
    failing: dict[str, Any] = {phase: fails}
    blocked = await World(plugin("p", **blocks)).call_tool("pay")
    assert blocked == ToolOutcome(result=ToolResult.rejected("pay", "no"), blocked="no")
    stopped = await World(plugin("p", **stops)).call_tool("pay")
    message = "The call was not executed, because the run ends: enough"
    effects = HookEffects(base=4, stop=StopDetail(code="enough"))
    assert stopped == ToolOutcome(result=ToolResult.error("pay", message), effects=effects)
    failed = await World(plugin("p", on_error="fail", **failing)).call_tool("pay")
    why = f"plugin 'p' failed at {phase}: RuntimeError: oh no"
    message = f"The call was not executed, because the run ends: {why}"
    assert failed == ToolOutcome(result=ToolResult.error("pay", message), effects=HookEffects(base=4, fail=why))
    skipped = await World(plugin("p", **failing)).call_tool("pay")
    if phase == "before_tool_execute":
        assert skipped.result.data == "paid 5 of 6"
    else:
        report = HookFailure(plugin="p", phase=phase, error="RuntimeError: oh no")
        effects = HookEffects(base=4, failures=(report,))
        assert skipped == ToolOutcome(result=ToolResult.rejected("pay", why), blocked=why, effects=effects)


async def test_hooks_of_a_call_see_its_kind_the_mode_of_its_run_and_that_it_is_resumed_b052() -> None:
    seen: list[Any] = []

    def note(ctx: ToolGate | BeforeToolExecute | AfterToolExecute) -> None:
        seen.append((ctx.tool_kind, ctx.run_mode, ctx.identity.adapter, ctx.agent.agent_id, ctx.state.get(VISITS)))

    world = World(plugin("p", tool_gate=note, before_tool_execute=note, after_tool_execute=note))
    identity = IDENTITY.model_copy(update={"run_mode": RunMode.SCHEDULED, "adapter": Adapter.A2A})
    await world.call_tool("look", identity=identity)
    assert seen == [(ToolKind.READ, RunMode.SCHEDULED, Adapter.A2A, "a", 1)] * 3
    seen.clear()
    await world.call_tool("look", identity=identity, resume=RESUMED)
    assert seen == [(ToolKind.READ, RunMode.RESUME, Adapter.A2A, "a", 1)] * 3
