"""A worker of a registry with sources: it discovers their agents before its first task, and binds runs to addresses."""

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.agent_cards import card_server, unused_url
from wakeful import A2aSource, Agent, DiscoveryFailed, Registry, ScriptedModel, call, say
from wakeful.client.client import Client
from wakeful.contract.events import ChildStarted
from wakeful.worker import WorkerSettings, running_worker


async def test_runs_are_bound_to_the_agents_that_their_addresses_name(temporal: TemporalClient, thread_id: str) -> None:
    """B-626, B-627"""
    async with card_server("Weather") as server:
        registry = Registry(
            agents=[
                Agent(id="boss", model="boss", delegates=["local/clerk", "weather"]),
                Agent(id="clerk", instructions="Be kind."),
            ],
            sources=[A2aSource(name="partner", url=server.url)],
            models={
                "boss": ScriptedModel([call("agent_run_clerk", prompt="the sums"), say("{result}")]),
                "default": ScriptedModel([say("summed")]),
            },
        )
        async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
            client = Client(temporal, task_queue=thread_id)
            result = await client.run("local/boss", "go", thread_id=thread_id)
            assert "summed" in result.response
            events = [record.event for record in (await client.events(thread_id)).events]
            assert [event.agent_id for event in events if isinstance(event, ChildStarted)] == ["clerk"]
        assert [*registry.discovered] == ["partner/weather"]


async def test_a_worker_does_not_start_if_a_source_fails(temporal: TemporalClient, thread_id: str) -> None:
    """B-627"""
    registry = Registry(sources=[A2aSource(name="partner", url=unused_url())])
    with pytest.raises(DiscoveryFailed, match="remote agent discovery failed: source 'partner'"):
        async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
            pytest.fail("the worker must not start")


async def test_a_worker_that_only_calls_models_discovers_nothing(temporal: TemporalClient, thread_id: str) -> None:
    registry = Registry(sources=[A2aSource(name="partner", url=unused_url())])
    async with running_worker(temporal, registry, WorkerSettings(inference_queue=thread_id)):
        assert registry.discovered == {}
