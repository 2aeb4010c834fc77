"""`cancel_task`: a model cancels a task that it has started, or its own run, and reads the receipt."""

import pytest
from pydantic import JsonValue

from tests.loop.children import (
    PARALLEL_PARENT,
    PARENT,
    background_call,
    cancel_call,
    child_settled,
    delegate_call,
    idle_with_task,
    make_parent,
    spawn_call,
    start_without_ids,
    task_events_read,
    tool_settled,
    with_tasks,
)
from tests.loop.driving import LOOK, THREAD, Driver, after_continue_as_new, asks, call, ok, pending, resume, says
from wakeful.contract.names import TOOL_INTERRUPTED
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import Cancelled, CancelReceipt, NaturalEnd, Origin, TaskRef
from wakeful.contract.subagents import SubagentContext
from wakeful.contract.tools import ToolDescriptor
from wakeful.loop.machine.commands import CallTool, CancelChild, CancelWork, Infer
from wakeful.loop.machine.facts import ChildClosed, ChildIdAssigned, WorkCancelled
from wakeful.loop.machine.stages import CallingTools, Cancelling, Done, Idle
from wakeful.loop.machine.state import Advance
from wakeful.loop.thread.continue_as_new import pending_commands

CANCELLED = Cancelled()


def accepted(root: str, count: int) -> JsonValue:
    return {"status": "accepted", "root_task_id": root, "cancelled_count": count}


def not_found(root: str) -> JsonValue:
    return {"status": "failed", "root_task_id": root, "cancelled_count": 0, "error": "task_not_found"}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (None, "missing 'target'"),
        ({}, "missing 'target'"),
        ({"target": "self"}, "missing 'target'"),
        ({"target": {}}, "missing 'target.relation'"),
        ({"target": {"relation": 1}}, "missing 'target.relation'"),
        ({"target": {"relation": "child"}}, "child requires 'name'"),
        ({"target": {"relation": "child", "name": 0}}, "child requires 'name'"),
        ({"target": {"relation": "parent"}}, "unknown relation 'parent'"),
    ],
)
def test_an_invalid_cancel_is_an_error_and_cancels_nothing(arguments: JsonValue, error: str) -> None:
    """B-550"""
    driver = with_tasks(spawn_call("c1"), call("c2", "cancel_task", arguments))
    assert dict(driver.tool_results)["c2"] == f"Invalid arguments: {error}"
    assert driver.commands_of(CancelChild) == []


@pytest.mark.parametrize("name", ["bg_0", "scout"])
def test_a_child_is_cancelled_by_its_id_or_name_and_the_receipt_comes_when_it_has_ended(name: str) -> None:
    """B-551, B-554, I-10"""
    driver = with_tasks(spawn_call("c1", "scout"), spawn_call("c2"))
    driver.model(asks(cancel_call("c3", name)))
    assert driver.last.commands == (CancelChild("bg_0", "t1/bg_0", "cancelled by assistant"),)
    assert (isinstance(driver.thread.stage, CallingTools), driver.thread.in_flight) == (True, frozenset())
    descendants = CancelReceipt(cancelled=("t1/x", "t1/y"), ended=("t1/z",))
    driver.feed(child_settled("bg_0", termination=CANCELLED, receipt=descendants))
    assert driver.json_result("c3") == accepted("bg_0", 3)
    assert task_events_read(driver) == [("cancelled", "bg_0")]
    assert [task.task_id for task in driver.thread.children.running] == ["bg_1"]
    assert driver.inference().id == "infer-3"


def test_a_background_tool_is_cancelled_like_any_task() -> None:
    driver = with_tasks(background_call("c1"))
    driver.model(asks(cancel_call("c2", "bg_0")))
    driver.feed(child_settled("bg_0", termination=CANCELLED))
    assert driver.json_result("c2") == accepted("bg_0", 1)


@pytest.mark.parametrize("name", ["bg_9", "", "t1/bg_0"])
def test_cancelling_an_unknown_child_has_a_failed_receipt_and_is_no_error(name: str) -> None:
    """B-551, B-554, B-555"""
    driver = with_tasks(spawn_call("c1"), cancel_call("c2", name))
    assert driver.json_result("c2") == not_found(name)


