"""Where a run escapes the rules that bind it, what follows authority through the simulation says so."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from tests.loop import driving
from tests.loop.children import BILLING, agent_message, background_call, delegate_call, make_parent, spawn_call
from tests.loop.driving import THREAD, Driver, asks, call, ok, resume, says, thread_id_of
from tests.loop.subagents.test_authority import (
    ALLOW_PAY,
    ASK_LOOK,
    ASK_PAY,
    DENY_LOOK,
    DENY_PAY,
    governed,
    handed_off,
    resolve,
    thread_of,
)
from tests.simulation.authority import Authority, settings_of
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.decisions import Suspension, SuspensionTicket
from wakeful.contract.gates import Suspend
from wakeful.contract.hooks import HookEffects
from wakeful.contract.mail import Sender
from wakeful.contract.messages import ToolCall
from wakeful.contract.names import ACTION_PERMISSION
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.requests import RunRequest
from wakeful.contract.settings import RunSettings
from wakeful.loop.machine.advance import advance
from wakeful.loop.machine.facts import Fact, MailReceived
from wakeful.loop.machine.stages import Idle
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.thread.opening import begin

ALLOW_ANY = Rule(tool="*", behavior=Behavior.ALLOW)
DENIED = "{} {} ran, which something above denies"
UNDECIDED = "{} {} ran without the decision that something above asks for"


def problem_of(play: Callable[[RunRequest], object], *rules: Rule) -> str:
    """The first escape, if the request of the thread has these rules."""
    found: list[str] = []
    authority = Authority(lambda name: RunSettings(permissions=rules if name == "t1" else ()))

    def beginning(request: RunRequest, **given: Any) -> Advance:
        made = begin(request, **given)
        authority.note(None, None, made)
        return made

    def noting(thread: Thread, fact: Fact, *, now: int) -> Advance:
        made = advance(thread, fact, now=now)
        found.append(authority.note(thread, fact, made))
        return made

    with patch.object(driving, "advance", noting), patch.object(driving, "begin", beginning):
        play(THREAD.model_copy(update={"permissions": rules}))
    return next(filter(None, found), "")


def calling(
    *calls: ToolCall, agent: ResolvedAgent | None = None, effects: HookEffects | None = None
) -> Callable[[RunRequest], object]:
    """After a step with these effects, a model makes calls, which no gate judges, and those that are tools return."""

    def play(request: RunRequest) -> None:
        driver = Driver(agent or governed(), request=request)
        driver.model(asks(call("c0", "pay")), effects)
        driver.tool("c0", ok("paid"))
        driver.model(asks(*calls))
        for each in calls:
            if driver.tool_commands(each.id):
                driver.tool(each.id, ok("x"))

    return play


def added(*rules: Rule) -> HookEffects:
    return HookEffects(permissions=rules)


@pytest.mark.parametrize(
    ("started", "name"),
    [
        (call("c1"), "look"),
        (background_call("c1"), "dig"),
        (delegate_call("c1"), "agent_run_researcher"),
        (spawn_call("c1"), "spawn_agent"),
    ],
    ids=["tool", "background tool", "delegate", "background agent"],
)
def test_a_call_that_starts_although_it_is_denied_or_not_decided_is_a_problem(started: ToolCall, name: str) -> None:
    for behavior, problem in ((Behavior.DENY, DENIED), (Behavior.ASK, UNDECIDED)):
        assert problem_of(calling(started), Rule(tool=name, behavior=behavior)) == problem.format(name, "c1")
    assert problem_of(calling(started), Rule(tool="other", behavior=Behavior.DENY)) == ""


def test_a_rule_of_the_same_request_answers_what_it_asks_about() -> None:
    assert problem_of(calling(call("c1")), ASK_LOOK, ALLOW_ANY) == ""
    assert problem_of(calling(call("c1")), DENY_LOOK, ALLOW_ANY) == DENIED.format("look", "c1")


def test_a_rule_of_a_request_answers_what_the_agents_own_policy_asks_about() -> None:
    assert problem_of(calling(call("c1"), agent=governed(ASK_LOOK))) == UNDECIDED.format("look", "c1")
    assert problem_of(calling(call("c1"), agent=governed(ASK_LOOK)), ALLOW_ANY) == ""


def test_what_a_hook_allows_answers_the_agents_own_policy_and_no_request() -> None:
    assert problem_of(calling(call("c1"), agent=governed(ASK_LOOK), effects=added(ALLOW_ANY))) == ""
    assert problem_of(calling(call("c1"), effects=added(ALLOW_ANY)), ASK_LOOK) == UNDECIDED.format("look", "c1")


def test_what_a_hook_denies_or_asks_about_holds_from_the_next_step_on() -> None:
    assert problem_of(calling(call("c1"), effects=added(DENY_LOOK))) == DENIED.format("look", "c1")
    assert problem_of(calling(call("c1"), effects=added(ASK_LOOK))) == UNDECIDED.format("look", "c1")
    assert problem_of(calling(call("c1"), effects=added(DENY_PAY))) == ""


@pytest.mark.parametrize("always", [False, True])
def test_a_decision_answers_every_question(always: bool) -> None:
    suspension = Suspension(id="", action=ACTION_PERMISSION)

    def play(request: RunRequest) -> None:
        driver = Driver(governed(), request=request)
        ticket = SuspensionTicket(suspension=suspension, pending=call("c1"), remember="look")
        driver.model(asks(call("c1")).model_copy(update={"verdicts": {"c1": Suspend(ticket=ticket)}}))
        driver.decide(resume("c1").model_copy(update={"always": always}))
        driver.tool("c1", ok("x"))
        driver.model(asks(call("c2")))
        driver.tool("c2", ok("x"))

    assert problem_of(play, ASK_LOOK) == ("" if always else UNDECIDED.format("look", "c2"))


def test_a_decision_on_what_a_tool_asks_answers_no_rule() -> None:
    def play(request: RunRequest) -> None:
        driver = Driver(governed(), request=request)
        driver.model(asks(call("c1")))
        driver.tool("c1", driving.pending("c1"))
        driver.decide(resume("c1"))
        driver.tool("c1", ok("x"))

    assert problem_of(play, ASK_LOOK) == UNDECIDED.format("look", "c1")


def test_a_call_that_runs_without_the_decision_that_a_handoff_left_behind_is_a_problem() -> None:
    def play(_request: RunRequest) -> None:
        driver = handed_off(thread_of(ASK_LOOK))
        driver.model(asks(call("c1")))
        driver.tool("c1", ok("x"))

    assert problem_of(play) == UNDECIDED.format("look", "c1")


def test_a_sub_agent_that_starts_without_a_rule_or_with_a_weaker_one_is_a_problem() -> None:
    delegating = calling(delegate_call("c1"), agent=governed(ASK_LOOK), effects=added(DENY_PAY))
    assert problem_of(delegating) == ""
    with patch.object(Thread, "passed_on", property(lambda _thread: (ASK_LOOK,))):
        assert problem_of(delegating) == "a sub-agent starts without the rule 'deny pay'"
    with patch.object(Thread, "passed_on", property(lambda _thread: (ASK_LOOK, ASK_PAY, ALLOW_PAY))):
        assert problem_of(delegating) == "a sub-agent starts without the rule 'deny pay'"


@pytest.mark.parametrize(
    ("sender", "is_bound"),
    [(thread_id_of("bg_0"), True), (f"{thread_id_of('bg_0')}/leaf-1", True), ("t1/other", False), ("t2", False)],
    ids=["task", "below a task", "another descendant", "stranger"],
)
def test_mail_of_a_running_task_begins_a_run_that_is_bound_as_the_one_that_started_it(
    sender: str, is_bound: bool
) -> None:
    def play(request: RunRequest) -> None:
        driver = Driver(make_parent(max_rounds=1), request=request)
        driver.model(asks(spawn_call("c1")))
        mail = agent_message().model_copy(update={"sender": Sender(agent_id="a", thread_id=sender)})
        driver.feed(MailReceived(mail))
        if isinstance(driver.thread.stage, Idle):
            return  # the next run reads it
        resolve(driver, BILLING)
        driver.model(asks(call("c2")))
        driver.tool("c2", ok("x"))
        driver.model(says("Done."))

    assert problem_of(play, DENY_LOOK) == (DENIED.format("look", "c2") if is_bound else "")


def test_senders_set_rules_of_every_behavior_and_allow_everything() -> None:
    rules = [rule for number in range(50) for rule in settings_of("seed", f"m{number}").permissions]
    assert {rule.behavior for rule in rules} == set(Behavior)
    assert ALLOW_ANY in rules
