"""Cancel with sub-agents: the run cancels everything that it has started, and nothing else, and waits for it."""

from collections.abc import Mapping

import pytest

from tests.loop.children import (
    PARENT,
    child_settled,
    delegate_call,
    idle_with_task,
    mail_received,
    make_parent,
    spawn_call,
    start_without_ids,
    task_event,
    task_events_read,
    tool_settled,
    with_tasks,
)
from tests.loop.driving import THREAD, Driver, after_continue_as_new, asks, asks_gated, call, make_ticket, says
from wakeful.contract.gates import Suspend
from wakeful.contract.inference import ModelResponse
from wakeful.contract.runs import Cancelled, CancelReceipt, OnBusy
from wakeful.contract.tasks import Task, TaskType
from wakeful.loop.machine.commands import CancelChild, CancelWork
from wakeful.loop.machine.facts import ChildClosed, WorkCancelled
from wakeful.loop.machine.stages import Cancelling, Done, Idle
from wakeful.loop.machine.state import Advance
from wakeful.loop.thread.views import carryover

ANSWERS: Mapping[str, ModelResponse | None] = {
    "inferring": None,
    "calling tools": asks(call("c9")),
    "delegating": asks(delegate_call("c9")),
    "awaiting decisions": asks_gated(call("c9"), c9=Suspend(ticket=make_ticket("s1"))),
    "awaiting tasks": says("I wait."),
}
"""The answers that bring a run into each stage."""


@pytest.mark.parametrize("thread", [False, True])
@pytest.mark.parametrize("stage", ANSWERS)
def test_cancel_waits_for_every_task_in_every_stage(stage: str, thread: bool) -> None:
    """B-546, H-10, I-10"""
    driver = with_tasks(spawn_call("c1"), spawn_call("c2"), driver=Driver(PARENT, request=THREAD) if thread else None)
    if (answer := ANSWERS[stage]) is not None:
        driver.model(answer)
    working = sorted(driver.thread.in_flight)
    driver.cancel("enough")
    cancelled = {command.id for command in driver.last.commands if isinstance(command, CancelChild | CancelWork)}
    assert cancelled == {*working, "bg_0", "bg_1"}
    for id in working:
        driver.feed(child_settled(id, termination=Cancelled()) if id.startswith("child") else WorkCancelled(id))
    driver.feed(
        task_event("bg_0"), child_settled("bg_0", termination=Cancelled(), receipt=CancelReceipt(cancelled=("t1/x",)))
    )
    assert isinstance(driver.thread.stage, Cancelling)
    driver.feed(tool_settled("bg_1"))
    assert (driver.result.termination, driver.result.detail) == (Cancelled(), "enough")
    assert driver.result.receipt is not None
    assert driver.result.receipt.cancelled[-2:] == ("t1/bg_0", "t1/x")
    assert driver.result.receipt.ended == ("t1/bg_1",)
    assert driver.result.unread == ()
    assert (driver.thread.counters.runs, driver.thread.children.running) == (1, ())
    assert isinstance(driver.thread.stage, Idle if thread else Done)
    assert driver.event_types.count("run_start") == driver.event_types.count("run_finish")
    if thread:
        driver.submit("m1")
        driver.resolve(PARENT)
        assert task_events_read(driver) == [("custom", "bg_0"), ("cancelled", "bg_0"), ("completed", "bg_1")]


def test_cancelling_a_run_does_not_cancel_the_tasks_of_another_run() -> None:
    """B-542, I-10"""
    driver = idle_with_task()
    driver.submit("m1")
    driver.resolve(PARENT)
    driver.model(asks(spawn_call("c2")))
    driver.cancel()
    assert [command.id for command in driver.last.commands] == ["bg_1", "infer-3"]
    driver.model(says("In vain."))
    driver.feed(child_settled("bg_1", termination=Cancelled()))
    assert isinstance(driver.thread.stage, Idle)
    assert [task.task_id for task in driver.thread.children.running] == ["bg_0"]


def test_the_end_of_another_runs_task_during_a_cancel_is_read_by_the_next_run() -> None:
    """I-09"""
    driver = idle_with_task()
    driver.submit("m1")
    driver.cancel()
    driver.feed(tool_settled("bg_0"))
    driver.feed(WorkCancelled("resolve-2"))
    assert driver.thread.identity.run_id == "r1.3"
    driver.resolve(PARENT)
    assert task_events_read(driver) == [("completed", "bg_0")]


