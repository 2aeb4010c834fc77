"""A run whose model has finished while its tasks are running: it waits, and their events resume it."""

import pytest

from tests.loop.children import (
    PARENT,
    awaiting_tasks,
    child_settled,
    delegate_call,
    mail_received,
    make_parent,
    spawn_call,
    task_event,
    task_event_text,
    task_events_read,
    tool_settled,
    with_tasks,
)
from tests.loop.driving import (
    THREAD,
    Driver,
    after_continue_as_new,
    asks,
    asks_gated,
    call,
    make_ticket,
    ok,
    resume,
    says,
)
from wakeful.contract.budgets import Budget
from wakeful.contract.events import FinishSummary, RunFinish, RunStart
from wakeful.contract.gates import Suspend
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import Cancelled, NaturalEnd, OnBusy, RunStatus, StopDetail, Stopped, TaskRef, Usage
from wakeful.contract.subagents import SubagentContext
from wakeful.contract.tasks import TaskStatus
from wakeful.contract.views import ToolCallView
from wakeful.loop.machine.commands import CancelChild, CancelWork, Infer, NotifyParent
from wakeful.loop.machine.facts import ChildIdAssigned
from wakeful.loop.machine.stages import AwaitingTasks, Done, Inferring
from wakeful.loop.machine.state import Advance
from wakeful.loop.thread.continue_as_new import pending_commands
from wakeful.loop.thread.outcomes import count_repeats
from wakeful.loop.thread.submissions import count_submission
from wakeful.loop.thread.views import carryover, doing, status_view


def test_a_run_that_waits_for_its_tasks_has_that_status_and_issues_no_command() -> None:
    """B-539, I-02; awaken: waiting_awaiting_tasks_returns_none"""
    driver = awaiting_tasks(spawn_call("c1", "scout"), spawn_call("c2"))
    assert driver.thread.stage == AwaitingTasks()
    summary = FinishSummary(response="I wait.", status=RunStatus.WAITING, status_reason="awaiting_tasks")
    identity = driver.thread.identity
    assert driver.last.events[-1] == RunFinish(
        thread_id="t1", run_id="r1", identity=identity, result=summary, termination=NaturalEnd()
    )
    assert (driver.last.commands, driver.thread.in_flight, driver.thread.next_alarm) == ((), frozenset(), None)
    assert doing(driver.thread) == "waiting for scout, bg_1"
    assert status_view(driver.thread).children == ("t1/bg_0", "t1/bg_1")


def test_the_end_of_a_task_resumes_the_run_that_waits() -> None:
    """B-005, B-540, H-19"""
    driver = Driver(PARENT)
    driver.model(asks(spawn_call("c1"), usage=Usage(total_tokens=2)))
    driver.model(says("I wait.", Usage(total_tokens=3)))
    driver.feed(tool_settled("bg_0"))
    identity = driver.thread.identity
    types = [event.event_type for event in driver.last.events]
    assert types == ["task_changed", "mail_received", "run_start", "messages_read", "step_start"]
    assert driver.last.events[2] == RunStart(thread_id="t1", run_id="r1", identity=identity)
    assert driver.texts[-1] == task_event_text("bg_0", "completed", result="gold")
    driver.model(says("Gold!", Usage(total_tokens=4)))
    assert (driver.result.termination, driver.result.response) == (NaturalEnd(), "Gold!")
    assert (driver.result.steps, driver.result.usage, driver.result.run_id) == (3, Usage(total_tokens=9), "r1")


def test_a_run_waits_until_the_last_of_its_tasks_has_ended() -> None:
    """B-509"""
    driver = awaiting_tasks(spawn_call("c1"), spawn_call("c2"))
    driver.feed(tool_settled("bg_1"))
    driver.model(says("One more."))
    assert driver.thread.stage == AwaitingTasks()
    driver.feed(tool_settled("bg_0"))
    driver.model(says("Both."))
    assert isinstance(driver.thread.stage, Done)
    assert driver.event_types.count("run_start") == driver.event_types.count("run_finish") == 3
    assert task_events_read(driver) == [("completed", "bg_1"), ("completed", "bg_0")]


