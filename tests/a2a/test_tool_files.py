"""Files that tools return, in the tasks that are served over A2A, and in the results of those who call them (B-714)."""

from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from a2a.types import Part
from temporalio.client import Client as TemporalClient

from tests.a2a.conftest import calling, serving
from tests.conftest import served, worker_settings
from tests.support.drawing_app import PICTURE, PNG, registry
from wakeful import Agent, Client, Registry
from wakeful.a2a import reading
from wakeful.connection import free_port
from wakeful.contract.remote import Endpoint
from wakeful.worker import running_worker

FILE = Part(raw=PNG, media_type="image/png")
AGENTS = {"artist": "Draws.", "boss": "Has it drawn."}


@pytest.fixture(scope="module")
async def artists(temporal: TemporalClient) -> AsyncIterator[Client]:
    async with served(temporal, registry, task_queue="drawing-a2a") as client:
        yield client


@pytest.mark.parametrize(("agent", "text"), [("artist", "draw"), ("boss", "delegate")])
async def test_a_task_has_the_files_of_its_tools_and_of_its_delegates_as_an_artifact(
    artists: Client, thread_id: str, agent: str, text: str
) -> None:
    async with serving(artists, agents=AGENTS) as url:
        async with calling(url, thread_id, agent=agent) as caller:
            task = await caller.task(caller.request(text))
            assert [artifact.artifact_id for artifact in task.artifacts] == ["response", "files"]
            assert list(task.artifacts[1].parts) == [FILE]
            assert await caller.get(task.id) == task
        async with calling(url, f"{thread_id}-streamed", agent=agent, streaming=True) as caller:
            events = await caller.stream(caller.request(text))
    *_, last = (event.artifact_update for event in events if event.HasField("artifact_update"))
    assert (last.artifact.artifact_id, list(last.artifact.parts), last.append) == ("files", [FILE], False)
    assert any(
        event.HasField("status_update") and before.HasField("artifact_update") for before, event in pairwise(events)
    )


async def test_files_that_do_not_fit_a_task_are_left_out(
    artists: Client, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_FILES_BYTES", 10)
    async with serving(artists, agents=AGENTS) as url, calling(url, thread_id, agent="artist") as caller:
        task = await caller.task(caller.request("draw"))
    assert [artifact.artifact_id for artifact in task.artifacts] == ["response"]


async def test_an_agent_that_calls_another_over_a2a_gets_the_files_of_its_tools(
    artists: Client, temporal: TemporalClient, thread_id: str
) -> None:
    """B-505"""
    port = free_port()
    remote = Agent(
        id="remote", description="Draws.", endpoint=Endpoint(url=f"http://127.0.0.1:{port}/artist", poll_seconds=0.2)
    )
    queue = f"{thread_id}-caller"
    async with (
        serving(artists, agents=AGENTS, port=port),
        running_worker(temporal, Registry(agents=[remote]), worker_settings(task_queue=queue, sweep_interval=None)),
        Client(temporal, task_queue=queue) as client,
    ):
        result = await client.run("remote", "draw", thread_id=thread_id)
    assert (result.response.splitlines()[0], result.artifacts) == ("here it is", (PICTURE,))
