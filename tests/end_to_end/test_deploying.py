"""A changed worker is deployed while runs sleep, with Temporal's Worker Versioning: what becomes of the runs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType, RoutingConfigUpdateState
from temporalio.api.enums.v1 import VersioningBehavior as Override
from temporalio.api.workflow.v1 import VersioningOverride, WorkflowExecutionOptions
from temporalio.api.workflowservice.v1 import (
    DescribeWorkerDeploymentRequest,
    SetWorkerDeploymentCurrentVersionRequest,
    UpdateWorkflowExecutionOptionsRequest,
)
from temporalio.client import Client as TemporalClient
from temporalio.common import VersioningBehavior
from temporalio.service import RPCError

from tests.support.processes import worker_process
from tests.support.waiting import BOUND_SECONDS, until_status
from wakeful import Agent, Registry, RunStatus, ScriptedModel, Tool, ToolContext, call, say, tool
from wakeful.client.client import Client
from wakeful.worker import WorkerSettings, running_worker

pytestmark = pytest.mark.integration

AUTO_UPGRADE, PINNED = VersioningBehavior.AUTO_UPGRADE, VersioningBehavior.PINNED


def app(version: str, *more: Tool) -> Registry:
    """The agent of a version: other instructions, another model, another body of its tool, and perhaps more tools."""

    @tool
    def pay(ctx: ToolContext) -> str:
        """Pay, after a person has agreed."""
        if ctx.resume_input is None:
            ctx.suspend("May I pay?")
        return f"paid by {version}"

    script = ScriptedModel([call("pay"), say(f"{{result}}, answered by {version}")])
    agent = Agent(id="clerk", instructions=f"You are {version}.", tools=[pay, *more])
    return Registry(agents=[agent], models={"default": script})


@tool
def receipt() -> str:
    """A tool that only the second version has."""
    return "a receipt"


FIRST, SECOND = app("v1"), app("v2", receipt)


@contextlib.asynccontextmanager
async def deployed(
    temporal: TemporalClient, registry: Registry, build_id: str, behavior: VersioningBehavior, *, name: str
) -> AsyncIterator[None]:
    """A worker of a version, on the deployment's own task queue; new runs and those that may move are routed to it."""
    settings = WorkerSettings(task_queue=name, deployment=name, build_id=build_id, versioning=behavior)
    async with running_worker(temporal, registry, settings):
        await set_current(temporal, name, build_id)
        yield


async def set_current(temporal: TemporalClient, deployment: str, build_id: str) -> None:
    """`temporal worker deployment set-current-version`, until the server's task queues have it."""
    request = SetWorkerDeploymentCurrentVersionRequest(
        namespace=temporal.namespace, deployment_name=deployment, build_id=build_id, identity="tests"
    )
    asked = DescribeWorkerDeploymentRequest(namespace=temporal.namespace, deployment_name=deployment)
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            with contextlib.suppress(RPCError):  # a version is known when its worker has polled
                await temporal.workflow_service.set_worker_deployment_current_version(request)
                break
            await asyncio.sleep(0.1)
        while True:
            info = (await temporal.workflow_service.describe_worker_deployment(asked)).worker_deployment_info
            if info.routing_config_update_state == RoutingConfigUpdateState.ROUTING_CONFIG_UPDATE_STATE_COMPLETED:
                return
            await asyncio.sleep(0.1)


async def asleep(client: Client, thread_id: str) -> str:
    """Start a run and let it fall asleep; gives the call that asks."""
    await client.start("clerk", "pay, please", thread_id=thread_id)
    view = await until_status(client, thread_id, RunStatus.WAITING)
    return view.pending[0].pending.id


async def builds(client: Client, thread_id: str) -> list[str]:
    """Which version did each task of the run; none of the tasks has failed."""
    events = (await client.handle(thread_id).fetch_history()).events
    assert [event for event in events if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED] == []
    done = [event for event in events if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED]
    by = [event.workflow_task_completed_event_attributes.deployment_version.build_id for event in done]
    return list(dict.fromkeys(by))


async def test_a_suspended_run_continues_on_the_new_version(temporal: TemporalClient, thread_id: str) -> None:
    """AUTO_UPGRADE, which we recommend. The old worker is still there, and is not needed."""
    client = Client(temporal, task_queue=thread_id)
    async with deployed(temporal, FIRST, "1", AUTO_UPGRADE, name=thread_id):
        call_id = await asleep(client, thread_id)
        async with deployed(temporal, SECOND, "2", AUTO_UPGRADE, name=thread_id):
            await client.decide(thread_id, call_id, "resume")
            result = await client.result(thread_id)
    assert result.response == "paid by v2, answered by v2"
    assert await builds(client, thread_id) == ["1", "2"]


