"""The sweep, on a real server: orphans are cancelled, and ends that parents have missed are reported."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import ResetReapplyType
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest, ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker
from temporalio.workflow import ParentClosePolicy

from tests.support.counting import counting_client
from tests.support.waiting import BOUND_SECONDS
from wakeful.client.thread_reader import ThreadReader
from wakeful.contract import names
from wakeful.contract.runs import RunIdentity, RunStatus, TaskRef, ToolCallStatus, Usage
from wakeful.contract.subagents import ChildResult
from wakeful.contract.tasks import Task, TaskStatus, TaskType
from wakeful.contract.views import StatusView, ToolCallView
from wakeful.rpc_errors import describe_execution
from wakeful_activities.sweep.orphans import PARENT_ENDED, UNKNOWN_TO_PARENT, OrphanSweep

QUEUE = "orphans"


@workflow.defn(name=names.WORKFLOW, sandboxed=False)
class FakeThread:
    """A parent or a child, as far as a sweep sees them; its input says what it does."""

    @workflow.init
    def __init__(self, does: dict[str, Any]) -> None:
        self._does = does
        self._signals: list[Any] = []
        self._leaving: str | None = None

    @workflow.run
    async def run(self, does: dict[str, Any]) -> list[Any]:
        for name in does.get("starts", ()):
            child = f"{workflow.info().workflow_id}/{name}"
            handle = await workflow.start_child_workflow(
                names.WORKFLOW,
                {"is": name, "subagent": {"path": [workflow.info().workflow_id]}},
                id=child,
                parent_close_policy=ParentClosePolicy.ABANDON,
            )
            handle.add_done_callback(lambda done: done.cancelled() or done.exception())
        await workflow.wait_condition(lambda: self._leaving is not None or bool(self._signals))
        if self._leaving == "continue":
            workflow.continue_as_new({**does, "starts": ()})
        if self._leaving == "report":
            await self._report_end()
        return self._signals

    async def _report_end(self) -> None:
        parent, me = workflow.info().parent, workflow.info().workflow_id
        assert parent is not None
        work_id, name = ("bg_1", "scout") if me.endswith("/task") else ("delegate.2-c1", None)
        result = ChildResult(work_id=work_id, thread_id=me, name=name, status=TaskStatus.COMPLETED, result="done")
        await workflow.get_external_workflow_handle(parent.workflow_id).signal(names.SIGNAL_CHILD_SETTLED, result)

    @workflow.signal
    def cancel(self, request: Any) -> None:
        self._signals.append(request["reason"])

    @workflow.signal(name=names.SIGNAL_CHILD_SETTLED)
    def child_settled(self, result: Any) -> None:
        self._signals.append((result["work_id"], result.get("name"), result["status"], result.get("error")))

    @workflow.signal
    def leave(self, how: str) -> None:
        self._leaving = how

    @workflow.query
    def status(self) -> StatusView:
        thread_id = workflow.info().workflow_id
        task = TaskRef(task_id="bg_1", thread_id=thread_id, owner_thread_id="owner")
        identity = RunIdentity(
            thread_id=thread_id, run_id="r", agent_id="a", task=task if self._does.get("is") == "task" else None
        )
        known = [f"{thread_id}/{name}" for name in self._does.get("knows", ())]
        tasks = [_task(thread_id, child) for child in known if child.endswith("/task")]
        calls = [_call(child) for child in known if not child.endswith("/task")]
        return StatusView(
            identity=identity,
            status=RunStatus.RUNNING,
            doing="",
            steps=1,
            usage=Usage(),
            tasks=tuple(tasks),
            calls=tuple(calls),
        )


@workflow.defn(name="Order", sandboxed=False)
class Order:
    """A user's own workflow, which starts an agent and leaves it running."""

    @workflow.run
    async def run(self) -> None:
        child, does = f"{workflow.info().workflow_id}/agent", {"is": "agent"}
        await workflow.start_child_workflow(
            names.WORKFLOW, does, id=child, parent_close_policy=ParentClosePolicy.ABANDON
        )
        await workflow.wait_condition(lambda: False)


def _task(owner: str, child: str) -> Task:
    return Task(task_id="bg_1", owner_thread_id=owner, task_type=TaskType.SUB_AGENT, name="scout", thread_id=child)


