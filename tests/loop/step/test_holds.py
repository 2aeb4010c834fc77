"""Pending work holds a run open: when its model is done, it waits for messages until the work is released."""

import pytest

from tests.loop.children import child_settled, mail_received, spawn_call, with_tasks
from tests.loop.driving import (
    THREAD,
    Driver,
    after_continue_as_new,
    asks,
    call,
    ok,
    says,
    with_hooks,
)
from wakeful.contract.events import RunFinish
from wakeful.contract.hooks import FinalAnswer, Hold, HookEffects, LifecyclePhase
from wakeful.contract.limits import NAME_LENGTH
from wakeful.contract.runs import BehaviorRequested, Cancelled, NaturalEnd, RunStatus
from wakeful.contract.views import WaitingFor
from wakeful.loop.machine.stages import AwaitingTasks
from wakeful.loop.machine.state import KEPT_HOLDS
from wakeful.loop.thread.views import status_view

BUILD = HookEffects(hold=(Hold(key="build", reason="the build of 42"),))
BUILT = HookEffects(release=("build",))


def held() -> Driver:
    driver = Driver(request=THREAD)
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("started"), BUILD)
    driver.model(says("I have started the build."))
    return driver


def test_a_run_with_pending_work_does_not_end_when_its_model_is_done_b410() -> None:
    driver = held()
    assert driver.thread.stage == AwaitingTasks()
    view = status_view(driver.thread)
    assert (view.status, view.waiting_for) == (RunStatus.WAITING, WaitingFor.PENDING_WORK)
    assert view.doing == "held open for the build of 42"
    (paused,) = driver.events_of("run_finish")
    assert isinstance(paused, RunFinish)
    assert paused.result is not None
    assert (paused.termination, paused.result.status_reason) == (NaturalEnd(), "pending_work")


def test_a_message_continues_the_run_which_ends_once_the_work_is_released_b410() -> None:
    driver = held()
    driver.submit("m1")
    driver.model(says("Still building."))
    assert driver.thread.stage == AwaitingTasks()
    driver.feed(mail_received("msg_1"))
    driver.model(says("It is built."), BUILT)
    assert (driver.result.termination, driver.result.response) == (NaturalEnd(), "It is built.")
    assert driver.thread.counters.runs == 1


def test_the_run_waits_for_its_tasks_and_for_its_work() -> None:
    driver = with_tasks(spawn_call("c1"))
    driver.model(says("Working."), BUILD)
    assert status_view(driver.thread).waiting_for is WaitingFor.TASKS
    driver.feed(child_settled("bg_0"))
    driver.model(says("The task is done."))
    assert status_view(driver.thread).waiting_for is WaitingFor.PENDING_WORK


@pytest.mark.parametrize("ending", ["cancel", "finish"])
def test_a_held_run_can_be_ended(ending: str) -> None:
    driver = held()
    if ending == "cancel":
        driver.cancel("enough")
        assert driver.result.termination == Cancelled()
    else:
        driver.submit("m1")
        driver.model(says("Hm."), HookEffects(finish=FinalAnswer(text="Never mind.")))
        assert driver.result.termination == BehaviorRequested()


def test_the_next_run_is_not_held_by_the_work_of_the_last() -> None:
    driver = held()
    driver.cancel("enough")
    driver.submit("m1")
    driver.resolve()
    driver.model(says("Hello again."))
    assert driver.result.termination == NaturalEnd()


def test_pending_work_survives_continue_as_new_and_has_limits() -> None:
    driver = Driver(with_hooks(LifecyclePhase.RUN_START))
    many = tuple(Hold(key=f"{number}{'x' * 1000}") for number in range(KEPT_HOLDS + 10))
    driver.hooks(HookEffects(hold=many))
    holds = after_continue_as_new(driver.thread).current.holds
    assert len(holds) == KEPT_HOLDS
    assert all(len(hold.key) <= NAME_LENGTH for hold in holds)
    driver.model(says("Hello!"), HookEffects(release=tuple(hold.key for hold in many)))
    assert driver.result.termination == NaturalEnd()