def test_a_child_that_had_ended_cannot_be_cancelled() -> None:
    """B-555"""
    driver = with_tasks(spawn_call("c1", "scout"))
    driver.feed(tool_settled("bg_0"))
    driver.model(asks(cancel_call("c2", "scout")))
    assert driver.json_result("c2") == not_found("scout")


@pytest.mark.parametrize("fact", [tool_settled("bg_0"), ChildClosed("bg_0", "it closed without reporting a result")])
def test_a_child_that_ends_before_the_cancel_reaches_it_was_not_cancelled(fact: ChildClosed) -> None:
    driver = with_tasks(spawn_call("c1"))
    driver.model(asks(cancel_call("c2", "bg_0")))
    driver.feed(fact)
    assert driver.json_result("c2") == not_found("bg_0")
    assert len(task_events_read(driver)) == 1


def test_a_child_can_be_cancelled_in_the_step_that_started_it() -> None:
    driver = Driver(PARENT)
    start_without_ids(driver, spawn_call("c1", "scout"), cancel_call("c2", "scout"))
    assert not any(isinstance(command, CancelChild) for command in driver.commands)
    driver.feed(ChildIdAssigned("bg_0", "t1/bg_0"))
    assert isinstance(driver.last.commands[0], CancelChild)
    driver.feed(child_settled("bg_0", termination=CANCELLED))
    assert driver.json_result("c2") == accepted("bg_0", 1)


def test_a_child_that_could_not_be_started_is_not_found() -> None:
    driver = Driver(PARENT)
    start_without_ids(driver, spawn_call("c1", "scout"), cancel_call("c2", "scout"))
    driver.feed(ChildClosed("bg_0", "no worker"))
    assert driver.json_result("c2") == not_found("scout")


def test_two_calls_can_cancel_one_task() -> None:
    driver = with_tasks(spawn_call("c1"), agent=PARALLEL_PARENT)
    driver.model(asks(cancel_call("c2", "bg_0"), cancel_call("c3", "bg_0")))
    driver.feed(child_settled("bg_0", termination=CANCELLED))
    assert (driver.json_result("c2"), driver.json_result("c3")) == (accepted("bg_0", 1), accepted("bg_0", 1))


def test_other_calls_run_while_a_task_is_being_cancelled() -> None:
    driver = with_tasks(spawn_call("c1"), agent=PARALLEL_PARENT)
    driver.model(asks(cancel_call("c2", "bg_0"), call("c3")))
    driver.tool("c3", pending("s1"))
    assert isinstance(driver.thread.stage, CallingTools)
    driver.feed(child_settled("bg_0", termination=CANCELLED))
    assert driver.thread.status.value == "waiting"
    driver.decide(resume("s1"))
    driver.tool("c3", ok("sunny"))
    assert driver.json_result("c2") == accepted("bg_0", 1)


def test_the_cancel_of_a_task_survives_continue_as_new() -> None:
    driver = with_tasks(spawn_call("c1"))
    driver.model(asks(cancel_call("c2", "bg_0")))
    driver.last = Advance(after_continue_as_new(driver.thread))
    assert (pending_commands(driver.thread), driver.thread.bound_to_execution) == ((), frozenset())
    driver.feed(child_settled("bg_0", termination=CANCELLED))
    assert driver.json_result("c2") == accepted("bg_0", 1)


def test_a_cancel_task_call_has_its_receipt_although_the_run_is_cancelled() -> None:
    driver = with_tasks(spawn_call("c1"))
    driver.model(asks(cancel_call("c2", "bg_0")))
    driver.cancel("enough")
    assert driver.last.commands == (CancelChild("bg_0", "t1/bg_0", "enough"),)
    driver.feed(child_settled("bg_0", termination=CANCELLED))
    assert (driver.json_result("c2"), driver.result.termination) == (accepted("bg_0", 1), CANCELLED)


def test_a_call_that_cancels_another_runs_task_is_interrupted_with_its_run() -> None:
    driver = idle_with_task()
    driver.submit("m1")
    driver.resolve(PARALLEL_PARENT)
    driver.model(asks(cancel_call("c2", "bg_0"), cancel_call("c4", "bg_0"), call("c3")))
    driver.cancel()
    assert driver.last.commands == (CancelWork("tool-c3"),)
    driver.tool_cancelled("c3")
    assert (dict(driver.tool_results)["c2"], isinstance(driver.thread.stage, Idle)) == (TOOL_INTERRUPTED, True)


