"""A worker of a registry with sources: it discovers their agents before its first task, and binds runs to addresses."""

from temporalio.client import Client as TemporalClient

from tests.support.agent_cards import card_server, unused_url
from wakeful import A2aSource, Agent, Registry, ScriptedModel, call, say
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


async def test_an_outage_of_a_source_does_not_stop_a_worker_from_serving_its_own_agents(
    temporal: TemporalClient, thread_id: str
) -> None:
    """B-627"""
    boss = Agent(id="boss", delegates=["partner/weather"])
    sources = [A2aSource(name="partner", url=unused_url())]
    registry = Registry(agents=[boss], sources=sources, models={"default": ScriptedModel([say("here")])})
    async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
        result = await Client(temporal, task_queue=thread_id).run("boss", "go", thread_id=thread_id)
    assert result.response == "here"


async def test_a_worker_that_only_calls_models_discovers_nothing(temporal: TemporalClient, thread_id: str) -> None:
    registry = Registry(sources=[A2aSource(name="partner", url=unused_url())])
    async with running_worker(temporal, registry, WorkerSettings(inference_queue=thread_id)):
        assert registry.discovered == {}
