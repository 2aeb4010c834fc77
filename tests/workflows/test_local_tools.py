"""Local tools: inside the workflow's own task, with no activity of their own in history."""

import asyncio

import pytest
from temporalio import activity, workflow
from temporalio.api.enums.v1 import EventType
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowHandle
from temporalio.worker import Worker

from tests.simulation.instances import activate, new_instance
from tests.simulation.service import CONVERTER
from tests.support.waiting import BOUND_SECONDS
from wakeful import ConfigurationError, tool
from wakeful.client.client import Client
from wakeful.contract.messages import ToolCall
from wakeful.contract.missing import NOT_ON_THIS_WORKER
from wakeful.contract.runs import RunIdentity
from wakeful.contract.tools import ToolDescriptor, ToolOutcome, ToolResult
from wakeful.loop.machine.commands import CallTool
from wakeful.loop.machine.facts import Fact
from wakeful_workflows.commands import Activities
from wakeful_workflows.history_estimate import HistoryEstimate


@activity.defn
async def peek(_input: object) -> ToolOutcome:
    return ToolOutcome(result=ToolResult.success("peek", "seen"))


@workflow.defn(sandboxed=False, failure_exception_types=[TypeError, RuntimeError])
class CallsLocally:
    """Calls a local tool as a run does, and returns the names of the facts."""

    @workflow.run
    async def run(self) -> list[str]:
        facts: list[Fact] = []
        activities = Activities(facts.append, HistoryEstimate())
        descriptor = ToolDescriptor(id="peek", name="peek", local=True)
        command = CallTool("tool-1", descriptor, ToolCall(id="1-1", name="peek", arguments={}))
        activities.start(command, RunIdentity(thread_id="t1", run_id="r1", agent_id="a"))
        await workflow.wait_condition(lambda: bool(facts))
        return [type(fact).__name__ for fact in facts]


@workflow.defn(sandboxed=False)
class Watches:
    """Calls a local tool, cancels the call when it is signalled, and shows the facts."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.activities = Activities(self.facts.append, HistoryEstimate())

    @workflow.run
    async def run(self, heartbeat_seconds: float) -> list[str]:
        tool = ToolDescriptor(id="peek", name="peek", local=True, heartbeat_seconds=heartbeat_seconds)
        command = CallTool("tool-1", tool, ToolCall(id="1-1", name="peek", arguments={}))
        self.activities.start(command, RunIdentity(thread_id="t1", run_id="r1", agent_id="a"))
        await workflow.wait_condition(lambda: bool(self.facts))
        running = ["running"] if self.activities.is_running("tool-1") else []
        return [type(fact).__name__ for fact in self.facts] + running

    @workflow.signal
    def cancel(self) -> None:
        self.activities.cancel("tool-1")


def left_to_others(*, heartbeat_seconds: float, is_cancelled: bool) -> list[str]:
    """The commands of the workflow when its local tool is not on this worker; the end with its facts."""
    start = WorkflowActivation(run_id="r1")
    init = start.jobs.add().initialize_workflow
    init.workflow_type, init.workflow_id = "Watches", "t1"
    init.arguments.append(CONVERTER.payload_converter.to_payload(heartbeat_seconds))
    instance = new_instance(Watches, start, init, CONVERTER)
    activate(instance, start)
    end = WorkflowActivation(run_id="r1")
    if is_cancelled:
        end.jobs.add().signal_workflow.signal_name = "cancel"
    resolved = end.jobs.add().resolve_activity
    resolved.seq, resolved.is_local = 1, True
    resolved.result.failed.failure.application_failure_info.type = NOT_ON_THIS_WORKER
    said: list[str] = []
    for command in activate(instance, end).successful.commands:
        said.append(str(command.WhichOneof("variant")))
        if command.HasField("complete_workflow_execution"):
            said += CONVERTER.payload_converter.from_payload(command.complete_workflow_execution.result)
    return said


def test_a_local_tool_that_this_worker_lacks_runs_as_a_regular_activity() -> None:
    """H-25."""
    assert left_to_others(heartbeat_seconds=30, is_cancelled=False) == ["schedule_activity"]


def test_a_local_tool_that_was_cancelled_does_not_start_as_a_regular_activity() -> None:
    ended = ["request_cancel_local_activity", "complete_workflow_execution", "WorkCancelled"]
    assert left_to_others(heartbeat_seconds=30, is_cancelled=True) == ended


def test_a_local_tool_that_cannot_be_scheduled_as_a_regular_activity_is_not_running() -> None:
    """No timedelta holds its heartbeat timeout, which only a regular activity has."""
    assert left_to_others(heartbeat_seconds=1e300, is_cancelled=False) == ["complete_workflow_execution", "WorkFailed"]


@pytest.mark.faults  # ten seconds of a workflow task timeout; the simulation has the case, too
async def test_a_worker_without_a_local_activity_leaves_the_task_to_one_that_has_it(
    temporal: TemporalClient, thread_id: str
) -> None:
    """As a fact, the missing activity would make the run depend on the worker that replays it."""
    handle = await temporal.start_workflow(CallsLocally.run, id=thread_id, task_queue=thread_id)
    async with Worker(temporal, task_queue=thread_id, workflows=[CallsLocally]), asyncio.timeout(BOUND_SECONDS):
        while not (failures := await failed_tasks(handle)):
            await asyncio.sleep(0.05)
    assert "peek is not registered on this worker" in failures[0]
    async with Worker(temporal, task_queue=thread_id, workflows=[CallsLocally], activities=[peek]):
        assert await handle.result() == ["ToolReturned"]


async def failed_tasks(handle: WorkflowHandle[CallsLocally, list[str]]) -> list[str]:
    return [
        event.workflow_task_failed_event_attributes.failure.message
        async for event in handle.fetch_history_events()
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    ]


async def test_a_local_tool_is_called_like_any_other(client: Client, thread_id: str) -> None:
    assert (await client.run("parallel", "glance", thread_id=thread_id)).response == "again"
    said = [message.text for message in await client.transcript(thread_id) if message.tool_call_id]
    assert said == ["near", "far", "again"]


async def test_a_local_tool_schedules_no_activity(usual_client: Client, thread_id: str) -> None:
    await usual_client.run("parallel", "glance", thread_id=thread_id)
    history = await usual_client.handle(thread_id).fetch_history()
    scheduled = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert scheduled == ["resolve_agent", "infer", "infer", "infer"]


def test_a_tool_that_may_not_be_repeated_cannot_be_local() -> None:
    with pytest.raises(ConfigurationError, match="tool 'pay' is local: it must be read_only or idempotent"):

        @tool(local=True)
        def pay() -> None: ...
