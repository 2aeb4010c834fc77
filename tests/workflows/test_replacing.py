"""A registry that is replaced while runs are asleep: they keep the agent they began with, and new ones get the new."""

import json

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client as TemporalClient

from tests.support.app import Recording, approve
from tests.support.waiting import until_status
from wakeful import Agent, GateCall, Registry, RunStatus, call, gate, say, tool
from wakeful.client.client import Client
from wakeful.contract.names import ACTIVITY_RESOLVE_AGENT
from wakeful.worker import WorkerSettings, running_worker


@tool
def look() -> str:
    """Look."""
    return "seen"


@gate
def careful(call: GateCall) -> None:
    """Say nothing against anything."""


def model() -> Recording:
    return Recording([call("approve", what="launch"), call("look"), say("{result}")])


def old_registry(model: Recording) -> Registry:
    agent = Agent(id="clerk", instructions="Be old.", tools=[approve, look], gates=[careful])
    return Registry(agents=[agent], models={"default": model})


def new_registry(model: Recording) -> Registry:
    return Registry(agents=[Agent(id="clerk", instructions="Be new.", tools=[approve])], models={"default": model})


def seen(model: Recording) -> list[tuple[str, list[str]]]:
    """The instructions and tools that each request had."""
    return [(request.instructions, [tool.id for tool in request.tools]) for request in model.requests]


async def version(client: Client, thread_id: str) -> int:
    """The registry's version that history says the run is bound to."""
    history = await client.handle(thread_id).fetch_history()
    events = {event.event_id: event for event in history.events}
    for event in history.events:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            done = event.activity_task_completed_event_attributes
            scheduled = events[done.scheduled_event_id].activity_task_scheduled_event_attributes
            if scheduled.activity_type.name == ACTIVITY_RESOLVE_AGENT:
                found: int = json.loads(done.result.payloads[0].data)["agent"]["registry_version"]
                return found
    raise AssertionError("the run is bound to no agent")


async def suspended(client: Client, thread_id: str) -> None:
    await client.start("clerk", "go", thread_id=thread_id)
    await until_status(client, thread_id, RunStatus.WAITING)


async def test_a_sleeping_run_goes_on_with_its_own_agent_and_a_new_one_begins_with_the_new(
    temporal: TemporalClient, thread_id: str
) -> None:
    """I-12, B-605."""
    script, settings = model(), WorkerSettings(task_queue=thread_id)
    registry = old_registry(script)
    client = Client(temporal, task_queue=thread_id)
    async with running_worker(temporal, registry, settings):
        await suspended(client, thread_id)
        assert registry.replace(new_registry(script)) == 2
        await client.decide(thread_id, "1-1", "resume")
        result = await client.result(thread_id)
        assert (result.response, seen(script)) == ("seen", [("Be old.", ["approve", "look"])] * 3)
        assert await version(client, thread_id) == 1
        script.requests.clear()
        await suspended(client, f"{thread_id}-new")
        assert seen(script) == [("Be new.", ["approve"])]
        assert await version(client, f"{thread_id}-new") == 2
        await client.cancel(f"{thread_id}-new")
        await client.result(f"{thread_id}-new")


async def test_a_sleeping_run_keeps_its_agent_when_its_worker_comes_back_with_another(
    temporal: TemporalClient, thread_id: str
) -> None:
    """I-12. The new worker never had the old version, so a tool has to be listed there to be found."""
    script, settings = model(), WorkerSettings(task_queue=thread_id)
    client = Client(temporal, task_queue=thread_id)
    async with running_worker(temporal, old_registry(script), settings):
        await suspended(client, thread_id)
    script.requests.clear()
    restarted = new_registry(script).copy(tools=[look], gates=[careful])
    async with running_worker(temporal, restarted, settings):
        await client.decide(thread_id, "1-1", "resume")
        result = await client.result(thread_id)
        assert (result.response, seen(script)) == ("seen", [("Be old.", ["approve", "look"])] * 2)
        assert await version(client, thread_id) == 1