def _call(child: str) -> ToolCallView:
    return ToolCallView(
        call_id="c1", tool_name="t", status=ToolCallStatus.RUNNING, child_thread_id=child, work_id="delegate.2-c1"
    )


class Tree:
    """A parent with children on a task queue of their own, and the sweep of one worker."""

    def __init__(self, temporal: Client, root: str, queue: str) -> None:
        self._temporal = temporal
        self._root = root
        self.queue = queue
        counted, self.calls = counting_client(temporal)
        self.sweep = OrphanSweep(ThreadReader(counted), queue, grace=timedelta(0))

    @property
    def parent(self) -> WorkflowHandle[Any, Any]:
        return self._temporal.get_workflow_handle(self._root)

    def child(self, name: str) -> WorkflowHandle[Any, Any]:
        return self._temporal.get_workflow_handle(f"{self._root}/{name}")

    async def start(self, *children: str, knows: tuple[str, ...] = ()) -> None:
        does = {"starts": children, "knows": knows}
        await self._temporal.start_workflow(names.WORKFLOW, does, id=self._root, task_queue=self.queue)
        await self.listed("Running", 1 + len(children))

    async def start_order(self) -> None:
        await self._temporal.start_workflow(Order.run, id=self._root, task_queue=self.queue)
        await self.listed("Running", 2)

    async def delete_parent(self) -> None:
        described = await self.parent.describe()
        execution = WorkflowExecution(workflow_id=described.id, run_id=described.run_id)
        request = DeleteWorkflowExecutionRequest(namespace=self._temporal.namespace, workflow_execution=execution)
        await self._temporal.workflow_service.delete_workflow_execution(request)
        async with asyncio.timeout(BOUND_SECONDS):
            query = f"WorkflowId = '{self._root}'"
            while [each async for each in self._temporal.list_workflows(query)] or await self._is_there():
                await asyncio.sleep(0.05)

    async def _is_there(self) -> bool:
        return await describe_execution(self._temporal, self._root) is not None

    async def wake(self, *knows: str) -> None:
        """Start the parent again, as a message does that wakes a closed thread."""
        closed = (await self.parent.describe()).run_id
        does = {"knows": knows, "restore_from": closed}
        woken = await self._temporal.start_workflow(names.WORKFLOW, does, id=self._root, task_queue=self.queue)
        async with asyncio.timeout(BOUND_SECONDS):
            while (newest := await woken.describe()).run_id == closed or not [
                each async for each in self._temporal.list_workflows(f"RunId = '{newest.run_id}'")
            ]:
                await asyncio.sleep(0.05)

    async def continue_as_new(self) -> None:
        await self.parent.signal("leave", "continue")
        await self.listed("ContinuedAsNew", 1)

    async def reset(self, name: str) -> None:
        """To its first workflow task."""
        await self._reset(self.child(name), task=3)

    async def reset_parent(self) -> None:
        """To the task after its one child was started; later signals are undone."""
        await self._reset(self.parent, task=8)

    async def _reset(self, handle: WorkflowHandle[Any, Any], *, task: int) -> None:
        described = await handle.describe()
        request = ResetWorkflowExecutionRequest(
            namespace=self._temporal.namespace,
            workflow_execution=WorkflowExecution(workflow_id=described.id, run_id=described.run_id),
            workflow_task_finish_event_id=task,
            request_id=described.run_id,
            reset_reapply_type=ResetReapplyType.RESET_REAPPLY_TYPE_NONE,
        )
        await self._temporal.workflow_service.reset_workflow_execution(request)

    async def listed(self, status: str, count: int) -> None:
        """Wait until this many executions are listed: visibility lags behind."""
        query = f"TaskQueue = '{self.queue}' AND ExecutionStatus = '{status}'"
        async with asyncio.timeout(BOUND_SECONDS):
            while len([each async for each in self._temporal.list_workflows(query)]) < count:
                await asyncio.sleep(0.05)

    async def signals(self, *handles: WorkflowHandle[Any, Any]) -> int:
        """How many signals they were sent: the one thing that a sweep can write to a history."""
        events = [event for handle in handles for event in (await handle.fetch_history()).events]
        return sum(event.HasField("workflow_execution_signaled_event_attributes") for event in events)


