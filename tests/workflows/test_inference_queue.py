"""Model calls on a task queue of their own, which workers serve alone."""

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client as TemporalClient

from tests.support.diagnoses import until_cause
from wakeful import Agent, ConfigurationError, Registry, ScriptedModel, call, say, tool
from wakeful.client.client import Client
from wakeful.client.diagnosis.causes import Cause
from wakeful.worker import WorkerSettings, running_worker


@tool(read_only=True)
async def look() -> str:
    """Look."""
    return "seen"


async def test_model_calls_run_on_the_models_own_task_queue_and_a_diagnosis_names_it_if_no_worker_polls_it(
    temporal: TemporalClient, thread_id: str
) -> None:
    queue = f"{thread_id}-models"
    registry = Registry(
        agents=[Agent(id="a", model="limited", tools=[look])],
        models={"limited": ScriptedModel([call("look"), say("done")])},
        inference_queues={"limited": queue},
    )
    client = Client(temporal, task_queue=thread_id)
    runs = WorkerSettings(task_queue=thread_id, sweep_interval=None)
    models = WorkerSettings(task_queue=thread_id, inference_queue=queue, max_inferences_per_second=50)
    async with running_worker(temporal, registry, runs):
        await client.start("a", "hello", thread_id=thread_id)
        found = await until_cause(client, thread_id, Cause.NO_TOOL_WORKER)
        assert f"Its model call runs on task queue {queue!r}, which no worker polls" in found.why
        assert found.commands == (f"wakeful worker --app module:registry --inference-queue {queue}",)
        async with running_worker(temporal, registry, models):
            assert (await client.result(thread_id)).response == "done"
    queues = {
        attributes.activity_type.name: attributes.task_queue.name
        async for event in client.handle(thread_id).fetch_history_events()
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
        and (attributes := event.activity_task_scheduled_event_attributes)
    }
    assert queues == {"resolve_agent": thread_id, "infer": queue, "look": thread_id}


def test_a_limit_needs_the_queue_that_it_limits() -> None:
    with pytest.raises(ConfigurationError, match="max_inferences_per_second needs an inference_queue"):
        WorkerSettings(max_inferences_per_second=5)
    with pytest.raises(ConfigurationError, match="inference_queues has the unknown model 'gpt'; registered: default"):
        Registry(agents=[Agent(id="a")], inference_queues={"gpt": "models"})
