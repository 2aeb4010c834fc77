"""A tool in the background: a workflow of its own, which tells its owner how it ended and then ends."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.worker import Worker
from temporalio.workflow import ParentClosePolicy

from wakeful.client.thread_reader import ThreadReader
from wakeful.contract import names
from wakeful.contract.messages import ToolCall
from wakeful.contract.runs import RunIdentity
from wakeful.contract.subagents import ChildResult, ToolTaskInput
from wakeful.contract.tasks import TaskStatus
from wakeful.contract.tools import Effects, ToolCallInput, ToolDescriptor, ToolOutcome, ToolResult
from wakeful_activities import DeliverActivity
from wakeful_workflows import ToolTask

QUEUE = "tool-tasks"

UNKNOWN = "outcome unknown: {}. It is not known whether 'silent' took effect. Check before you call it again."


@workflow.defn(name="Owner", sandboxed=False)
class Owner:
    """Starts a task, and returns the end that the task reports."""

    def __init__(self) -> None:
        self._told: list[Any] = []

    @workflow.run
    async def run(self, given: ToolTaskInput) -> list[Any]:
        await workflow.start_child_workflow(
            names.WORKFLOW_TOOL_TASK,
            given,
            id=f"{workflow.info().workflow_id}/task",
            parent_close_policy=ParentClosePolicy.ABANDON,
        )
        await workflow.wait_condition(lambda: bool(self._told))
        return self._told

    @workflow.signal
    def child_settled(self, told: Any) -> None:
        self._told.append(told)


@activity.defn
async def fine(input: ToolCallInput) -> ToolOutcome:
    return ToolOutcome(result=ToolResult.success("fine", {"key": input.idempotency_key}))


@activity.defn
async def wordy(input: ToolCallInput) -> ToolOutcome:
    return ToolOutcome(result=ToolResult.success("wordy", None, "all is well"))


@activity.defn
async def broken(input: ToolCallInput) -> ToolOutcome:
    return ToolOutcome(result=ToolResult.error("broken", "Execution failed: no"))


@activity.defn
async def asking(input: ToolCallInput) -> ToolOutcome:
    return ToolOutcome(result=ToolResult.suspended("asking"))


@activity.defn
async def silent(input: ToolCallInput) -> ToolOutcome:
    await asyncio.sleep(60)
    raise AssertionError("the test ends long before")


@activity.defn
async def raising(_input: Any) -> None:
    raise ApplicationError("no order 7", type="OrderNotFound")


@activity.defn
async def drawing(_input: Any) -> RawValue:
    return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=b"\xff"))


@activity.defn
async def silent_at_first(_input: Any) -> int:
    if (task := activity.info().workflow_id) not in SILENT:
        SILENT.add(task or "")
        await asyncio.sleep(60)
    return 7


SILENT: set[str] = set()


@activity.defn
async def lasting(input: ToolCallInput) -> ToolOutcome:
    while True:
        activity.heartbeat()
        await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
async def tasks(temporal: Client) -> AsyncIterator[Client]:
    tools = [fine, wordy, broken, asking, silent, lasting, raising, drawing, silent_at_first]
    activities: list[Callable[..., Any]] = [*tools, DeliverActivity(ThreadReader(temporal)).deliver_message]
    worker = Worker(
        temporal,
        task_queue=QUEUE,
        workflows=[ToolTask, Owner],
        activities=activities,
        max_heartbeat_throttle_interval=timedelta(milliseconds=200),  # a cancel comes with a heartbeat
    )
    async with worker:
        yield temporal


def given(tool: str, owner: str, *, heartbeat: float = 30, **more: Any) -> ToolTaskInput:
    return ToolTaskInput(
        owner_thread_id=owner,
        task_id="bg_0",
        tool=ToolDescriptor(id=tool, name=tool, heartbeat_seconds=heartbeat, **more),
        input=ToolCallInput(
            call=ToolCall(id="c1", name=tool, arguments={"n": 1}),
            identity=RunIdentity(thread_id=owner, run_id="r1", agent_id="tester"),
            idempotency_key="r1:c1",
        ),
    )


async def owning(
    tasks: Client, owner: str, tool: str, *, heartbeat: float = 30, **more: Any
) -> WorkflowHandle[Any, Any]:
    task = given(tool, owner, heartbeat=heartbeat, **more)
    return await tasks.start_workflow("Owner", task, id=owner, task_queue=QUEUE)


async def running(tasks: Client, owner: str) -> WorkflowHandle[Any, Any]:
    """The task, once its tool runs."""
    task = tasks.get_workflow_handle(f"{owner}/task")
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(RPCError):  # its owner has not started it yet
                if (await task.describe()).raw_description.pending_activities:
                    return task
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("tool", "status", "came_to"),
    [
        ("fine", TaskStatus.COMPLETED, {"result": {"key": "r1:c1"}}),
        ("wordy", TaskStatus.COMPLETED, {"result": "all is well"}),
        ("broken", TaskStatus.FAILED, {"error": "Execution failed: no"}),
        ("asking", TaskStatus.FAILED, {"error": "a background tool cannot wait for a decision"}),
    ],
)
async def test_the_owner_receives_the_outcome_of_the_tool(
    tasks: Client, thread_id: str, tool: str, status: Any, came_to: dict[str, Any]
) -> None:
    handle = await owning(tasks, thread_id, tool)
    told = ChildResult(work_id="bg_0", thread_id=f"{thread_id}/task", status=status, **came_to)
    assert [ChildResult.model_validate(each) for each in await handle.result()] == [told]
    assert await tasks.get_workflow_handle(f"{thread_id}/task", result_type=ChildResult).result() == told


async def test_of_a_tool_whose_worker_was_lost_the_outcome_is_unknown(tasks: Client, thread_id: str) -> None:
    handle = await owning(tasks, thread_id, "silent", heartbeat=0.5)
    (told,) = await handle.result()
    assert (told["status"], told["error"]) == ("failed", UNKNOWN.format("its worker was lost"))


@pytest.mark.parametrize(
    ("tool", "error"),
    [
        ("raising", "Execution failed: OrderNotFound: no order 7"),
        ("drawing", "The tool ran, but its result cannot be read: Invalid JSON: expected value at line 1 column 1"),
    ],
)
async def test_an_error_of_a_tool_of_another_worker_is_the_error_of_its_task(
    tasks: Client, thread_id: str, tool: str, error: str
) -> None:
    handle = await owning(tasks, thread_id, tool, task_queue=QUEUE)
    (told,) = await handle.result()
    assert (told["status"], told["error"].partition(". Check")[0]) == ("failed", error)


async def test_a_repeatable_tool_whose_other_worker_was_lost_runs_again(tasks: Client, thread_id: str) -> None:
    effects = Effects.READ_ONLY
    handle = await owning(tasks, thread_id, "silent_at_first", heartbeat=0.5, task_queue=QUEUE, effects=effects)
    (told,) = await handle.result()
    assert (told["status"], told["result"]) == ("completed", 7)


async def test_a_cancelled_task_does_not_start_its_tool_again(tasks: Client, thread_id: str) -> None:
    effects = Effects.READ_ONLY
    handle = await owning(tasks, thread_id, "silent", heartbeat=0.5, task_queue=QUEUE, effects=effects)
    task = await running(tasks, thread_id)
    await task.signal("cancel", {})
    (told,) = await handle.result()
    assert (told["status"], told["error"]) == ("failed", UNKNOWN.format("its worker was lost"))
    events = [event.event_type async for event in task.fetch_history_events()]
    assert events.count(EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) == 1


@pytest.mark.parametrize("by", ["signal", "temporal"])
async def test_a_cancelled_task_stops_its_tool_and_says_so(tasks: Client, thread_id: str, by: str) -> None:
    handle = await owning(tasks, thread_id, "lasting")
    task = await running(tasks, thread_id)
    assert await task.query("status") == {"task_id": "bg_0", "tool": "lasting", "status": "running"}
    await (task.signal("cancel", {"reason": "no longer needed"}) if by == "signal" else task.cancel())
    (told,) = await handle.result()
    assert told["status"] == "cancelled"
    assert (await task.result())["status"] == "cancelled"
    assert (await task.query("status"))["status"] == "cancelled"


async def test_a_task_that_is_cancelled_before_it_begins_never_runs_its_tool(tasks: Client, thread_id: str) -> None:
    result = await tasks.execute_workflow(
        names.WORKFLOW_TOOL_TASK,
        given("lasting", "unknown"),
        id=thread_id,
        task_queue=QUEUE,
        start_signal="cancel",
        result_type=ChildResult,
    )
    assert result == ChildResult(work_id="bg_0", thread_id=thread_id, status=TaskStatus.CANCELLED)


async def test_a_task_whose_owner_never_was_ends_all_the_same(tasks: Client, thread_id: str) -> None:
    task = await tasks.start_workflow(
        names.WORKFLOW_TOOL_TASK, given("fine", "unknown"), id=thread_id, task_queue=QUEUE, result_type=ChildResult
    )
    assert (await task.result()).status is TaskStatus.COMPLETED
