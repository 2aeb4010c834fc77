"""Who decided a call is on record: an event has the whole decision, and the call's result and the status show it."""

import pytest
from pydantic import JsonValue

from tests.loop.driving import (
    PARALLEL,
    THREAD,
    Driver,
    after_continue_as_new,
    asks,
    asks_gated,
    awaiting_decisions,
    call,
    make_agent,
    make_ticket,
    ok,
    pending,
    pending_with,
    reject,
    resume,
    says,
)
from wakeful.contract.applied_decisions import (
    ACTOR_LENGTH,
    ARGUMENTS_LENGTH,
    REASON_LENGTH,
    AppliedDecision,
    DecisionAction,
    DecisionChannel,
)
from wakeful.contract.decisions import Decision, Expiry, ExpiryAction, ResumeMode
from wakeful.contract.events import ToolCallDecided
from wakeful.contract.gates import Suspend
from wakeful.contract.messages import Role
from wakeful.contract.permissions import Behavior, PermissionPolicy, Rule
from wakeful.contract.views import DecidedCall
from wakeful.loop.machine import revisions
from wakeful.loop.thread.views import SHOWN_DECISIONS, status_view, visible_messages

ASKS_FOR_LOOKS = make_agent().model_copy(
    update={"permissions": PermissionPolicy(rules=(Rule(tool="look", behavior=Behavior.ASK),))}
)


def decided(driver: Driver) -> list[AppliedDecision]:
    return [event.decision for event in driver.events_of("tool_call_decided") if isinstance(event, ToolCallDecided)]


def applied(driver: Driver, **fields: object) -> AppliedDecision:
    known = {"action": DecisionAction.RESUME, "at": driver.now, "channel": DecisionChannel.SIGNAL}
    return AppliedDecision.model_validate(known | fields)


def of_results(driver: Driver) -> list[tuple[AppliedDecision, ...]]:
    return [each.decisions for each in visible_messages(driver.thread) if each.role is Role.TOOL]


def test_an_event_says_who_decided_what_when_why_and_by_which_way() -> None:
    """B-367"""
    driver = awaiting_decisions()
    driver.decide(
        Decision(
            target="s1",
            action="resume",
            actor="ann",
            reason="she called",
            arguments={"at": "Rome"},
            decision_id="d1",
            channel="cli",
        )
    )
    decision = applied(
        driver, actor="ann", reason="she called", arguments={"at": "Rome"}, decision_id="d1", channel="cli"
    )
    event = ToolCallDecided(call_id="c1", tool_name="look", suspension_id="s1", decision=decision)
    assert driver.events_of("tool_call_decided") == [event]
    assert driver.event_types[-2:] == ["run_start", "tool_call_decided"]


def test_a_decision_without_a_channel_came_by_a_signal() -> None:
    driver = awaiting_decisions()
    driver.decide(reject("c1", "too dear"))
    assert decided(driver) == [applied(driver, action="cancel", reason="too dear")]


@pytest.mark.parametrize("channel", ["deadline", "rule"])
def test_no_client_decides_by_what_only_the_runtime_decides_by(channel: str) -> None:
    with pytest.raises(ValueError, match=f"no client decides by '{channel}'"):
        Decision.model_validate({"target": "c1", "action": "resume", "channel": channel})


@pytest.mark.parametrize(
    ("mode", "arguments", "result"),
    [
        (ResumeMode.REPLAY_TOOL_CALL, None, {"at": "Rome"}),
        (ResumeMode.PASS_DECISION_TO_TOOL, {"at": "Rome"}, None),
        (ResumeMode.USE_DECISION_AS_TOOL_RESULT, None, None),
    ],
)
def test_what_was_answered_is_on_record_once(mode: ResumeMode, arguments: JsonValue, result: JsonValue) -> None:
    """As the new arguments, or for the tool to read; the result of the call is in `tool_call_resumed`."""
    driver = Driver()
    driver.model(asks(call("c1")))
    driver.tool("c1", pending("s1", mode=mode))
    driver.decide(resume("c1", {"at": "Rome"}))
    assert decided(driver) == [applied(driver, arguments=arguments, result=result)]


@pytest.mark.parametrize("runs", [True, False])
def test_a_denial_has_what_the_tool_reads_that_runs_nevertheless(runs: bool) -> None:
    driver = Driver()
    driver.model(asks(call("c1")))
    driver.tool("c1", pending_with(make_ticket("s1").model_copy(update={"runs_if_denied": runs})))
    driver.decide(reject("c1", result={"because": 1}))
    assert decided(driver) == [applied(driver, action="cancel", result={"because": 1} if runs else None)]


def test_a_decision_that_is_repeated_or_refused_is_no_decision() -> None:
    driver = awaiting_decisions()
    driver.decide(resume("c1", id="d1", actor="ann"))
    driver.decide(resume("c1", id="d1", actor="ann"))
    driver.decide(reject("c1", id="d2"))
    assert [each.decision_id for each in decided(driver)] == ["d1"]


@pytest.mark.parametrize(
    ("then", "action", "result"),
    [
        (ExpiryAction.CANCEL, "cancel", None),
        (ExpiryAction.DENY, "cancel", None),
        (ExpiryAction.RESUME, "resume", "yes"),
    ],
)
def test_a_deadline_decides_too(then: ExpiryAction, action: str, result: JsonValue) -> None:
    driver = Driver()
    driver.model(asks(call("c1")))
    expiry = Expiry(after_seconds=1.5, then=then, result=result)
    driver.tool("c1", pending_with(make_ticket("s1", expiry=expiry)))
    driver.wait(1_500)
    reason = "no decision within 1.5 s"
    assert decided(driver) == [applied(driver, action=action, channel="deadline", reason=reason, result=result)]


