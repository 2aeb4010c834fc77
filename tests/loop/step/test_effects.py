"""Effects that hooks and tools request: each is applied once, in call order, after inferences, tools and hooks."""

from collections.abc import Callable

import pytest

from tests.loop.children import BILLING
from tests.loop.driving import (
    AGENT,
    PARALLEL,
    THREAD,
    Driver,
    asks,
    call,
    merge_op,
    ok,
    pending,
    reject,
    resume,
    says,
    set_op,
    state_effects,
    with_hooks,
)
from wakeful.contract.context import ContextMessage, ContextTarget
from wakeful.contract.decisions import Decision
from wakeful.contract.events import HookFailed, PluginEvent, ToolCallCancel
from wakeful.contract.hooks import EmittedEvent, HookEffects, HookFailure, LifecyclePhase
from wakeful.contract.messages import TextBlock
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.runs import Blocked, Errored, NaturalEnd, StopDetail, Stopped, Termination
from wakeful.loop.machine.commands import CancelWork, Infer, ResolveAgent
from wakeful.loop.machine.facts import WorkFailed
from wakeful.loop.machine.stages import CallingTools, Inferring
from wakeful.loop.step.hooks import apply_effects, requested_end

ENOUGH = StopDetail(code="enough", detail="that will do")
HINT = ContextMessage(key="hint", content=(TextBlock(text="Be brief."),), target=ContextTarget.SYSTEM, persistent=True)
ENDS = [
    (HookEffects(stop=ENOUGH), Stopped(value=ENOUGH)),
    (HookEffects(block="not today"), Blocked(value="not today", code="plugin")),
    (HookEffects(fail="no audit"), Errored(value="no audit", code="plugin")),
]
Asked = Callable[[HookEffects], Driver]
TOGETHER = with_hooks(agent=PARALLEL)


def after_inference(effects: HookEffects) -> Driver:
    driver = Driver(with_hooks())
    driver.model(asks(call("c1"), text="Let me see."), effects)
    return driver


def after_tool(effects: HookEffects) -> Driver:
    driver = Driver(with_hooks())
    driver.model(asks(call("c1"), text="Let me see."))
    driver.tool("c1", ok("sunny"), effects)
    return driver


def after_hooks(effects: HookEffects) -> Driver:
    driver = Driver(with_hooks(LifecyclePhase.RUN_START))
    driver.hooks(effects)
    return driver


EVERYWHERE = pytest.mark.parametrize("returning", [after_inference, after_tool, after_hooks])


@EVERYWHERE
@pytest.mark.parametrize(("effects", "termination"), ENDS)
def test_effects_can_end_the_run(returning: Asked, effects: HookEffects, termination: Termination) -> None:
    """B-036"""
    driver = returning(effects)
    assert driver.result.termination == termination
    assert driver.event_types.count("run_finish") == 1


def test_fail_wins_over_block_and_block_over_stop() -> None:
    assert requested_end(HookEffects(stop=ENOUGH, block="no", fail="broken")) == Errored(value="broken", code="plugin")
    assert requested_end(HookEffects(stop=ENOUGH, block="no")) == Blocked(value="no", code="plugin")
    assert requested_end(HookEffects()) is None


def test_the_first_requested_end_counts() -> None:
    driver = Driver(TOGETHER)
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c2", ok(1), HookEffects(block="second"))
    driver.tool("c1", ok(1), HookEffects(block="first"))
    assert driver.result.termination == Blocked(value="first", code="plugin")


def test_a_stop_after_an_inference_neither_runs_the_tools_nor_keeps_the_answer_b016() -> None:
    driver = after_inference(HookEffects(stop=ENOUGH))
    assert driver.tool_commands("c1") == []
    assert driver.texts == ["Hello"]
    assert driver.result.response == "Let me see."


def test_calls_that_never_run_are_cancelled_for_watchers() -> None:
    stopped, again = after_inference(HookEffects(stop=ENOUGH)), after_inference(HookEffects(retry="Shorter."))
    assert stopped.events_of("tool_call_cancel") == [ToolCallCancel(id="c1", name="look", reason="the run ended")]
    assert again.events_of("tool_call_cancel") == [
        ToolCallCancel(id="c1", name="look", reason="the model is called again")
    ]


def test_a_stop_after_a_tool_keeps_its_result() -> None:
    driver = after_tool(HookEffects(stop=ENOUGH))
    assert driver.tool_results == [("c1", "sunny")]
    assert len(driver.commands_of(Infer)) == 1