def test_another_runs_task_that_ends_during_a_cancel_finishes_the_call_that_waits_for_it() -> None:
    driver = idle_with_task()
    driver.submit("m1")
    driver.resolve(PARALLEL_PARENT)
    driver.model(asks(cancel_call("c2", "bg_0"), call("c3")))
    driver.cancel()
    driver.feed(child_settled("bg_0", termination=CANCELLED))
    assert isinstance(driver.thread.stage, Cancelling)
    driver.tool_cancelled("c3")
    assert driver.json_result("c2") == accepted("bg_0", 1)


def test_a_run_that_cancels_itself_ends_with_its_descendants_and_has_no_further_step() -> None:
    """B-553, B-556, I-10"""
    driver = Driver(PARALLEL_PARENT)
    driver.model(asks(spawn_call("c1"), spawn_call("c2")))
    driver.model(asks(delegate_call("c3"), call("c4"), cancel_call("c5"), call("c6")))
    assert driver.last.commands[-4:] == (
        CancelChild("bg_0", "t1/bg_0", "cancelled by the agent itself"),
        CancelChild("bg_1", "t1/bg_1", "cancelled by the agent itself"),
        CancelWork("delegate-c3"),
        CancelWork("tool-c4"),
    )
    driver.feed(WorkCancelled("delegate-c3"), child_settled("bg_0", termination=CANCELLED), tool_settled("bg_1"))
    driver.tool_cancelled("c4")
    assert (driver.result.termination, driver.result.detail) == (CANCELLED, "cancelled by the agent itself")
    assert (driver.json_result("c5"), driver.tool_commands("c6")) == (accepted("r1", 2), [])
    assert len(driver.commands_of(Infer)) == 2


def test_a_run_without_descendants_cancels_itself_at_once() -> None:
    """B-553, B-556"""
    driver = Driver(PARENT, request=THREAD)
    driver.model(asks(cancel_call("c1"), call("c2")))
    assert (driver.json_result("c1"), driver.result.termination) == (accepted("r1", 1), CANCELLED)
    assert dict(driver.tool_results)["c2"] == TOOL_INTERRUPTED
    assert (driver.tool_commands("c2"), isinstance(driver.thread.stage, Idle)) == ([], True)


def task_request(**context: object) -> RunRequest:
    """The request of a sub-agent of the thread `t0`."""
    subagent = SubagentContext.model_validate({"path": ("t0",), "work_id": "bg_3", **context})
    return RunRequest(
        agent_id="assistant", input="Hello", parent_thread_id="t0", origin=Origin.SUBAGENT, subagent=subagent
    )


def test_the_receipt_of_a_task_that_cancels_itself_has_its_task_id() -> None:
    """B-553"""
    driver = Driver(PARENT, request=task_request(task_id="bg_3"))
    driver.model(asks(cancel_call("c1")))
    assert driver.json_result("c1") == accepted("bg_3", 1)
    assert driver.commands_of(CancelChild) == []


def test_a_delegate_within_a_task_cancels_the_task_and_ends() -> None:
    """B-511, B-553"""
    task = TaskRef(task_id="bg_3", thread_id="t0/bg_3", owner_thread_id="t0")
    driver = Driver(PARENT, request=task_request(within=task))
    driver.model(asks(cancel_call("c1")))
    cancel = CancelChild("cancel-c1", "t0/bg_3", "cancelled by assistant, which is part of it")
    assert driver.commands_of(CancelChild) == [cancel]
    assert driver.json_result("c1") == accepted("bg_3", 1)
    ended = driver.thread
    assert isinstance(ended.stage, Done)
    assert driver.feed(ChildClosed("cancel-c1", "it closed without reporting a result")) == Advance(ended)


def test_an_agents_own_cancel_task_tool_replaces_the_runtimes() -> None:
    """B-511"""
    own = ToolDescriptor(id="cancel_task", name="cancel_task")
    driver = Driver(make_parent(tools=(LOOK, own)))
    driver.model(asks(cancel_call("c1")))
    (command,) = driver.last.commands
    assert isinstance(command, CallTool)
    driver.tool("c1", ok("cancelled"))
    driver.model(says("Done."))
    assert driver.result.termination == NaturalEnd()
