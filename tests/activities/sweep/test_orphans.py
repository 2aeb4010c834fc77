"""Sub-agents whose parents, and parents whose sub-agents, were ended from outside."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import ResetReapplyType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker
from temporalio.workflow import ParentClosePolicy

from tests.support.waiting import BOUND_SECONDS
from wakeful.contract import names
from wakeful.contract.runs import RunIdentity, RunStatus, TaskRef, ToolCallStatus, Usage
from wakeful.contract.subagents import ChildResult
from wakeful.contract.tasks import Task, TaskStatus, TaskType
from wakeful.contract.views import StatusView, ToolCallView
from wakeful_activities.sweep.orphans import FORGOTTEN, PARENT_GONE, OrphanSweep

QUEUE = "orphans"


@workflow.defn(name=names.WORKFLOW, sandboxed=False)
class Relative:
    """A parent or a child, as far as a sweep sees them; it does what it is told to."""

    @workflow.init
    def __init__(self, does: dict[str, Any]) -> None:
        self._does = does
        self._heard: list[Any] = []
        self._leaves: str | None = None

    @workflow.run
    async def run(self, does: dict[str, Any]) -> list[Any]:
        for name in does.get("starts", ()):
            child = f"{workflow.info().workflow_id}/{name}"
            handle = await workflow.start_child_workflow(
                names.WORKFLOW, {"is": name}, id=child, parent_close_policy=ParentClosePolicy.ABANDON
            )
            handle.add_done_callback(lambda done: done.cancelled() or done.exception())
        await workflow.wait_condition(lambda: self._leaves is not None or bool(self._heard))
        if self._leaves == "continue":
            workflow.continue_as_new({**does, "starts": ()})
        if self._leaves == "tell":
            await self._tell_end()
        return self._heard

    async def _tell_end(self) -> None:
        parent, me = workflow.info().parent, workflow.info().workflow_id
        assert parent is not None
        work_id, name = ("bg_0", "scout") if me.endswith("/task") else ("delegate.2-c1", None)
        settled = ChildResult(work_id=work_id, thread_id=me, name=name, status=TaskStatus.COMPLETED, result="well")
        await workflow.get_external_workflow_handle(parent.workflow_id).signal(names.SIGNAL_CHILD_SETTLED, settled)

    @workflow.signal
    def cancel(self, told: Any) -> None:
        self._heard.append(told["reason"])

    @workflow.signal(name=names.SIGNAL_CHILD_SETTLED)
    def settled(self, told: Any) -> None:
        self._heard.append((told["work_id"], told.get("name"), told["status"], told.get("error")))

    @workflow.signal
    def leave(self, how: str) -> None:
        self._leaves = how

    @workflow.query
    def status(self) -> StatusView:
        thread_id = workflow.info().workflow_id
        task = TaskRef(task_id="bg_0", thread_id=thread_id, owner_thread_id="owner")
        identity = RunIdentity(
            thread_id=thread_id, run_id="r", agent_id="a", task=task if self._does.get("is") == "task" else None
        )
        knows = [f"{thread_id}/{name}" for name in self._does.get("knows", ())]
        tasks = [_task(thread_id, child) for child in knows if child.endswith("/task")]
        calls = [_call(child) for child in knows if not child.endswith("/task")]
        return StatusView(
            identity=identity,
            status=RunStatus.RUNNING,
            doing="",
            steps=1,
            usage=Usage(),
            tasks=tuple(tasks),
            calls=tuple(calls),
        )


def _task(owner: str, child: str) -> Task:
    return Task(task_id="bg_0", owner_thread_id=owner, task_type=TaskType.SUB_AGENT, name="scout", thread_id=child)


def _call(child: str) -> ToolCallView:
    return ToolCallView(
        call_id="c1", tool_name="t", status=ToolCallStatus.RUNNING, child_thread_id=child, work_id="delegate.2-c1"
    )


class Family:
    """A parent with children on a task queue of their own, and the sweep of one worker."""

    def __init__(self, temporal: Client, root: str, queue: str) -> None:
        self._temporal = temporal
        self._root = root
        self._queue = queue
        self.sweep = OrphanSweep(temporal, queue, grace=timedelta(0))

    @property
    def parent(self) -> WorkflowHandle[Any, Any]:
        return self._temporal.get_workflow_handle(self._root)

    def child(self, name: str) -> WorkflowHandle[Any, Any]:
        return self._temporal.get_workflow_handle(f"{self._root}/{name}")

    async def begin(self, *children: str, knows: tuple[str, ...] = ()) -> None:
        does = {"starts": children, "knows": knows}
        await self._temporal.start_workflow(names.WORKFLOW, does, id=self._root, task_queue=self._queue)
        await self.listed("Running", 1 + len(children))

    async def continue_as_new(self) -> None:
        await self.parent.signal("leave", "continue")
        await self.listed("ContinuedAsNew", 1)

    async def reset(self, name: str) -> None:
        """To its first task."""
        await self._reset(self.child(name), task=3)

    async def reset_parent(self) -> None:
        """To the task after its one child was started; what it was told since is undone."""
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
        """Lists come a moment after what they list."""
        query = f"TaskQueue = '{self._queue}' AND ExecutionStatus = '{status}'"
        async with asyncio.timeout(BOUND_SECONDS):
            while len([each async for each in self._temporal.list_workflows(query)]) < count:
                await asyncio.sleep(0.05)

    async def heard(self, *handles: WorkflowHandle[Any, Any]) -> int:
        """How many signals they were sent: the one thing that a sweep can write."""
        events = [event for handle in handles for event in (await handle.fetch_history()).events]
        return sum(event.HasField("workflow_execution_signaled_event_attributes") for event in events)


@pytest.fixture
async def family(temporal: Client, thread_id: str) -> AsyncIterator[Family]:
    queue = f"{QUEUE}-{thread_id}"
    async with Worker(temporal, task_queue=queue, workflows=[Relative]):
        yield Family(temporal, thread_id, queue)


async def test_children_of_a_terminated_parent_are_cancelled(family: Family) -> None:
    await family.begin("task", "delegate")
    await family.parent.terminate()
    await family.listed("Terminated", 1)
    await family.sweep.sweep()
    assert [await family.child(name).result() for name in ("task", "delegate")] == [[PARENT_GONE], [PARENT_GONE]]


async def test_of_a_parent_that_came_to_its_end_only_the_background_tasks_go_on(family: Family) -> None:
    await family.begin("task", "delegate")
    await family.parent.signal("leave", "end")
    await family.listed("Completed", 1)
    await family.sweep.sweep()
    assert await family.child("delegate").result() == [PARENT_GONE]
    await family.sweep.sweep()
    assert await family.heard(family.child("task")) == 0


async def test_children_of_a_parent_that_continued_as_new_go_on_while_it_knows_them(family: Family) -> None:
    await family.begin("task", "delegate", knows=("task", "delegate"))
    await family.continue_as_new()
    for _ in range(3):
        await family.sweep.sweep()
    assert await family.heard(family.parent, family.child("task"), family.child("delegate")) == 0


async def test_a_child_that_its_parent_does_not_know_is_cancelled_when_it_is_still_unknown_a_round_later(
    family: Family,
) -> None:
    await family.begin("task", knows=())
    await family.continue_as_new()
    await family.sweep.sweep()
    assert await family.heard(family.child("task")) == 0
    await family.sweep.sweep()
    assert await family.child("task").result() == [FORGOTTEN]


@pytest.mark.parametrize(("name", "known_as"), [("task", ["bg_0", "scout"]), ("delegate", ["delegate.2-c1", None])])
async def test_a_parent_that_continued_as_new_is_told_of_a_terminated_child(
    family: Family, name: str, known_as: list[str | None]
) -> None:
    await family.begin(name, knows=(name,))
    await family.continue_as_new()
    await family.child(name).terminate()
    await family.listed("Terminated", 1)
    await family.sweep.sweep()
    assert await family.parent.result() == [[*known_as, "failed", "it was terminated"]]


async def test_a_child_that_was_reset_speaks_for_itself_until_it_is_terminated(family: Family) -> None:
    await family.begin("task", knows=("task",))
    await family.continue_as_new()
    await family.reset("task")
    await family.listed("Terminated", 1)
    for _ in range(2):
        await family.sweep.sweep()
    assert await family.heard(family.parent) == 0
    await family.child("task").terminate()
    await family.listed("Terminated", 2)
    await family.sweep.sweep()
    assert await family.parent.result() == [["bg_0", "scout", "failed", "it was terminated"]]


async def test_a_parent_that_has_its_childs_end_in_its_own_history_is_not_told_again(family: Family) -> None:
    await family.begin("task", knows=("task",))
    await family.child("task").terminate()
    await family.listed("Terminated", 1)
    await family.sweep.sweep()
    assert await family.heard(family.parent) == 0


@pytest.mark.parametrize(("name", "known_as"), [("task", ["bg_0", "scout"]), ("delegate", ["delegate.2-c1", None])])
async def test_a_parent_that_was_reset_is_told_again_what_its_child_had_told(
    family: Family, name: str, known_as: list[str | None]
) -> None:
    await family.begin(name, knows=(name,))
    await family.child(name).signal("leave", "tell")
    told = [[*known_as, "completed", None]]
    assert await family.parent.result() == told
    await family.listed("Completed", 2)
    await family.reset_parent()
    await family.listed("Running", 1)
    await family.sweep.sweep()
    assert await family.parent.result() == told
    await family.listed("Completed", 3)
    for _ in range(2):
        await family.sweep.sweep()
    assert await family.heard(family.parent) == 1


@pytest.mark.parametrize(
    ("how", "error"), [("end", "it closed without reporting a result"), ("terminate", "it was terminated")]
)
async def test_a_parent_that_was_reset_is_told_of_a_child_that_had_said_nothing(
    family: Family, how: str, error: str
) -> None:
    await family.begin("task", knows=("task",))
    child = family.child("task")
    await (child.terminate() if how == "terminate" else child.signal("leave", how))
    await family.listed("Terminated" if how == "terminate" else "Completed", 1)
    await family.reset_parent()
    await family.listed("Running", 1)
    await family.listed("Terminated", 2 if how == "terminate" else 1)
    await family.sweep.sweep()
    assert ["bg_0", "scout", "failed", error] in await family.parent.result()


async def test_a_parent_that_was_reset_is_told_nothing_of_a_child_that_runs(family: Family) -> None:
    await family.begin("task", knows=("task",))
    await family.reset_parent()
    await family.listed("Terminated", 1)
    await family.listed("Running", 2)
    for _ in range(3):
        await family.sweep.sweep()
    assert await family.heard(family.parent, family.child("task")) == 0


async def test_a_parent_that_was_not_reset_is_told_nothing_of_a_child_that_came_to_its_end(family: Family) -> None:
    await family.begin("task", knows=("task",))
    await family.continue_as_new()
    await family.child("task").signal("leave", "end")
    await family.listed("Completed", 1)
    for _ in range(3):
        await family.sweep.sweep()
    assert await family.heard(family.parent) == 0


async def test_where_nothing_is_wrong_nothing_is_written(family: Family) -> None:
    await family.begin("task", "delegate")
    for _ in range(3):
        await family.sweep.sweep()
    assert await family.heard(family.parent, family.child("task"), family.child("delegate")) == 0
