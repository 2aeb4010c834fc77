"""Deadlines of suspended calls: expiry and escalation."""

import pytest

from tests.loop.driving import (
    PARALLEL,
    Driver,
    after_continue_as_new,
    asks,
    awaiting_decisions,
    call,
    call_resumed,
    done,
    idle,
    make_ticket,
    ok,
    pending_with,
    resume,
)
from wakeful.contract.decisions import (
    DecisionAction,
    Expiry,
    ExpiryAction,
    ResumeMode,
    SuspensionTicket,
    ToolCallResume,
)
from wakeful.contract.events import DecisionOverdue
from wakeful.contract.runs import RunStatus, ToolCallStatus
from wakeful.loop.calls.suspension import LONGEST_WAIT_MS
from wakeful.loop.machine.stages import AwaitingDecisions, Inferring
from wakeful.loop.machine.state import Advance


def waiting(*tickets: SuspensionTicket) -> Driver:
    """Calls `c1`, `c2`… that are suspended with these tickets."""
    driver = Driver(PARALLEL)
    ids = [f"c{number}" for number in range(1, len(tickets) + 1)]
    driver.model(asks(*(call(id) for id in ids)))
    for id, ticket in zip(ids, tickets, strict=True):
        driver.tool(id, pending_with(ticket))
    return driver


def until(seconds: float, then: ExpiryAction = ExpiryAction.CANCEL, result: str | None = None) -> Expiry:
    return Expiry(after_seconds=seconds, then=then, result=result)


def test_a_ticket_has_its_expiry_and_escalation_times() -> None:
    driver = waiting(make_ticket("s1", expiry=until(60), escalate_after=30))
    assert driver.thread.batch is not None
    (suspended,) = driver.thread.batch.suspended
    assert (suspended.ticket.expires_at, suspended.ticket.escalates_at) == (driver.now + 60_000, driver.now + 30_000)
    assert (driver.thread.next_alarm, after_continue_as_new(driver.thread)) == (driver.now + 30_000, driver.thread)


@pytest.mark.parametrize(
    "driver", [awaiting_decisions(), idle(), done(), Driver()], ids=["waiting", "idle", "done", "running"]
)
def test_a_thread_without_deadlines_has_no_alarm_and_ignores_timers(driver: Driver) -> None:
    state = driver.thread
    assert (state.next_alarm, driver.wait(10**9)) == (None, Advance(state))


def test_an_expiry_time_has_an_upper_bound() -> None:
    driver = waiting(make_ticket("s1", expiry=until(1e300)))
    assert driver.thread.next_alarm == driver.now + LONGEST_WAIT_MS


@pytest.mark.parametrize(
    ("then", "error", "status"),
    [
        (ExpiryAction.CANCEL, "cancelled: no decision within 1.5 s", ToolCallStatus.CANCELLED),
        (ExpiryAction.DENY, "denied: no decision within 1.5 s", ToolCallStatus.FAILED),
    ],
)
def test_a_call_without_a_decision_is_finished_when_it_expires(
    then: ExpiryAction, error: str, status: ToolCallStatus
) -> None:
    driver = waiting(make_ticket("s1", expiry=until(1.5, then)), make_ticket("s2"))
    driver.wait(1_500)
    assert (driver.call_statuses, driver.thread.next_alarm) == ([status, ToolCallStatus.SUSPENDED], None)
    assert [event.event_type for event in driver.last.events] == [
        *("run_start", "tool_call_decided", "tool_call_resumed", "run_finish")
    ]
    assert driver.last.events[2] == call_resumed("c1", {"error": error}, error, has_failed=True)
    driver.decide(resume("c1"), resume("c2"))
    assert driver.refusal_reasons == [f"call 'c1' has already finished ({status.value})"]


def test_a_run_whose_only_call_expires_continues_with_its_next_step() -> None:
    driver = waiting(make_ticket("s1", expiry=until(1)))
    driver.wait(1_000)
    assert driver.tool_results == [("c1", "cancelled: no decision within 1 s")]
    assert isinstance(driver.thread.stage, Inferring)