@pytest.mark.parametrize("on_busy", [OnBusy.ENQUEUE, OnBusy.STEER, OnBusy.REJECT])
@pytest.mark.parametrize("thread", [False, True])
def test_a_run_that_waits_for_its_tasks_reads_a_submitted_message_at_once(on_busy: OnBusy, thread: bool) -> None:
    driver = awaiting_tasks(thread=thread)
    driver.submit("m1", on_busy=on_busy)
    assert (driver.texts[-1], driver.refusal_reasons) == ("And then?", [])
    assert driver.inference().id == "infer-3"
    driver.model(says("Patience."))
    assert driver.thread.stage == AwaitingTasks()


@pytest.mark.parametrize("on_busy", [OnBusy.INTERRUPT, OnBusy.ROLLBACK])
def test_interrupting_a_run_that_waits_cancels_its_tasks(on_busy: OnBusy) -> None:
    driver = awaiting_tasks(thread=True)
    driver.submit("m1", on_busy=on_busy)
    (cancel,) = driver.last.commands
    assert isinstance(cancel, CancelChild)
    assert [event.event_type for event in driver.last.events] == ["message_received", "run_start"]
    driver.feed(child_settled("bg_0", termination=Cancelled()))
    assert (driver.thread.identity.run_id, driver.thread.children.running) == ("r1.2", ())
    driver.resolve(PARENT)
    said = ["And then?", task_event_text("bg_0", "cancelled")]
    assert driver.texts == (said if on_busy is OnBusy.ROLLBACK else [*driver.texts[:-2], *said])


def test_a_repeated_message_does_not_resume_a_run_that_waits() -> None:
    driver = awaiting_tasks(thread=True)
    driver.submit("m1")
    driver.model(says("Patience."))
    before = count_submission(driver.thread)
    assert driver.submit("m1") == Advance(count_repeats(before, ("m1",)))


def test_a_message_with_overrides_or_another_agent_waits_for_its_own_run() -> None:
    driver = awaiting_tasks(thread=True)
    driver.submit("m1", overrides=InferenceOverrides(max_tokens=9))
    assert driver.thread.stage == AwaitingTasks()
    driver.submit("m2", agent_id="billing")
    assert driver.thread.stage == AwaitingTasks()
    driver.feed(tool_settled("bg_0"))
    driver.model(says("Gold!"))
    assert (driver.thread.counters.runs, driver.queued) == (2, ["m2"])


def test_a_message_for_the_active_agent_is_read_at_once() -> None:
    driver = awaiting_tasks(thread=True)
    driver.submit("m1", agent_id="assistant")
    assert driver.texts[-1] == "And then?"


def test_overrides_are_refused_if_the_message_starts_no_run() -> None:
    driver = awaiting_tasks()
    driver.submit("m1", overrides=InferenceOverrides(max_tokens=9))
    assert len(driver.refusal_reasons) == 1
    assert driver.thread.stage == AwaitingTasks()


def test_a_queued_message_is_read_before_the_run_waits_for_its_tasks() -> None:
    driver = with_tasks(driver=Driver(PARENT, request=THREAD))
    driver.submit("m1")
    driver.model(says("I wait."))
    assert driver.texts[-1] == "And then?"
    driver.model(says("Patience."))
    assert (driver.thread.stage, driver.thread.counters.runs) == (AwaitingTasks(), 1)


def test_mail_resumes_a_run_that_waits_for_its_tasks() -> None:
    driver = awaiting_tasks()
    driver.feed(mail_received())
    assert driver.texts[-1] == '<agent-message from="boss" thread_id="t0">\nHurry!\n</agent-message>'
    assert isinstance(driver.thread.stage, Inferring)


def test_a_run_at_its_limit_of_rounds_ends_when_it_is_resumed() -> None:
    driver = Driver(make_parent(max_rounds=1, budget=None))
    driver.model(asks(spawn_call("c1")))
    assert driver.result.status_reason == "stopped:max_rounds"
    two = with_tasks(agent=make_parent(max_rounds=2))
    two.model(asks(call("c2")))
    two.feed(tool_settled("bg_0"))
    two.tool("c2", ok("sunny"))
    assert (two.result.status_reason, two.result.unread) == ("stopped:max_rounds", ("child_settled:t1/bg_0",))
    assert [message.id for message in carryover(two.thread).mail] == ["child_settled:t1/bg_0"]


