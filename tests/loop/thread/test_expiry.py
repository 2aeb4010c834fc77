"""A thread that is idle for as long as its agent or its request says closes, to be deleted."""

import pytest

from tests.loop.children import idle_with_task
from tests.loop.driving import AGENT, THREAD, Driver, after_continue_as_new, says
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.base import replace
from wakeful.contract.requests import RunRequest
from wakeful.loop.machine.stages import Done, Idle
from wakeful.loop.machine.state import Advance
from wakeful.loop.thread.opening import opened
from wakeful.loop.thread.views import carryover

EXPIRING = AGENT.model_copy(update={"expire_after_seconds": 60.0})
QUICK = THREAD.model_copy(update={"expire_after": 1.0})


def idle(agent: ResolvedAgent = EXPIRING, request: RunRequest = THREAD) -> Driver:
    driver = Driver(agent, request=request)
    driver.model(says("Hello!"))
    return driver


def test_an_idle_thread_expires() -> None:
    driver = idle()
    result = driver.result
    assert driver.thread.next_alarm == driver.now + 60_000
    assert driver.wait(59_000) == Advance(driver.thread)
    driver.wait(1_000)
    assert (driver.thread.stage, driver.thread.is_expired) == (Done(result, expired=True), True)
    assert driver.thread.next_alarm is None


def test_a_request_has_precedence_over_the_agent() -> None:
    driver = idle(request=QUICK)
    assert driver.thread.next_alarm == driver.now + 1_000
    driver = idle(AGENT, QUICK)
    assert driver.thread.next_alarm == driver.now + 1_000


def test_a_message_keeps_the_thread_and_its_time_starts_again_after_the_run() -> None:
    driver = idle()
    alarms = [driver.thread.next_alarm]
    driver.submit("m1")
    alarms.append(driver.thread.next_alarm)
    driver.resolve(EXPIRING)
    driver.model(says("Hello again!"))
    alarms.append(driver.thread.next_alarm)
    assert alarms == [alarms[0], None, driver.now + 60_000]
    assert alarms[0] != alarms[2]


def test_continue_as_new_and_waking_keep_the_time() -> None:
    driver = idle(AGENT, QUICK)
    assert after_continue_as_new(driver.thread).next_alarm == driver.thread.next_alarm
    kept = carryover(driver.thread)
    woken = opened(RunRequest(agent_id="assistant", mode=THREAD.mode), thread_id="t1", run_id="r2", carryover=kept)
    assert (woken.expire_after, woken.next_alarm) == (1.0, None)
    assert kept.for_fork().expire_after is None


def test_a_message_that_arrives_while_an_expired_thread_closes_keeps_it() -> None:
    driver = idle()
    driver.wait(60_000)
    driver.submit("m1")
    assert isinstance(driver.thread.stage, Done)
    assert (driver.queued, driver.thread.is_expired) == (["m1"], False)


@pytest.mark.parametrize("agent", [AGENT, EXPIRING])
def test_a_thread_that_is_closed_by_hand_has_not_expired(agent: ResolvedAgent) -> None:
    driver = idle(agent)
    driver.cancel(close=True)
    assert (driver.thread.stage, driver.thread.is_expired) == (Done(driver.result), False)


def test_what_is_not_idle_does_not_expire() -> None:
    thread = idle().thread
    assert isinstance(thread.stage, Idle)
    working = replace(thread, children=idle_with_task().thread.children)
    closing = replace(thread, stage=replace(thread.stage, closing=True))
    unused = replace(thread, stage=Idle())
    subagent = replace(thread, identity=thread.identity.model_copy(update={"parent_thread_id": "t0"}))
    assert [each.next_alarm for each in (working, closing, unused, subagent)] == [None, None, None, None]
    unresolved = replace(thread, run=replace(thread.current, resolved=None))
    assert unresolved.next_alarm is None
