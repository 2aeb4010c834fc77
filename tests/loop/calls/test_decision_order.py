"""Repeated, early and late decisions: no-ops, held, or refused, and never applied to another suspension."""

from collections.abc import Callable

import pytest

from tests.loop.driving import (
    LIVE_STAGES,
    PARALLEL,
    Driver,
    asks,
    awaiting_decisions,
    call,
    calling_tools,
    cancelling,
    make_agent,
    ok,
    pending,
    reject,
    resume,
    two_suspended,
)
from wakeful.contract.base import replace
from wakeful.contract.decisions import Decision, DecisionAction, ResumeMode
from wakeful.contract.runs import ToolCallStatus
from wakeful.contract.tools import ToolResult
from wakeful.loop.machine.facts import LoopFailed
from wakeful.loop.machine.stages import AwaitingDecisions, Inferring
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.thread.views import status_view


def repeated(thread: Thread) -> Thread:
    """The thread, whose newest decision was sent again."""
    *others, newest = thread.outcomes
    return replace(thread, outcomes=(*others, newest.model_copy(update={"repeats": 1})))


@pytest.mark.parametrize("again", ["c1", "s1"], ids=["call id", "suspension id"])
@pytest.mark.parametrize("action", DecisionAction)
def test_a_repeated_decision_is_a_no_op(again: str, action: DecisionAction) -> None:
    """B-320, H-03, I-05"""
    driver = two_suspended()
    driver.decide(Decision(target="c1", action=action, decision_id="d1"))
    before = driver.thread
    assert driver.decide(Decision(target=again, action=action, decision_id="d1")) == Advance(repeated(before))


def test_a_repeat_in_a_batch_does_not_affect_a_new_decision() -> None:
    """H-03"""
    driver = two_suspended()
    driver.decide(reject("c1", id="d1"))
    driver.decide(reject("c1", id="d1"), reject("c2", id="d1"))
    assert driver.tool_results == [("c1", "cancelled by decision"), ("c2", "cancelled by decision")]


def test_a_repeat_is_still_a_repeat_when_the_call_has_suspended_again() -> None:
    """H-03, B-333"""
    driver = awaiting_decisions()
    driver.decide(resume("c1", id="d1"))
    driver.tool("c1", pending("s1"))
    before = driver.thread
    assert driver.decide(resume("c1", id="d1")) == Advance(repeated(before))
    driver.decide(resume("c1", id="d2"))
    assert len(driver.tool_commands("c1")) == 3


def test_a_decision_that_arrives_before_its_call_suspends_is_held() -> None:
    """B-328"""
    driver = Driver()
    driver.model(asks(call("c1")))
    assert driver.decide(resume("c1", {"approved": True})).events == ()
    driver.tool("c1", pending())
    assert [command.resume.result for command in driver.tool_commands("c1") if command.resume] == [{"approved": True}]
    assert driver.event_types[-3:] == ["run_finish", "run_start", "tool_call_decided"]
    assert driver.thread.current.held == ()


def test_a_decision_that_arrives_before_its_call_starts_is_held_too() -> None:
    """B-328"""
    driver = Driver()
    driver.model(asks(call("c1"), call("c2", "pick")))
    driver.decide(resume("c2", "red"))
    driver.tool("c1", ok("sunny"))
    assert driver.tool_results == [("c1", "sunny"), ("c2", "red")]


@pytest.mark.parametrize("target", ["c2", "suspend_c1"], ids=["call of a later step", "suspension to come"])
def test_a_decision_for_a_call_or_suspension_that_does_not_exist_yet_is_refused(target: str) -> None:
    """B-323, I-05: held, it would decide a suspension that its sender cannot have seen."""
    driver = Driver()
    driver.model(asks(call("c1")))
    driver.decide(resume(target))
    assert driver.refusal_reasons == [f"unknown key: tool call or suspension {target!r} not found"]
    assert driver.thread.current.held == ()


def test_a_batch_is_held_as_a_whole() -> None:
    """B-328, H-02"""
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", pending())
    driver.decide(reject("c1"), reject("c2"))
    assert driver.call_statuses == [ToolCallStatus.SUSPENDED, ToolCallStatus.RUNNING]
    driver.tool("c2", pending())
    assert driver.tool_results == [("c1", "cancelled by decision"), ("c2", "cancelled by decision")]


def test_a_held_decision_for_a_call_that_never_suspends_is_refused() -> None:
    """I-05"""
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2")))
    driver.decide(resume("c1"))
    driver.tool("c1", ok("sunny"))
    assert driver.refusal_reasons == ["call 'c1' has already finished (succeeded)"]


def test_a_held_decision_is_refused_when_the_run_ends() -> None:
    driver = calling_tools()
    driver.decide(resume("c1"))
    driver.feed(LoopFailed("boom"))
    assert (driver.refusal_reasons, driver.thread.current.held) == (["the run has ended"], ())


@pytest.mark.parametrize(
    "result",
    [ok("sunny"), pending("s1", mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT)],
    ids=["ended by the tool", "ended by the first of them"],
)
def test_run_finish_is_the_last_event_even_if_decisions_were_held(result: ToolResult) -> None:
    """B-042, I-07"""
    driver = Driver(make_agent(max_rounds=1))
    driver.model(asks(call("c1")))
    driver.decide(resume("c1", "first"))
    driver.decide(resume("c1", "second"))
    driver.tool("c1", result)
    assert driver.event_types[-1] == "run_finish"
    assert driver.refusal_reasons[-1] == "the run has ended"


