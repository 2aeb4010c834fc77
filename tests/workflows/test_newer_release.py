"""A worker of an older release does not continue a thread that a newer one has written: the thread waits for that."""

import asyncio
import json
from unittest.mock import patch

from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecutionStatus

from tests.support.waiting import BOUND_SECONDS, until
from wakeful import Agent, Registry, ScriptedModel, say
from wakeful.client.client import Client
from wakeful.contract import names
from wakeful.contract.agents import HistoryBudget
from wakeful.loop.thread import continue_as_new
from wakeful.worker import WorkerSettings, running_worker

NEWER = continue_as_new.FORMAT + 1


async def test_a_snapshot_of_a_newer_release_waits_for_a_worker_of_it(temporal: TemporalClient, thread_id: str) -> None:
    client = Client(temporal, task_queue=thread_id)
    registry = Registry(agents=[Agent(id="a")], models={"default": ScriptedModel([say("heard {input}")])})
    settings = WorkerSettings(task_queue=thread_id, sweep_interval=None, history_budget=HistoryBudget(events=1))
    with patch.object(continue_as_new, "FORMAT", NEWER):
        async with running_worker(temporal, registry, settings):
            await client.send(thread_id, "one", agent_id="a")
            await until(client, thread_id, lambda view: view.runs == 1 and view.result is not None)
    assert (await snapshot(temporal, thread_id))["format"] == NEWER
    async with running_worker(temporal, registry, settings):  # a roll-back to this release
        await client.send(thread_id, "two")
        reason = await failed_task(temporal, thread_id)
        assert f"has format {NEWER}, and this release knows formats up to {NEWER - 1}" in reason
    assert (await client.handle(thread_id).describe()).status is WorkflowExecutionStatus.RUNNING
    with patch.object(continue_as_new, "FORMAT", NEWER):
        async with running_worker(temporal, registry, settings):
            await until(client, thread_id, lambda view: view.runs == 2 and view.result is not None)
            said = [message.text for message in await client.transcript(thread_id)]
            assert said == ["one", "heard one", "two", "heard two"]


async def snapshot(temporal: TemporalClient, thread_id: str) -> dict[str, object]:
    first = (await temporal.get_workflow_handle(thread_id).fetch_history()).events[0]
    given = json.loads(first.workflow_execution_started_event_attributes.input.payloads[0].data)
    found: dict[str, object] = given[names.SNAPSHOT]
    return found


async def failed_task(temporal: TemporalClient, thread_id: str) -> str:
    """Why a workflow task of the newest execution failed."""
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            for event in (await temporal.get_workflow_handle(thread_id).fetch_history()).events:
                if event.HasField("workflow_task_failed_event_attributes"):
                    return str(event.workflow_task_failed_event_attributes.failure.message)
            await asyncio.sleep(0.05)