def test_a_stop_requested_by_one_tool_waits_for_the_others() -> None:
    driver = Driver(TOGETHER)
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", ok(1), HookEffects(stop=ENOUGH))
    assert isinstance(driver.thread.stage, CallingTools)
    driver.tool("c2", ok(2))
    assert driver.result.termination == Stopped(value=ENOUGH)


def test_hooks_that_end_the_run_before_inference_leave_no_answer() -> None:
    driver = Driver(with_hooks())
    driver.model(says("").model_copy(update={"skipped": True}), HookEffects(block="not today"))
    assert (driver.result.termination, driver.texts) == (Blocked(value="not today", code="plugin"), ["Hello"])
    assert driver.event_types[-2:] == ["step_end", "run_finish"]
    assert "inference_complete" not in driver.event_types


def test_a_retry_calls_the_model_again_instead_of_keeping_its_answer() -> None:
    driver = after_inference(HookEffects(retry="Shorter."))
    assert isinstance(driver.thread.stage, Inferring)
    assert driver.tool_commands("c1") == []
    assert driver.texts == ["Hello", "Shorter."]
    assert (driver.thread.current.step.rounds, driver.notes) == (1, ["Shorter."])


def test_retries_are_limited_by_max_rounds() -> None:
    driver = Driver(with_hooks().model_copy(update={"max_rounds": 2}))
    driver.model(says("Long."), HookEffects(retry="Shorter."))
    driver.model(says("Long."), HookEffects(retry="Shorter."))
    assert driver.result.status_reason == "stopped:max_rounds"


@pytest.mark.parametrize("returning", [after_tool, after_hooks])
def test_a_retry_is_possible_only_after_an_inference(returning: Asked) -> None:
    driver = returning(HookEffects(retry="Shorter."))
    assert driver.notes == []


@pytest.mark.parametrize("returning", [after_tool, after_hooks])
def test_a_context_message_is_in_every_request_until_it_is_removed(returning: Asked) -> None:
    driver = returning(HookEffects(context=(HINT,)))
    assert driver.inference().context == (HINT,)
    driver.model(asks(call("c2")), HookEffects(forget=("hint", "nothing")))
    driver.tool("c2", ok(1))
    assert driver.inference().context == ()


def test_a_context_message_that_is_removed_and_added_at_once_is_sent() -> None:
    driver = after_tool(HookEffects(forget=("hint",), context=(HINT,)))
    assert driver.inference().context == (HINT,)


@EVERYWHERE
def test_permission_rules_hold_for_the_rest_of_the_run(returning: Asked) -> None:
    rule = Rule(tool="look", behavior=Behavior.DENY)
    driver = returning(HookEffects(permissions=(rule.model_copy(update={"behavior": Behavior.ASK}), rule)))
    assert driver.thread.rules == (rule,)


def test_permission_rules_end_with_the_run() -> None:
    driver = Driver(with_hooks(), request=THREAD)
    driver.model(says("Hi!"), HookEffects(permissions=(Rule(tool="look", behavior=Behavior.DENY),)))
    driver.submit("m2")
    assert driver.thread.rules == ()


@EVERYWHERE
def test_watchers_see_the_events_of_plugins_and_failed_hooks(returning: Asked) -> None:
    effects = HookEffects(
        events=(EmittedEvent(plugin="p", name="seen", payload=1),),
        failures=(HookFailure(plugin="q", phase="tool_gate", error="boom"),),
    )
    driver = returning(effects)
    assert driver.events_of("plugin_event", "hook_failed") == [
        PluginEvent(plugin="p", name="seen", payload=1),
        HookFailed(plugin="q", phase="tool_gate", error="boom"),
    ]


@pytest.mark.parametrize("returning", [after_tool, after_hooks])
def test_a_handoff_takes_effect_with_the_next_step(returning: Asked) -> None:
    driver = returning(HookEffects(handoff="billing"))
    assert driver.commands_of(ResolveAgent)[-1].agent_id == "billing"
    driver.resolve(BILLING)
    assert driver.inference().agent.agent_id == "billing"


def test_a_handoff_after_an_inference_takes_effect_after_its_calls() -> None:
    driver = after_inference(HookEffects(handoff="billing"))
    assert len(driver.commands_of(ResolveAgent)) == 1
    driver.tool("c1", ok(1))
    assert driver.commands_of(ResolveAgent)[-1].agent_id == "billing"