def test_held_batches_are_applied_in_order_of_arrival_and_a_repeat_once() -> None:
    """B-328, H-03"""
    driver = Driver()
    driver.model(asks(call("c1")))
    driver.decide(resume("c1", "first", id="d1"))
    driver.decide(resume("c1", "first", id="d1"))
    driver.decide(resume("c1", "second", id="d2"))
    driver.tool("c1", pending())
    assert [command.resume.result for command in driver.tool_commands("c1") if command.resume] == ["first"]


@pytest.mark.parametrize(("revision", "at_once"), [(2, 1), (1, 0)], ids=["now", "before"])
def test_a_batch_is_refused_when_a_later_one_decides_one_of_its_calls(revision: int, at_once: int) -> None:
    """H-02: runs of the first revision judge the earlier batch only after the next fact."""
    driver = Driver(PARALLEL, revision=revision)
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", pending())
    driver.decide(reject("c1"), reject("c2"))
    driver.decide(resume("c1"))
    reasons = ["call 'c1' was already approved"]
    assert driver.refusal_reasons == reasons[:at_once]
    driver.tool("c2", pending())
    assert driver.refusal_reasons == reasons
    assert driver.call_statuses == [ToolCallStatus.RUNNING, ToolCallStatus.SUSPENDED]


def test_a_decision_for_a_run_that_is_being_cancelled_is_refused() -> None:
    driver = cancelling()
    driver.decide(resume("c1"))
    assert driver.refusal_reasons == ["the run is being cancelled"]


def test_a_held_decision_is_refused_when_the_run_is_cancelled() -> None:
    driver = Driver()
    driver.model(asks(call("c1")))
    driver.decide(resume("c1"))
    driver.cancel()
    assert driver.refusal_reasons == ["the run is being cancelled"]


@pytest.mark.parametrize("stage", LIVE_STAGES)
def test_no_decision_ends_a_run(stage: str) -> None:
    """B-325, H-02, I-05"""
    driver = LIVE_STAGES[stage]()
    before = driver.thread.stage
    driver.decide(resume("unknown"))
    driver.decide(reject("unknown"), reject("missing"))
    assert driver.thread.stage == before


@pytest.mark.parametrize("target", ["c1", "s1"], ids=["call id", "suspension id"])
def test_a_second_decision_for_one_suspension_never_applies_to_the_next(target: str) -> None:
    """I-05: pressing a button twice must not approve the next suspension of the tool."""
    driver = awaiting_decisions()
    driver.decide(resume(target))
    driver.decide(resume(target))
    driver.tool("c1", pending("s1", message="And this, too?"))
    assert len(driver.tool_commands("c1")) == 2
    assert isinstance(driver.thread.stage, AwaitingDecisions)


AGAIN = {"without an id": None, "with another id": "d2", "with the same id": "d1"}


@pytest.mark.parametrize("id", AGAIN.values(), ids=AGAIN)
@pytest.mark.parametrize("stage", range(4), ids=["resumed", "finished", "second running", "second suspended"])
def test_a_late_decision_never_applies_to_a_later_call_with_the_same_suspension_id(stage: int, id: str | None) -> None:
    """I-05, H-03: pressing a button twice must not approve a later payment."""
    driver = Driver()
    driver.model(asks(call("c1", "pay")))
    driver.tool("c1", pending("approve"))
    driver.decide(resume("approve", id="d1"))
    following: list[Callable[[], object]] = [
        lambda: driver.tool("c1", ok("paid")),
        lambda: driver.model(asks(call("c2", "pay"))),
        lambda: driver.tool("c2", pending("approve")),
    ]
    following.insert(stage, lambda: driver.decide(resume("approve", id=id)))
    for happens in following:
        happens()
    assert len(driver.tool_commands("c2")) == 1
    assert isinstance(driver.thread.stage, AwaitingDecisions)


@pytest.mark.parametrize("id", AGAIN.values(), ids=AGAIN)
def test_a_late_decision_never_applies_to_another_call_of_the_step_with_the_same_suspension_id(id: str | None) -> None:
    """I-05, H-03"""
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1", "pay"), call("c2", "pay")))
    driver.tool("c1", pending("approve"))
    driver.decide(resume("approve", id="d1"))
    driver.tool("c2", pending("approve"))
    driver.decide(resume("approve", id=id))
    assert len(driver.tool_commands("c2")) == 1


def test_a_later_call_is_decided_by_the_id_in_its_own_ticket_whatever_the_decision_id() -> None:
    """H-03: a repeat is the same decision id for the same call."""
    driver = Driver()
    for id in ("c1", "c2"):
        driver.model(asks(call(id, "pay")))
        driver.tool(id, pending("approve"))
        (ticket,) = status_view(driver.thread).pending
        driver.decide(resume(ticket.suspension.id, id="yes"))
        driver.tool(id, ok("paid"))
    assert (len(driver.tool_commands("c1")), len(driver.tool_commands("c2"))) == (2, 2)


@pytest.mark.parametrize("target", ["c1", "s1"])
def test_a_decision_for_a_call_of_an_earlier_step_is_refused(target: str) -> None:
    """B-327"""
    driver = awaiting_decisions()
    driver.decide(resume("c1"))
    driver.tool("c1", ok("sunny"))
    driver.decide(resume(target))
    assert driver.refusal_reasons == [f"call {target!r} was already approved"]
    assert isinstance(driver.thread.stage, Inferring)