@pytest.mark.parametrize("first", ["close", "cancel"])
def test_closing_a_thread_cancels_the_tasks_of_all_its_runs(first: str) -> None:
    driver = idle_with_task()
    driver.submit("m1")
    driver.resolve(PARENT)
    driver.model(asks(spawn_call("c2")))
    if first == "cancel":
        driver.cancel("enough")
    driver.cancel("goodbye", close=True)
    cancelled = [command.id for command in driver.commands if isinstance(command, CancelChild)]
    assert sorted(cancelled) == ["bg_0", "bg_1"]
    driver.model(says("In vain."))
    driver.feed(child_settled("bg_1", termination=Cancelled()))
    assert isinstance(driver.thread.stage, Cancelling)
    driver.feed(child_settled("bg_0", termination=Cancelled()))
    assert (isinstance(driver.thread.stage, Done), driver.thread.children.running) == (True, ())


def test_an_idle_thread_closes_when_its_last_task_has_ended() -> None:
    """H-08, H-10"""
    driver = idle_with_task(spawn_call("c1"), spawn_call("c2"))
    result = driver.result
    driver.cancel("goodbye", close=True)
    assert driver.last.commands == (
        CancelChild("bg_0", "t1/bg_0", "goodbye"),
        CancelChild("bg_1", "t1/bg_1", "goodbye"),
    )
    driver.cancel("again")
    driver.submit("m1")
    driver.submit("m2", on_busy=OnBusy.REJECT)
    assert driver.refusal_reasons == ["the thread is being closed"]
    driver.feed(mail_received(), task_event("bg_0"), child_settled("bg_0", termination=Cancelled()))
    assert driver.thread.children.running != ()
    driver.feed(ChildClosed("bg_1", "it closed without reporting a result"))
    assert driver.thread.stage == Done(result.model_copy(update={"detail": "goodbye"}))
    assert [later.message.id for later in (*driver.thread.steering, *driver.thread.queued) if later.late] == [
        "msg_1",
        "m1",
    ]
    assert driver.event_types.count("run_start") == 1
    kept = [message.id for message in carryover(driver.thread).mail]
    assert kept == ["msg_1", "event_1", "child_settled:t1/bg_0", "child_settled:t1/bg_1"]


def test_a_thread_without_a_run_closes_after_its_tasks_too() -> None:
    running = Task(task_id="bg_0", owner_thread_id="t1", task_type=TaskType.TOOL, thread_id="t1/bg_0")
    kept = carryover(idle_with_task().thread).model_copy(update={"tasks": (running,)})
    driver = Driver(None, request=THREAD.model_copy(update={"input": ""}), carryover=kept)
    driver.cancel(close=True)
    driver.feed(tool_settled("bg_0"))
    assert isinstance(driver.thread.stage, Done)
    assert driver.result.termination == Cancelled()


def test_the_tasks_of_an_idle_thread_can_be_cancelled_and_their_ends_start_no_run() -> None:
    """I-10"""
    driver = idle_with_task(spawn_call("c1"), spawn_call("c2"))
    driver.cancel("enough")
    assert [command.id for command in driver.last.commands] == ["bg_0", "bg_1"]
    driver.last = Advance(after_continue_as_new(driver.thread))
    driver.feed(
        task_event("bg_0"),
        child_settled("bg_0", termination=Cancelled()),
        child_settled("bg_1", termination=Cancelled()),
    )
    assert (isinstance(driver.thread.stage, Idle), driver.thread.counters.runs) == (True, 1)
    driver.submit("m1")
    driver.resolve(PARENT)
    assert task_events_read(driver) == [("custom", "bg_0"), ("cancelled", "bg_0"), ("cancelled", "bg_1")]


def test_a_task_of_an_idle_thread_that_is_cancelled_before_it_starts_is_recorded_as_cancelled() -> None:
    driver = Driver(make_parent(max_rounds=1), request=THREAD)
    start_without_ids(driver, spawn_call("c1"))
    assert isinstance(driver.thread.stage, Idle)
    driver.cancel("enough")
    assert driver.last.commands == (CancelWork("bg_0"),)
    driver.feed(WorkCancelled("bg_0"))
    assert (driver.thread.children.running, driver.thread.counters.runs) == ((), 1)
    driver.submit("m1")
    driver.resolve(PARENT)
    assert task_events_read(driver) == [("cancelled", "bg_0")]


def test_a_rollback_during_a_cancel_cancels_nothing_more() -> None:
    driver = idle_with_task()
    driver.submit("m1")
    driver.resolve(PARENT)
    driver.cancel()
    driver.submit("m2", on_busy=OnBusy.ROLLBACK)
    assert driver.last.commands == ()
    driver.model(says("In vain."))
    assert driver.thread.identity.run_id == "r1.3"