def test_a_run_that_waits_for_its_tasks_survives_continue_as_new() -> None:
    driver = awaiting_tasks(spawn_call("c1"), spawn_call("c2"))
    driver.last = Advance(after_continue_as_new(driver.thread))
    assert (driver.thread.stage, pending_commands(driver.thread)) == (AwaitingTasks(), ())
    assert driver.thread.bound_to_execution == frozenset()
    driver.feed(task_event("bg_0"))
    driver.last = Advance(after_continue_as_new(driver.thread))
    assert [command.id for command in pending_commands(driver.thread)] == ["infer-3"]
    driver.feed(tool_settled("bg_0"))
    driver.last = Advance(after_continue_as_new(driver.thread))
    driver.model(says("I see."))
    assert task_events_read(driver) == [("custom", "bg_0"), ("completed", "bg_0")]


def test_wall_time_stops_a_run_that_waits_and_its_tasks() -> None:
    request = RunRequest(agent_id="assistant", input="Hello", budget=Budget(seconds=60))
    driver = with_tasks(driver=Driver(PARENT, request=request))
    driver.model(says("I wait."))
    driver.wait(60_000)
    (cancel,) = driver.last.commands
    assert isinstance(cancel, CancelChild)
    driver.feed(child_settled("bg_0", termination=Cancelled()))
    assert driver.result.termination == Stopped(
        value=StopDetail(code="budget", detail="the wall time of 60 s is spent")
    )


def test_the_deadline_of_the_tree_stops_a_sub_agent_without_a_limit_of_its_own() -> None:
    context = SubagentContext(path=("t0",), work_id="w", deadline=500)
    driver = Driver(PARENT, request=RunRequest(agent_id="assistant", input="Hello", subagent=context))
    assert driver.thread.next_alarm == 500
    driver.wait(500)
    assert driver.last.commands == (CancelWork("infer-1"),)
    driver.model(says("Too late."))
    assert driver.result.termination == Stopped(value=StopDetail(code="budget", detail="the wall time is spent"))


def test_a_task_notifies_its_parent_of_its_end() -> None:
    """B-535"""
    context = SubagentContext(path=("t0",), work_id="bg_3", task_id="bg_3", name="scout")
    request = RunRequest(agent_id="assistant", input="Hello", parent_thread_id="t0", subagent=context)
    driver = Driver(PARENT, request=request)
    assert driver.thread.identity.task == TaskRef(task_id="bg_3", thread_id="t1", owner_thread_id="t0", name="scout")
    driver.model(says("Found."))
    (settle,) = driver.commands_of(NotifyParent)
    assert (settle.parent_thread_id, settle.is_task, settle.result.work_id) == ("t0", True, "bg_3")
    assert settle.result.name == "scout"
    assert (settle.result.status, settle.result.steps) == (TaskStatus.COMPLETED, 1)


def test_a_delegate_notifies_its_parent_once_and_is_not_a_task() -> None:
    context = SubagentContext(path=("t0",), work_id="delegate-c9")
    request = RunRequest(agent_id="assistant", input="Hello", parent_thread_id="t0", subagent=context)
    driver = Driver(PARENT, request=request)
    driver.submit("m1", on_busy=OnBusy.INTERRUPT)
    driver.model(says("In vain."))
    driver.resolve(PARENT)
    driver.model(says("Found."))
    (settle,) = driver.commands_of(NotifyParent)
    assert (settle.result.status, settle.is_task) == (TaskStatus.CANCELLED, False)


def test_a_thread_id_that_is_assigned_late_changes_nothing_else() -> None:
    driver = with_tasks()
    driver.feed(ChildIdAssigned("bg_0", "t1/renamed"))
    assert driver.thread.children.tasks[0].thread_id == "t1/renamed"
    assert driver.last.commands == ()


def test_the_status_names_the_thread_that_a_call_waits_for() -> None:
    driver = Driver(PARENT)
    driver.model(asks(delegate_call("c1")))
    view = status_view(driver.thread)
    assert view.calls == (
        ToolCallView(
            call_id="c1",
            tool_name="agent_run_researcher",
            status=driver.call_statuses[0],
            child_thread_id="t1/delegate-c1",
            work_id="delegate-c1",
        ),
    )
    assert view.children == ("t1/delegate-c1",)


def test_a_decision_and_the_end_of_a_task_can_come_in_any_order() -> None:
    driver = with_tasks()
    driver.model(asks_gated(call("c2"), c2=Suspend(ticket=make_ticket("s1"))))
    driver.decide(resume("s1"))
    driver.feed(tool_settled("bg_0"))
    driver.tool("c2", ok("sunny"))
    driver.model(says("Done."))
    assert (len(driver.commands_of(Infer)), task_events_read(driver)) == (3, [("completed", "bg_0")])