def test_a_call_can_resume_by_itself_when_it_expires() -> None:
    driver = waiting(make_ticket("s1", expiry=until(1, ExpiryAction.RESUME, "yes")))
    driver.wait(1_000)
    resumed = ToolCallResume(action=DecisionAction.RESUME, result="yes", actor="deadline", updated_at=driver.now)
    assert driver.tool_commands("c1")[-1].resume == resumed
    driver.tool("c1", ok("sunny"))
    assert driver.tool_results == [("c1", "sunny")]


def test_an_expiry_can_set_the_result() -> None:
    mode = ResumeMode.USE_DECISION_AS_TOOL_RESULT
    driver = waiting(make_ticket("s1", mode=mode, expiry=until(1, ExpiryAction.RESUME, "no answer")))
    driver.wait(1_000)
    assert driver.tool_results == [("c1", "no answer")]


def test_a_timer_that_fires_too_early_changes_nothing() -> None:
    driver = waiting(make_ticket("s1", expiry=until(1)))
    state = driver.thread
    assert driver.wait(999) == Advance(state)


def test_an_overdue_decision_emits_one_event_and_the_run_keeps_waiting() -> None:
    driver = waiting(make_ticket("s1", message="May I?", escalate_after=1, expiry=until(9)))
    driver.wait(1_000)
    overdue = DecisionOverdue(call_id="c1", tool_name="look", suspension_id="s1", message="May I?", waited_ms=1_000)
    assert driver.last.events == (overdue,)
    assert isinstance(driver.thread.stage, AwaitingDecisions)
    assert after_continue_as_new(driver.thread) == driver.thread
    later = driver.wait(1_000)
    assert (later.events, later.thread.next_alarm) == ((), driver.now + 7_000)


def test_one_timer_handles_everything_due_and_an_expired_decision_is_not_overdue() -> None:
    driver = waiting(
        make_ticket("s1", escalate_after=1), make_ticket("s2", escalate_after=1, expiry=until(2)), make_ticket("s3")
    )
    driver.wait(5_000)
    assert [event.event_type for event in driver.last.events] == [
        *("decision_overdue", "run_start", "tool_call_decided", "tool_call_resumed", "run_finish")
    ]
    assert driver.call_statuses == [ToolCallStatus.SUSPENDED, ToolCallStatus.CANCELLED, ToolCallStatus.SUSPENDED]


def test_a_deadline_applies_while_another_call_is_running() -> None:
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", pending_with(make_ticket("s1", expiry=until(1))))
    driver.wait(1_000)
    assert driver.call_statuses == [ToolCallStatus.CANCELLED, ToolCallStatus.RUNNING]
    assert driver.event_types.count("run_start") == 1


def test_a_call_that_suspends_again_has_a_new_deadline() -> None:
    driver = waiting(make_ticket("s1", expiry=until(1)))
    driver.decide(resume("c1"))
    assert driver.thread.next_alarm is None
    driver.tool("c1", pending_with(make_ticket("s2", expiry=until(1))))
    assert driver.thread.next_alarm == driver.now + 1_000


def test_a_decision_before_the_deadline_wins() -> None:
    driver = waiting(make_ticket("s1", expiry=until(1)))
    driver.now += 5_000
    driver.decide(resume("c1"))
    driver.wait(1_000)
    assert driver.call_statuses == [ToolCallStatus.RUNNING]


def test_a_run_that_is_being_cancelled_has_no_alarm() -> None:
    """H-06"""
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", pending_with(make_ticket("s1", expiry=until(1))))
    driver.cancel()
    assert (driver.thread.next_alarm, driver.wait(2_000).events) == (None, ())
    driver.tool_cancelled("c2")
    assert (driver.thread.status, driver.thread.next_alarm) == (RunStatus.DONE, None)


def test_a_suspended_run_that_was_cancelled_has_no_alarm() -> None:
    """H-06"""
    driver = waiting(make_ticket("s1", expiry=until(1)))
    driver.cancel()
    assert (driver.result.status_reason, driver.thread.next_alarm) == ("cancelled", None)


def test_the_earliest_alarm_is_the_next() -> None:
    driver = waiting(make_ticket("s1", expiry=until(9)), make_ticket("s2", expiry=until(5)), make_ticket("s3"))
    assert driver.thread.next_alarm == driver.now - 10 + 5_000
