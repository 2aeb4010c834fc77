"""What a client sends for one run alone: the thread refuses it unless that is its newest run."""

from collections.abc import Callable

import pytest

from tests.loop.children import background_call, idle_with_task
from tests.loop.driving import (
    LIVE_STAGES,
    THREAD,
    Driver,
    asks,
    awaiting_decisions,
    call,
    done,
    idle,
    pending,
    resume,
    without_run,
)
from wakeful.contract.decisions import Refusal
from wakeful.contract.events import SignalRefused
from wakeful.contract.outcomes import OutcomeStatus
from wakeful.contract.runs import Cancelled
from wakeful.loop.machine import revisions
from wakeful.loop.machine.facts import CancelRequested, DecisionsReceived
from wakeful.loop.thread.views import status_view


def run_id(driver: Driver) -> str:
    return status_view(driver.thread).identity.run_id


def in_second_run() -> Driver:
    driver = idle()
    driver.submit("m1")
    driver.resolve()
    return driver


def is_refused(driver: Driver, signal: str, reason: str) -> bool:
    """Whether the last fact was refused for this reason, and had no other effect."""
    assert driver.thread.refusals == (Refusal(signal=signal, reason=reason, at=driver.now),)
    assert driver.last.events == (SignalRefused(signal=signal, reason=reason),)
    return driver.last.commands == ()


@pytest.mark.parametrize("stage", LIVE_STAGES)
def test_a_cancel_of_the_newest_run_cancels_it(stage: str) -> None:
    """B-611"""
    driver = LIVE_STAGES[stage]()
    driver.feed(CancelRequested("enough", run_id=run_id(driver)))
    driver.cancel_in_flight()
    assert driver.result.termination == Cancelled()
    assert driver.thread.refusals == ()


def test_a_cancel_of_an_earlier_run_is_refused_and_names_both() -> None:
    """B-611"""
    driver = in_second_run()
    before, newest = driver.thread, run_id(driver)
    assert newest == "r1.2"
    driver.feed(CancelRequested(run_id="r1"))
    reason = "it is for run 'r1', but the newest run of the thread is 'r1.2'"
    assert is_refused(driver, "cancel", reason)
    assert driver.thread.stage == before.stage
    driver.feed(CancelRequested(run_id=newest))
    driver.cancel_in_flight()
    assert driver.result.termination == Cancelled()


@pytest.mark.parametrize("made", [idle, lambda: idle_with_task(background_call("c1"))], ids=["idle", "with a task"])
def test_a_cancel_of_a_run_that_has_ended_is_refused_and_stops_no_task(made: Callable[[], Driver]) -> None:
    """B-611"""
    driver = made()
    driver.feed(CancelRequested(run_id=run_id(driver)))
    assert is_refused(driver, "cancel", f"it is for run {run_id(driver)!r}, which has ended")


def test_a_cancel_of_a_run_is_refused_when_none_has_begun_or_the_thread_has_ended() -> None:
    driver = without_run()
    driver.feed(CancelRequested(run_id="r1"))
    assert is_refused(driver, "cancel", "it is for run 'r1', but no run is under way")
    for id, reason in (
        ("r1", "the run has ended"),
        ("r0", "it is for run 'r0', but the newest run of the thread is 'r1'"),
    ):
        driver = done()
        driver.feed(CancelRequested(run_id=id))
        assert is_refused(driver, "cancel", reason)


def test_decisions_about_the_newest_run_are_applied() -> None:
    """B-611"""
    driver = awaiting_decisions()
    driver.feed(DecisionsReceived((resume("c1"),), run_id=run_id(driver)))
    assert (driver.thread.refusals, len(driver.tool_commands("c1"))) == ((), 2)


def test_decisions_about_another_run_are_refused_also_before_their_calls() -> None:
    """B-611"""
    reason = "it is for run 'r0', but the newest run of the thread is 'r1'"
    for driver in (awaiting_decisions(), done(), Driver(request=THREAD)):
        driver.feed(DecisionsReceived((resume("c1", id="d1"),), run_id="r0"))
        assert is_refused(driver, "decide", reason)
        outcome = driver.thread.outcomes[-1]
        assert (outcome.id, outcome.status, outcome.reason) == ("d1", OutcomeStatus.REFUSED, reason)


def test_when_a_decision_was_made_is_ignored() -> None:
    driver = awaiting_decisions()
    dated = resume("c1", id="d1").model_copy(update={"updated_at": 1_719_000_000})
    driver.feed(DecisionsReceived((dated, resume("c1", id="d1"))))
    assert driver.thread.refusals == ()
    (resumed,) = [command.resume for command in driver.tool_commands("c1") if command.resume is not None]
    assert resumed.updated_at == driver.now


OLDER = revisions.GUARDED_SIGNALS - 1


def test_runs_of_earlier_releases_refuse_the_fields_as_they_did() -> None:
    driver = Driver(revision=OLDER)
    driver.feed(CancelRequested(run_id=run_id(driver)))
    because = "the newest run was begun by a release that does not know the field: leave out run_id"
    assert is_refused(driver, "cancel", f"it is for run 'r1'; {because}")

    driver = Driver(revision=OLDER)
    driver.feed(DecisionsReceived((resume("c1"),), run_id="r1"))
    assert is_refused(driver, "decide", f"it is for run 'r1'; {because}")

    driver = Driver(revision=OLDER)
    driver.feed(DecisionsReceived((resume("c1").model_copy(update={"updated_at": 7}),)))
    assert is_refused(
        driver, "decide", "the run was begun by a release that does not know the field: leave out updated_at"
    )

    driver = Driver(revision=OLDER)
    driver.model(asks(call("c1")))
    driver.tool("c1", pending("s1"))
    driver.feed(DecisionsReceived((resume("c1"),)))
    assert (driver.thread.refusals, len(driver.tool_commands("c1"))) == ((), 2)
