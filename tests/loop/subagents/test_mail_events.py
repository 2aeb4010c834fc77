"""The events of mail and of the ends of tasks: one each on arrival, and one when a run reads it."""

from collections.abc import Callable

import pytest

from tests.loop.children import (
    PARENT,
    awaiting_tasks,
    child_settled,
    idle_with_task,
    mail_received,
    spawn_call,
    task_event,
    task_event_text,
    tool_settled,
    with_tasks,
)
from tests.loop.driving import (
    THREAD,
    Driver,
    asks,
    asks_gated,
    call,
    calling_tools,
    cancelling,
    done,
    idle,
    inferring,
    make_ticket,
    ok,
    resolving,
    resume,
)
from wakeful.contract.budgets import Budget
from wakeful.contract.events import MailArrived, MessagesRead, RunStart
from wakeful.contract.gates import Suspend
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import Cancelled
from wakeful.loop.machine.facts import ChildClosed
from wakeful.loop.machine.stages import AwaitingBudget
from wakeful.loop.machine.state import Advance
from wakeful.loop.thread.views import carryover

HURRY = MailArrived(message_id="msg_1", text='<agent-message from="boss" thread_id="t0">\nHurry!\n</agent-message>')
GOLD = MailArrived(message_id="child_settled:t1/bg_0", text=task_event_text("bg_0", "completed", result="gold"))


def seen(driver: Driver) -> list[MailArrived]:
    """The mail events of the newest fact."""
    return [event for event in driver.last.events if isinstance(event, MailArrived)]


def types(driver: Driver) -> list[str]:
    return [event.event_type for event in driver.last.events]


def deciding() -> Driver:
    """A run that waits for a decision while its task runs."""
    driver = with_tasks()
    driver.model(asks_gated(call("c2"), c2=Suspend(ticket=make_ticket("s1"))))
    return driver


def short_of_turns() -> Driver:
    """A run that waits for its task to release budget."""
    request = RunRequest(agent_id="assistant", input="Hello", budget=Budget(turns=2))
    driver = with_tasks(driver=Driver(PARENT, request=request))
    assert isinstance(driver.thread.stage, AwaitingBudget)
    return driver


@pytest.mark.parametrize("stage", [resolving, inferring, calling_tools, cancelling, short_of_turns])
def test_mail_for_a_busy_run_emits_its_event_on_arrival(stage: Callable[[], Driver]) -> None:
    driver = stage()
    driver.feed(mail_received())
    assert driver.last.events == (HURRY,)


def test_mail_that_resumes_a_run_is_received_before_the_run_reads_it() -> None:
    driver = awaiting_tasks()
    driver.feed(mail_received())
    assert (types(driver), seen(driver)) == (["mail_received", "run_start", "messages_read", "step_start"], [HURRY])


def test_mail_that_starts_a_run_is_received_before_the_run_names_it() -> None:
    driver = idle()
    driver.feed(mail_received())
    assert (types(driver), seen(driver)) == (["mail_received", "run_start"], [HURRY])
    (*_, started) = driver.events_of("run_start")
    assert isinstance(started, RunStart)
    assert started.message_ids == ("msg_1",)


def test_mail_for_a_run_that_waits_for_a_decision_emits_its_event_on_arrival() -> None:
    driver = deciding()
    driver.feed(mail_received())
    assert driver.last.events == (HURRY,)
    driver.feed(tool_settled("bg_0"))
    assert (types(driver), seen(driver)) == (["task_changed", "mail_received"], [GOLD])
    driver.decide(resume("s1"))
    driver.tool("c2", ok("sunny"))
    assert driver.events_of("messages_read")[-1] == MessagesRead(message_ids=(HURRY.message_id, GOLD.message_id))


def test_mail_after_the_end_emits_no_event() -> None:
    driver = done()
    driver.feed(task_event("bg_0"))
    assert driver.last.events == ()


def test_repeated_mail_emits_one_event() -> None:
    driver = inferring()
    driver.feed(mail_received())
    before = driver.thread
    assert driver.feed(mail_received()) == Advance(before)


def test_the_end_of_a_task_emits_its_event_on_arrival() -> None:
    driver = with_tasks()
    driver.feed(tool_settled("bg_0"))
    assert (types(driver), seen(driver)) == (["task_changed", "mail_received"], [GOLD])


def test_the_end_of_a_task_that_wakes_an_idle_thread_is_received_before_the_run_names_it() -> None:
    driver = idle_with_task()
    driver.feed(tool_settled("bg_0"))
    assert (types(driver), seen(driver)) == (["task_changed", "mail_received", "run_start"], [GOLD])


def test_the_end_of_a_task_that_was_cancelled_with_its_run_emits_its_event_for_the_run_that_reads_it() -> None:
    driver = with_tasks()
    driver.cancel()
    driver.feed(child_settled("bg_0", termination=Cancelled()))
    assert [event.text for event in seen(driver)] == [task_event_text("bg_0", "cancelled")]


def test_mail_from_a_running_task_emits_an_event() -> None:
    driver = with_tasks()
    driver.feed(task_event("bg_0"))
    (event,) = seen(driver)
    assert (event.message_id, '"payload":"half way"' in event.text) == ("event_1", True)


def test_the_end_of_a_task_that_closed_without_a_result_has_the_name_of_the_task() -> None:
    driver = with_tasks(spawn_call("c1", "scout"))
    driver.feed(ChildClosed("bg_0", "it was terminated"))
    (event,) = seen(driver)
    assert event.text.split("\n")[0] == '<background-task-event kind="failed" task_id="bg_0" name="scout">'


def test_the_event_of_long_mail_has_all_of_its_text() -> None:
    driver = inferring()
    driver.feed(mail_received(text="x" * 3000))
    (event,) = seen(driver)
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("sunny"))
    assert ("x" * 3000 in event.text, driver.texts[-1]) == (True, event.text)


def test_a_woken_thread_repeats_the_events_of_mail_that_it_has_not_read() -> None:
    driver = idle_with_task()
    driver.cancel(close=True)
    driver.feed(tool_settled("bg_0"))  # while it is closing, and no run will read it
    woken = Driver(PARENT, request=THREAD, carryover=carryover(driver.thread))
    assert [event for event in woken.events if isinstance(event, MailArrived)] == [GOLD]
    assert MessagesRead(message_ids=(GOLD.message_id,)) in woken.events