def test_a_rule_that_a_decision_allowed_decides_later_calls() -> None:
    """A person has allowed them; the decision that added the rule says who."""
    driver = Driver(ASKS_FOR_LOOKS, request=THREAD)
    ask = Suspend(ticket=make_ticket("s1", remember="look"))
    driver.model(asks_gated(call("c1"), c1=ask))
    driver.decide(resume("c1", actor="ann").model_copy(update={"always": True}))
    (first,) = decided(driver)
    assert (first.always, first.rule, first.actor) == (True, "look", "ann")
    driver.tool("c1", ok("sunny"))
    driver.model(asks(call("c2"), call("c3", "pay")))
    assert decided(driver)[1:] == [applied(driver, channel="rule", rule="look")]
    rule = driver.events_of("tool_call_decided")[-1]
    assert isinstance(rule, ToolCallDecided)
    assert (rule.call_id, rule.suspension_id) == ("c2", None)


def test_a_rule_of_the_agent_itself_is_no_decision() -> None:
    allows = Rule(tool="pay", behavior=Behavior.ALLOW)
    driver = Driver(ASKS_FOR_LOOKS, request=THREAD.model_copy(update={"permissions": (allows,)}))
    driver.model(asks(call("c1", "pay")))
    assert decided(driver) == []


def test_the_result_of_a_call_has_every_decision_about_it() -> None:
    driver = Driver(PARALLEL, request=THREAD)
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", pending("s1"))
    driver.decide(resume("c1", actor="ann"))
    driver.tool("c1", pending("s2"))
    driver.decide(resume("c1", actor="bob"))
    driver.tool("c1", ok("sunny"))
    assert [[each.actor for each in result] for result in of_results(driver)] == [["ann", "bob"]]
    driver.tool("c2", ok("rainy"))
    assert [[each.actor for each in result] for result in of_results(driver)] == [["ann", "bob"], []]


def test_a_run_that_is_cancelled_keeps_who_decided() -> None:
    driver = awaiting_decisions()
    driver.decide(resume("c1", actor="ann"))
    driver.cancel()
    driver.tool_cancelled("c1")
    assert [[each.actor for each in result] for result in of_results(driver)] == [["ann"]]


def test_a_model_is_not_given_who_decided() -> None:
    """History spells short results out, and must not grow by that."""
    driver = awaiting_decisions()
    driver.decide(reject("c1"))
    sent = driver.inference().appended[-1]
    assert sent == driver.thread.transcript.messages[-1].model_copy(update={"decisions": ()})


def test_what_is_long_is_cut_in_the_conversation_and_whole_in_the_event() -> None:
    driver = awaiting_decisions()
    arguments: JsonValue = {"at": "R" * 5_000}
    long = Decision(target="c1", action="resume", actor="a" * 900, reason="r" * 900, arguments=arguments)
    driver.decide(long)
    (event,) = decided(driver)
    assert (event.arguments, len(event.reason or ""), len(event.actor or "")) == (arguments, 900, 900)
    (shown,) = (each.decision for each in status_view(driver.thread).decisions)
    assert (len(shown.reason or ""), len(shown.actor or "")) == (REASON_LENGTH, ACTOR_LENGTH)
    assert shown.arguments == {"cut": '{"at":"' + "R" * (ARGUMENTS_LENGTH - 8) + "…"}


def test_a_status_has_the_newest_decisions_of_its_run_in_every_step_and_execution() -> None:
    driver = Driver(PARALLEL, request=THREAD)
    calls = [f"c{number}" for number in range(SHOWN_DECISIONS)]
    driver.model(asks(*map(call, calls)))
    for id in calls:
        driver.tool(id, pending(f"suspension of {id}"))
    for id in calls:
        driver.decide(reject(id))
    driver.model(asks(call("last")))
    driver.tool("last", pending("suspension of the last"))
    driver.decide(resume("last", actor="zoe"))
    for thread in (driver.thread, after_continue_as_new(driver.thread)):
        shown = status_view(thread).decisions
        assert [each.call_id for each in shown] == [*calls[1:], "last"]
        assert shown[-1] == DecidedCall(call_id="last", tool_name="look", decision=applied(driver, actor="zoe"))


def test_a_status_has_no_decision_of_an_earlier_run() -> None:
    driver = Driver(request=THREAD)
    driver.model(asks(call("c1")))
    driver.tool("c1", pending("s1"))
    driver.decide(reject("c1"))
    driver.model(says("Then not."))
    assert len(status_view(driver.thread).decisions) == 1
    driver.submit("m1")
    driver.resolve()
    assert status_view(driver.thread).decisions == ()


def test_the_events_of_an_earlier_release_stay_as_they_were() -> None:
    """Watchers resume by event number."""
    driver = Driver(request=THREAD, revision=revisions.DECISIONS_ARE_EVENTS - 1)
    driver.model(asks(call("c1")))
    driver.tool("c1", pending("s1"))
    driver.decide(reject("c1"))
    assert (decided(driver), of_results(driver)) == ([], [()])
