"""A call that was decided is not decided again: the refusal says what was decided, by whom and when."""

from collections.abc import Callable

import pytest

from tests.loop.driving import (
    PARALLEL,
    THREAD,
    Driver,
    after_continue_as_new,
    asks,
    awaiting_decisions,
    call,
    ok,
    pending,
    reject,
    resume,
    says,
)
from wakeful.contract.applied_decisions import ACTOR_LENGTH, AppliedDecision
from wakeful.contract.decisions import Decision, DecisionAction
from wakeful.contract.outcomes import Outcome
from wakeful.contract.remembered_outcomes import OUTCOMES_BYTES, newest
from wakeful.loop.machine.state import Thread
from wakeful.loop.thread.opening import begin
from wakeful.loop.thread.views import carryover


def outcome(thread: Thread, id: str) -> Outcome:
    (found,) = (known for known in thread.outcomes if known.id == id)
    return found


def decided(*, by: str | None = "ann", id: str | None = "d1") -> Driver:
    driver = awaiting_decisions()
    driver.decide(resume("c1", id=id, actor=by))
    return driver


def finished() -> Driver:
    driver = Driver(PARALLEL, request=THREAD)
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", pending("s1"))
    driver.decide(resume("c1", id="d1", actor="ann"))
    driver.tool("c1", ok("sunny"))
    return driver


def in_the_next_step() -> Driver:
    driver = decided()
    driver.tool("c1", ok("sunny"))
    return driver


def ended() -> Driver:
    driver = in_the_next_step()
    driver.model(says("It is sunny."))
    return driver


def in_the_next_run() -> Driver:
    driver = finished()
    driver.tool("c2", ok("rainy"))
    driver.model(says("It is sunny."))
    driver.submit("m1")
    driver.resolve()
    return driver


LATER: dict[str, Callable[[], Driver]] = {
    "while it runs": decided,
    "once it has finished": finished,
    "in the next step": in_the_next_step,
    "after the run": ended,
    "in the next run": in_the_next_run,
}


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("target", ["c1", "s1"])
def test_the_refusal_says_what_was_decided_by_whom_and_when(later: str, target: str) -> None:
    driver = LATER[later]()
    applied = outcome(driver.thread, "d1").decided
    assert applied is not None
    assert (applied.action, applied.actor, applied.at > 0) == (DecisionAction.RESUME, "ann", True)
    driver.decide(reject(target, id="d2"))
    refused = outcome(driver.thread, "d2")
    assert (refused.reason, refused.decided) == (f"call {target!r} was already approved by 'ann'", applied)
    assert driver.refusal_reasons == [refused.reason]


def test_the_time_is_that_of_the_decision() -> None:
    driver = awaiting_decisions()
    driver.decide(reject("c1", id="d1"))
    at = driver.now
    driver.model(says("Too bad."))
    assert outcome(driver.thread, "d1").decided == AppliedDecision(action=DecisionAction.CANCEL, at=at)


def test_a_decision_without_an_id_is_remembered_too() -> None:
    driver = decided(by="bob", id=None)
    driver.decide(resume("c1"))
    assert driver.refusal_reasons == ["call 'c1' was already approved by 'bob'"]


def test_the_newest_decision_counts_for_a_call_that_was_suspended_twice() -> None:
    driver = decided(by="ann")
    driver.tool("c1", pending("s2"))
    driver.decide(resume("c1", id="d2", actor="bob"))
    driver.decide(resume("c1", id="d3", actor="eve"))
    assert driver.refusal_reasons == ["call 'c1' was already approved by 'bob'"]


def test_it_survives_continue_as_new_and_a_wake() -> None:
    thread = after_continue_as_new(ended().thread)
    kept = outcome(thread, "d1").decided
    assert kept is not None
    assert kept.actor == "ann"
    woken = begin(THREAD, thread_id="t1", run_id="woken", carryover=carryover(thread)).thread
    assert outcome(woken, "d1").decided == kept


def test_a_long_name_is_cut_and_all_of_them_have_a_limit() -> None:
    driver = awaiting_decisions()
    long = Decision(target="c1", action=DecisionAction.RESUME, decision_id="d1", actor="n" * 900)
    driver.decide(long)
    applied = outcome(driver.thread, "d1")
    assert applied.decided is not None
    assert len(applied.decided.actor or "") == ACTOR_LENGTH
    many = newest(tuple(applied.model_copy(update={"id": f"d{number}"}) for number in range(1000)))
    size = sum(len(known.model_dump_json()) for known in many)
    assert OUTCOMES_BYTES * 0.7 < size < OUTCOMES_BYTES * 1.05
