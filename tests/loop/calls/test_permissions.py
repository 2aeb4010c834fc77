"""Permission rules: commands that gates check have those of the thread and the run, and a decision can add one."""

import pytest

from tests.loop.driving import (
    REQUEST,
    THREAD,
    Driver,
    after_continue_as_new,
    asks,
    awaiting_decisions,
    call,
    make_agent,
    make_ticket,
    ok,
    pending_with,
    reject,
    resume,
)
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.decisions import Decision
from wakeful.contract.hooks import HookEffects
from wakeful.contract.permissions import Behavior, PermissionPolicy, Rule
from wakeful.loop.machine.state import KEPT_RULES


def rule(tool: str, behavior: str = "allow") -> Rule:
    return Rule(tool=tool, behavior=Behavior(behavior))


def always(decision: Decision) -> Decision:
    return decision.model_copy(update={"always": True})


def remembering(driver: Driver, call_id: str, pattern: str) -> None:
    driver.model(asks(call(call_id)))
    driver.tool(call_id, pending_with(make_ticket(f"s-{call_id}", remember=pattern)))
    driver.decide(always(resume(call_id)))


def test_a_decision_with_always_adds_a_rule_to_the_thread_that_outlives_the_run() -> None:
    driver = Driver(request=THREAD)
    remembering(driver, "c1", "look(at = Paris)")
    assert driver.tool_commands("c1")[-1].permissions == (rule("look(at = Paris)"),)
    driver.cancel()
    driver.tool_cancelled("c1")
    driver.submit("m1")
    driver.resolve()
    assert driver.inference().permissions == (rule("look(at = Paris)"),)
    assert after_continue_as_new(driver.thread).permissions == driver.thread.permissions


def test_a_rule_of_the_run_overrides_the_threads_for_the_same_tool_and_ends_with_the_run() -> None:
    request = THREAD.model_copy(update={"permissions": (rule("look", "deny"), rule("pay", "ask"))})
    driver = Driver(request=request)
    assert driver.inference().permissions == (rule("look", "deny"), rule("pay", "ask"))
    remembering(driver, "c1", "look")
    assert driver.tool_commands("c1")[-1].permissions == (rule("look", "deny"), rule("pay", "ask"))
    assert after_continue_as_new(driver.thread).current.permissions == driver.thread.current.permissions
    driver.cancel()
    driver.tool_cancelled("c1")
    driver.submit("m1")
    driver.resolve()
    assert driver.inference().permissions == (rule("look"),)


def test_a_rule_that_a_hook_adds_does_not_replace_one_of_the_request_that_denies() -> None:
    """B-803"""
    driver = Driver(request=REQUEST.model_copy(update={"permissions": (rule("look", "deny"), rule("pay", "ask"))}))
    effects = HookEffects(permissions=(rule("look"), rule("pay")))
    driver.model(asks(call("c1")).model_copy(update={"effects": effects}))
    assert driver.tool_commands("c1")[-1].permissions == (rule("look", "deny"), rule("pay"))


def test_a_thread_keeps_each_rule_once_and_a_limited_number() -> None:
    driver = Driver(make_agent(max_rounds=0))
    for number in range(KEPT_RULES + 1):
        remembering(driver, f"c{number}", f"tool_{number}")
        driver.tool(f"c{number}", ok("fine"))
    remembering(driver, "again", "tool_7")
    kept = driver.thread.permissions
    assert (len(kept), kept[0], kept[-1]) == (KEPT_RULES, rule("tool_1"), rule("tool_7"))


@pytest.mark.parametrize(
    ("decision", "reason"),
    [
        (always(reject("c1")), "call 'c1': 'always' is only allowed with the action 'resume'"),
        (
            always(resume("c1")),
            "call 'c1': its ticket names no rule to remember, so 'always' is not possible",
        ),
    ],
)
def test_always_requires_a_resume_and_a_rule_in_the_ticket(decision: Decision, reason: str) -> None:
    driver = awaiting_decisions()
    before = driver.thread
    driver.decide(decision)
    assert (driver.refusal_reasons, driver.thread.stage, driver.thread.permissions) == ([reason], before.stage, ())


@pytest.mark.parametrize(
    ("agent", "permissions", "is_told"),
    [
        (make_agent(), (), False),
        (make_agent(gates=("office_hours",)), (), True),
        (make_agent().model_copy(update={"permissions": PermissionPolicy()}), (), True),
        (make_agent(), (rule("look", "deny"),), True),
    ],
    ids=["no gates", "gates", "permissions", "rules of the run"],
)
def test_a_tool_call_has_the_agent_whose_gates_run_before_it(
    agent: ResolvedAgent, permissions: tuple[Rule, ...], is_told: bool
) -> None:
    driver = Driver(agent, request=REQUEST.model_copy(update={"permissions": permissions}))
    driver.model(asks(call("c1")))
    (run,) = driver.tool_commands("c1")
    assert (run.agent, run.permissions) == (agent if is_told else None, permissions)