async def test_the_command_starts_a_worker_of_a_version(
    temporal: TemporalClient, thread_id: str, tmp_path: Path
) -> None:
    client, address = Client(temporal, task_queue=thread_id), temporal.service_client.config.target_host
    version = ["--deployment", thread_id, "--build-id", "7"]
    async with worker_process(address, thread_id, tmp_path / "journal", *version):
        await set_current(temporal, thread_id, "7")
        assert (await client.run("tester", "hi", thread_id=thread_id)).response == "hello, hi"
    assert await builds(client, thread_id) == ["7"]


async def test_a_rolled_back_deployment_rolls_its_runs_back(temporal: TemporalClient, thread_id: str) -> None:
    client = Client(temporal, task_queue=thread_id)
    async with deployed(temporal, FIRST, "1", AUTO_UPGRADE, name=thread_id):
        async with deployed(temporal, SECOND, "2", AUTO_UPGRADE, name=thread_id):
            call_id = await asleep(client, thread_id)
            await set_current(temporal, thread_id, "1")
        await client.decide(thread_id, call_id, "resume")
        result = await client.result(thread_id)
    assert result.response == "paid by v1, answered by v1"
    assert await builds(client, thread_id) == ["2", "1"]


async def test_an_unversioned_run_continues_on_the_first_version(temporal: TemporalClient, thread_id: str) -> None:
    client = Client(temporal, task_queue=thread_id)
    async with running_worker(temporal, FIRST, WorkerSettings(task_queue=thread_id)):
        call_id = await asleep(client, thread_id)
    async with deployed(temporal, SECOND, "2", AUTO_UPGRADE, name=thread_id):
        await client.decide(thread_id, call_id, "resume")
        result = await client.result(thread_id)
    assert result.response == "paid by v2, answered by v2"
    assert await builds(client, thread_id) == ["", "2"]


async def test_a_pinned_run_stays_on_the_version_it_started_on(temporal: TemporalClient, thread_id: str) -> None:
    client = Client(temporal, task_queue=thread_id)
    async with deployed(temporal, FIRST, "1", PINNED, name=thread_id):
        call_id = await asleep(client, thread_id)
        async with deployed(temporal, SECOND, "2", PINNED, name=thread_id):
            await client.decide(thread_id, call_id, "resume")
            result = await client.result(thread_id)
    assert result.response == "paid by v1, answered by v1"
    assert await builds(client, thread_id) == ["1"]


async def test_a_pinned_run_without_workers_waits_until_it_is_moved(temporal: TemporalClient, thread_id: str) -> None:
    """Why we do not recommend PINNED: you must keep the old version running, or move each of its runs."""
    client = Client(temporal, task_queue=thread_id)
    async with deployed(temporal, FIRST, "1", PINNED, name=thread_id):
        call_id = await asleep(client, thread_id)
    async with deployed(temporal, SECOND, "2", PINNED, name=thread_id):
        await client.decide(thread_id, call_id, "resume")
        later = await asleep(client, f"{thread_id}-later")
        await client.decide(f"{thread_id}-later", later, "resume")
        assert (await client.result(f"{thread_id}-later")).response == "paid by v2, answered by v2"
        assert await builds(client, thread_id) == ["1"]
        await move(temporal, thread_id)
        result = await client.result(thread_id)
    assert result.response == "paid by v2, answered by v2"
    assert await builds(client, thread_id) == ["1", "2"]


async def move(temporal: TemporalClient, thread_id: str) -> None:
    """`temporal workflow update-options --versioning-override-behavior auto_upgrade`, from Python."""
    override = VersioningOverride(auto_upgrade=True, behavior=Override.VERSIONING_BEHAVIOR_AUTO_UPGRADE)
    await temporal.workflow_service.update_workflow_execution_options(
        UpdateWorkflowExecutionOptionsRequest(
            namespace=temporal.namespace,
            workflow_execution=WorkflowExecution(workflow_id=thread_id),
            workflow_execution_options=WorkflowExecutionOptions(versioning_override=override),
            update_mask=FieldMask(paths=["versioning_override"]),
        )
    )
