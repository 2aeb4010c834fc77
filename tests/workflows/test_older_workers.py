"""Older and newer workers on one task queue, as in a rolling deploy: a run waits for one that has what it needs."""

import asyncio

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client as TemporalClient

from tests.support.diagnoses import until_cause
from tests.support.waiting import BOUND_SECONDS
from wakeful import Agent, HookContext, Plugin, Registry, ScriptedModel, call, say, tool
from wakeful.cli.terminal import outage_notice
from wakeful.client.client import Client
from wakeful.client.diagnosis.causes import Cause
from wakeful.connection import Address, connect
from wakeful.worker import WorkerSettings, running_worker


@tool(read_only=True, local=True)
async def glance() -> str:
    """Look at once."""
    return "glanced"


@tool
async def pay() -> str:
    """Pay."""
    return "paid"


class Greeting(Plugin):
    id = "greeting"

    async def run_start(self, ctx: HookContext) -> None:
        ctx.add_context("greeting", "Say hello.")


MODELS = {"default": ScriptedModel([call("glance"), call("pay"), say("done")])}
OLD = Registry(agents=[Agent(id="older")], models=MODELS)
NEW = Registry(agents=[Agent(id="newer", tools=[glance, pay], plugins=[Greeting()])], models=MODELS)


async def test_a_run_waits_for_a_worker_that_knows_its_agent_tools_and_plugin(
    temporal: TemporalClient, thread_id: str
) -> None:
    """H-25."""
    settings, client = WorkerSettings(task_queue=thread_id, sweep_interval=None), Client(temporal, task_queue=thread_id)
    async with running_worker(temporal, OLD, settings):
        await client.start("newer", "hello", thread_id=thread_id)
        found = await until_cause(client, thread_id, Cause.MISSING)
        assert "has been waiting for " in found.doing
        assert found.doing.endswith(" for a worker that has agent 'newer'.")
        assert f"The last worker that was tried, {temporal.identity}, which knows older, does not have it." in found.why
        other = await connect(Address(address=temporal.service_client.config.target_host))
        async with running_worker(other, NEW, settings):
            result = await client.result(thread_id)
    assert (result.status_reason, result.response) == ("natural", "done")
    transcript = await client.transcript(thread_id)
    assert [message.text for message in transcript if message.tool_call_id] == ["glanced", "paid"]


async def test_a_person_who_waits_reads_after_two_seconds_which_agents_the_workers_know(
    temporal: TemporalClient, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-25."""
    monkeypatch.setattr(outage_notice, "MISSING_SECONDS", 0.1)
    settings, client = WorkerSettings(task_queue=thread_id, sweep_interval=None), Client(temporal, task_queue=thread_id)
    warnings: asyncio.Queue[str] = asyncio.Queue()
    async with running_worker(temporal, OLD, settings), asyncio.timeout(BOUND_SECONDS):
        await client.start("newr", "hello", thread_id=thread_id)
        await until_cause(client, thread_id, Cause.MISSING)
        async with outage_notice.OutageNotice(client, thread_id, warnings.put_nowait):
            warning = await warnings.get()
        assert warning.startswith(
            f"no worker has agent 'newr' yet (worker {temporal.identity} knows older); others are"
        )
        await client.cancel(thread_id)
        assert (await client.result(thread_id)).status_reason.startswith("cancelled")


async def test_the_details_of_a_thread_say_what_its_workers_lack_until_one_has_it(
    temporal: TemporalClient, thread_id: str
) -> None:
    """H-25."""
    settings, client = WorkerSettings(task_queue=thread_id, sweep_interval=None), Client(temporal, task_queue=thread_id)

    async def details() -> str:
        metadata: WorkflowMetadata = await client.handle(thread_id).query("__temporal_workflow_metadata")
        return metadata.current_details

    async with running_worker(temporal, OLD, settings), asyncio.timeout(BOUND_SECONDS):
        await client.start("newer", "hello", thread_id=thread_id)
        while "**Waiting for a worker that has agent 'newer'**" not in (shown := await details()):
            await asyncio.sleep(0.1)
        assert f"Worker `{temporal.identity}`, which knows older, lacks it; others are tried until " in shown
        other = await connect(Address(address=temporal.service_client.config.target_host))
        async with running_worker(other, NEW, settings):
            await client.result(thread_id)
            assert "Waiting for a worker" not in await details()