def test_effects_are_applied_when_all_earlier_calls_have_finished() -> None:
    driver = Driver(TOGETHER)
    driver.model(asks(call("c1"), call("c2"), call("c3")))
    driver.tool("c2", ok(1), state_effects(merge_op("notes", ["c2"])))
    assert driver.thread.agent_state.revision == 0
    driver.tool("c1", ok(1), state_effects(merge_op("notes", ["c1"])))
    assert driver.thread.agent_state.view.values == {"notes": ["c1", "c2"]}
    driver.tool("c3", ok(1), state_effects(merge_op("notes", ["c3"])))
    assert driver.thread.agent_state.view.values == {"notes": ["c1", "c2", "c3"]}


def test_a_call_without_a_result_does_not_delay_the_effects_of_others() -> None:
    driver = Driver(TOGETHER)
    driver.model(asks(call("c1"), call("c2"), call("c3")))
    driver.tool("c2", ok(1), state_effects(merge_op("count", 1)))
    driver.feed(WorkFailed(driver.work_id_of("c1"), "its worker was lost"))
    assert driver.thread.agent_state.view.values == {"count": 1}


@pytest.mark.parametrize("decision", [resume("c1"), reject("c1")])
def test_the_effects_of_calls_after_a_suspended_one_are_applied_after_its_decision(decision: Decision) -> None:
    driver = Driver(TOGETHER)
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", pending("s1"), state_effects(merge_op("notes", ["suspended"])))
    driver.tool("c2", ok(1), state_effects(merge_op("notes", ["c2"])))
    assert driver.thread.agent_state.view.values == {"notes": ["suspended"]}
    driver.decide(decision)
    if driver.thread.batch is not None:
        driver.tool("c1", ok(1), state_effects(merge_op("notes", ["c1"])))
    assert driver.thread.agent_state.view.values in (
        {"notes": ["suspended", "c1", "c2"]},
        {"notes": ["suspended", "c2"]},
    )


def test_the_effects_of_a_blocked_call_are_applied() -> None:
    driver = Driver(with_hooks())
    driver.model(asks(call("c1"), call("c2")))
    driver.block("c1", "locked", state_effects(set_op("draft", "a")))
    assert driver.result.termination == Blocked(value="locked")
    assert driver.thread.agent_state.view.values == {"draft": "a"}
    assert driver.event_types[-3:] == ["state_snapshot", "step_end", "run_finish"]


def test_the_effects_of_tools_are_applied_in_a_cancelled_run_too() -> None:
    driver = Driver(TOGETHER)
    driver.model(asks(call("c1"), call("c2"), call("c3"), call("c4")))
    driver.tool("c2", ok(1), state_effects(merge_op("notes", ["c2"])))
    driver.cancel("enough")
    driver.tool("c3", pending("s3"), state_effects(merge_op("notes", ["c3 waits"])))
    driver.block("c4", "locked", state_effects(merge_op("notes", ["c4"])))
    driver.tool("c1", ok(1), HookEffects(state=(merge_op("notes", ["c1"]),), stop=ENOUGH))
    assert driver.result.status_reason == "cancelled"
    assert driver.thread.agent_state.view.values == {"notes": ["c3 waits", "c1", "c2", "c4"]}
    assert CancelWork(driver.work_id_of("c1")) in driver.commands


def test_state_written_in_a_suspended_step_is_emitted_when_the_step_suspends() -> None:
    driver = Driver(with_hooks())
    driver.model(asks(call("c1")))
    driver.tool("c1", pending("s1"), state_effects(merge_op("count", 1)))
    assert driver.event_types[-3:] == ["state_snapshot", "step_end", "run_finish"]


def test_state_written_by_a_call_that_suspends_again_is_emitted() -> None:
    driver = Driver(with_hooks())
    driver.model(asks(call("c1")))
    driver.tool("c1", pending("s1"))
    driver.decide(resume("c1"))
    driver.tool("c1", pending("s2"), state_effects(merge_op("count", 1)))
    assert driver.event_types[-2:] == ["state_snapshot", "run_finish"]


def test_a_run_without_effects_ends_naturally() -> None:
    driver = Driver(with_hooks())
    driver.model(says("Hello!"), HookEffects())
    assert (driver.result.termination, driver.thread.agent_state.revision) == (NaturalEnd(), 0)


def test_a_context_message_that_is_too_large_is_dropped_and_reported() -> None:
    driver = Driver(AGENT)
    long = ContextMessage(key="long", content=(TextBlock(text="x" * 200_000),), persistent=True)
    applied = apply_effects(driver.thread, HookEffects(context=(long,)), source="infer-1")
    assert applied.thread.context.messages == driver.thread.context.messages
    (event,) = applied.events
    assert isinstance(event, HookFailed)
    assert "'long' is dropped" in event.error