@pytest.fixture
async def tree(temporal: Client, thread_id: str) -> AsyncIterator[Tree]:
    queue = f"{QUEUE}-{thread_id}"
    async with Worker(temporal, task_queue=queue, workflows=[FakeThread, Order]):
        yield Tree(temporal, thread_id, queue)


async def test_children_of_a_terminated_parent_are_cancelled(tree: Tree) -> None:
    await tree.start("task", "delegate")
    await tree.parent.terminate()
    await tree.listed("Terminated", 1)
    await tree.sweep.sweep()
    assert [await tree.child(name).result() for name in ("task", "delegate")] == [[PARENT_ENDED], [PARENT_ENDED]]


async def test_of_a_parent_that_completed_delegates_are_cancelled_and_background_tasks_keep_running(tree: Tree) -> None:
    await tree.start("task", "delegate")
    await tree.parent.signal("leave", "end")
    await tree.listed("Completed", 1)
    await tree.sweep.sweep_all()
    assert await tree.child("delegate").result() == [PARENT_ENDED]
    await tree.sweep.sweep_all()
    assert await tree.signals(tree.child("task")) == 0


async def test_children_of_a_parent_that_continued_as_new_keep_running_while_it_knows_them(tree: Tree) -> None:
    await tree.start("task", "delegate", knows=("task", "delegate"))
    await tree.continue_as_new()
    for _ in range(3):
        await tree.sweep.sweep()
    assert await tree.signals(tree.parent, tree.child("task"), tree.child("delegate")) == 0


async def test_a_child_that_its_parent_does_not_know_in_two_rounds_is_cancelled(
    tree: Tree,
) -> None:
    await tree.start("task")
    await tree.parent.terminate()
    await tree.wake()
    await tree.sweep.sweep()
    assert await tree.signals(tree.child("task")) == 0
    await tree.sweep.sweep()
    assert await tree.child("task").result() == [UNKNOWN_TO_PARENT]


@pytest.mark.parametrize(("name", "known_as"), [("task", ["bg_1", "scout"]), ("delegate", ["delegate.2-c1", None])])
async def test_a_terminated_child_is_reported_to_a_parent_that_continued_as_new(
    tree: Tree, name: str, known_as: list[str | None]
) -> None:
    await tree.start(name, knows=(name,))
    await tree.continue_as_new()
    await tree.child(name).terminate()
    await tree.listed("Terminated", 1)
    await tree.sweep.sweep()
    assert await tree.parent.result() == [[*known_as, "failed", "it was terminated"]]


async def test_a_child_that_was_reset_is_not_reported_until_it_is_terminated(tree: Tree) -> None:
    await tree.start("task", knows=("task",))
    await tree.continue_as_new()
    await tree.reset("task")
    await tree.listed("Terminated", 1)
    for _ in range(2):
        await tree.sweep.sweep()
    assert await tree.signals(tree.parent) == 0
    await tree.child("task").terminate()
    await tree.listed("Terminated", 2)
    await tree.sweep.sweep()
    assert await tree.parent.result() == [["bg_1", "scout", "failed", "it was terminated"]]


async def test_a_terminated_child_is_not_reported_to_the_execution_that_has_its_handle(tree: Tree) -> None:
    await tree.start("task", knows=("task",))
    await tree.child("task").terminate()
    await tree.listed("Terminated", 1)
    await tree.sweep.sweep()
    assert await tree.signals(tree.parent) == 0


@pytest.mark.parametrize(("name", "known_as"), [("task", ["bg_1", "scout"]), ("delegate", ["delegate.2-c1", None])])
async def test_a_result_that_a_reset_has_undone_is_reported_again(
    tree: Tree, name: str, known_as: list[str | None]
) -> None:
    await tree.start(name, knows=(name,))
    await tree.child(name).signal("leave", "report")
    reported = [[*known_as, "completed", None]]
    assert await tree.parent.result() == reported
    await tree.listed("Completed", 2)
    await tree.reset_parent()
    await tree.listed("Running", 1)
    await tree.sweep.sweep()
    assert await tree.parent.result() == reported
    await tree.listed("Completed", 3)
    for _ in range(2):
        await tree.sweep.sweep()
    assert await tree.signals(tree.parent) == 1


