"""The files that tools return reach the caller as references, which `client.files` reads, through every level."""

from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client as TemporalClient

from tests.conftest import served
from tests.support.drawing_app import PICTURE, registry
from wakeful import CallerError, Client, FileRef
from wakeful.contract.agents import HistoryBudget


@pytest.fixture(params=["usual", pytest.param("restless", marks=pytest.mark.restless)], scope="module")
async def client(temporal: TemporalClient, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    settings = {"history_budget": HistoryBudget(events=1)} if request.param == "restless" else {}
    async with served(temporal, registry, task_queue=f"drawing-{request.param}", **settings) as client:
        yield client


async def test_the_files_of_a_runs_tools_are_read_from_its_conversation(client: Client, thread_id: str) -> None:
    """B-630"""
    result = await client.run("artist", "draw", thread_id=thread_id)
    (file,) = result.tool_files
    assert (file.thread_id, file.tool, file.call_id, file.media_type) == (thread_id, "chart", "1-1", "image/png")
    assert (await client.files(result.tool_files), result.artifacts) == ([PICTURE], ())
    (run,) = await client.runs(thread_id)
    assert run.result is not None
    assert run.result.tool_files == result.tool_files


@pytest.mark.parametrize("how", ["delegate", "spawn"])
async def test_the_files_of_a_sub_agents_tools_reach_its_caller(client: Client, thread_id: str, how: str) -> None:
    """B-505"""
    result = await client.run("boss", how, thread_id=thread_id)
    (file,) = result.tool_files
    assert file.thread_id.startswith(f"{thread_id}/artist-")
    assert await client.files(result.tool_files) == [PICTURE]
    read = [message for message in await client.transcript(thread_id) if '"tool":"chart"' in message.text]
    assert read
    assert not any(message.media for message in read), "history has the picture once"


async def test_a_file_that_its_thread_does_not_have_is_an_error(client: Client, thread_id: str) -> None:
    result = await client.run("artist", "draw", thread_id=thread_id)
    (file,) = result.tool_files
    lost = (file.model_copy(update={"index": 1}), FileRef(thread_id=thread_id, message_id="other", type="image"))
    for ref in lost:
        with pytest.raises(CallerError, match="has no file"):
            await client.files([file, ref])