@pytest.mark.parametrize(
    ("how", "error"), [("end", "it closed without reporting a result"), ("terminate", "it was terminated")]
)
async def test_a_child_that_closed_without_a_result_is_reported_to_a_parent_that_was_reset(
    tree: Tree, how: str, error: str
) -> None:
    await tree.start("task", knows=("task",))
    child = tree.child("task")
    await (child.terminate() if how == "terminate" else child.signal("leave", how))
    await tree.listed("Terminated" if how == "terminate" else "Completed", 1)
    await tree.reset_parent()
    await tree.listed("Running", 1)
    await tree.listed("Terminated", 2 if how == "terminate" else 1)
    await tree.sweep.sweep()
    assert ["bg_1", "scout", "failed", error] in await tree.parent.result()


async def test_nothing_is_reported_of_a_running_child_to_a_parent_that_was_reset(tree: Tree) -> None:
    await tree.start("task", knows=("task",))
    await tree.reset_parent()
    await tree.listed("Terminated", 1)
    await tree.listed("Running", 2)
    for _ in range(3):
        await tree.sweep.sweep()
    assert await tree.signals(tree.parent, tree.child("task")) == 0


async def test_nothing_is_reported_of_a_completed_child_to_a_parent_that_was_not_reset(tree: Tree) -> None:
    await tree.start("task", knows=("task",))
    await tree.continue_as_new()
    await tree.child("task").signal("leave", "end")
    await tree.listed("Completed", 1)
    for _ in range(3):
        await tree.sweep.sweep()
    assert await tree.signals(tree.parent) == 0


async def test_a_child_that_closed_while_its_parent_was_terminated_is_reported_to_the_woken_parent(tree: Tree) -> None:
    await tree.start("task", knows=("task",))
    await tree.parent.terminate()
    await tree.child("task").signal("leave", "end")
    await tree.listed("Completed", 1)
    await tree.sweep.sweep()  # the parent is closed: there is nothing to do for it yet
    await tree.wake("task")
    await tree.sweep.sweep()
    error = "it closed without reporting a result"
    assert await tree.parent.result() == [["bg_1", "scout", "failed", error]]


async def test_where_there_is_nothing_to_repair_nothing_is_written(tree: Tree) -> None:
    await tree.start("task", "delegate")
    for _ in range(3):
        await tree.sweep.sweep()
    assert await tree.signals(tree.parent, tree.child("task"), tree.child("delegate")) == 0


async def test_the_full_pass_cancels_the_children_of_a_deleted_parent(tree: Tree) -> None:
    await tree.start("task", "delegate")
    await tree.delete_parent()
    await tree.sweep.sweep_all()
    assert [await tree.child(name).result() for name in ("task", "delegate")] == [[PARENT_ENDED], [PARENT_ENDED]]


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_an_agent_that_another_workflow_has_started_outlives_it(tree: Tree, is_deleted: bool) -> None:
    await tree.start_order()
    if is_deleted:
        await tree.delete_parent()
    else:
        await tree.parent.terminate()
        await tree.listed("Terminated", 1)
    for _ in range(3):
        await tree.sweep.sweep()
        await tree.sweep.sweep_all()
    assert await tree.signals(tree.child("agent")) == 0


async def test_a_round_costs_two_lists_however_many_children_are_asleep(tree: Tree) -> None:
    children = tuple(f"task-{number}" for number in range(20))
    await tree.start(*children, knows=children)
    await tree.continue_as_new()
    await tree.sweep.sweep()  # the first round has seen them start
    tree.calls.clear()
    await tree.sweep.sweep()
    assert tree.calls == {"list_workflow_executions": 2}


async def test_a_full_pass_describes_no_parent_that_a_list_shows(tree: Tree) -> None:
    await tree.start("task-1", "task-2", "task-3")
    tree.calls.clear()
    await tree.sweep.sweep_all()
    assert tree.calls == {"list_workflow_executions": 2}


async def test_of_children_that_ended_long_ago_no_parent_is_described(tree: Tree, temporal: Client) -> None:
    await tree.start("task", knows=("task",))
    await tree.child("task").terminate()
    await tree.listed("Terminated", 1)
    counted, calls = counting_client(temporal)
    later = OrphanSweep(ThreadReader(counted), tree.queue, now=lambda: datetime.now(UTC) + timedelta(minutes=5))
    await later.sweep()
    assert calls.keys() == {"list_workflow_executions"}
    assert not later.has_unfinished
