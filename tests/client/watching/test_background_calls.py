"""What a background tool reports is shown to a live watcher of the tree that the tool belongs to."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from temporalio.client import Client as TemporalClient

from tests.conftest import served
from tests.support.provider_app import Digging
from tests.support.watched import Watched
from wakeful import Agent, Client, Registry, ScriptedModel, ToolContext, call, say, tool
from wakeful.contract.events import ActivitySnapshot, EventRecord, TaskChanged, ToolCallStreamDelta

SURVEYING = Digging()


@tool(background=True, read_only=True)
async def survey(ctx: ToolContext) -> str:
    """Survey the ground."""
    for metre in (1, 2):
        ctx.stream(f"metre {metre} ")
        ctx.report(f"metre {metre}", progress=metre / 2)
        await SURVEYING.wait()
    return "clay"


model = ScriptedModel(
    when={
        "^root": [call("agent_run_surveyor", prompt="survey"), say("done")],
        "^survey": [call("survey"), say("waiting"), say("clay")],
    },
    strict=False,
)
registry = Registry(
    agents=[Agent(id="boss", delegates=["surveyor"]), Agent(id="surveyor", tools=[survey])], models={"default": model}
)


@pytest.fixture(scope="module")
async def client(temporal: TemporalClient) -> AsyncIterator[Client]:
    async with served(temporal, registry, task_queue="surveying") as client:
        yield client


def content_of(record: EventRecord) -> dict[str, Any]:
    assert isinstance(record.event, ActivitySnapshot)
    assert isinstance(record.event.content, dict)
    return record.event.content


def is_progress(record: EventRecord) -> bool:
    # That of the delegate is durable.
    return isinstance(record.event, ActivitySnapshot) and record.provisional


def says(message: str, record: EventRecord) -> bool:
    return is_progress(record) and content_of(record).get("message") == message


@pytest.mark.parametrize(("agent", "text", "depth"), [("surveyor", "survey", 0), ("boss", "root", 1)])
async def test_the_progress_and_the_output_of_a_background_tool_are_shown_while_it_runs(
    client: Client, thread_id: str, agent: str, text: str, depth: int
) -> None:
    """B-241"""
    SURVEYING.begin()
    await client.start(agent, text, thread_id=thread_id)
    async with Watched(client.watch(thread_id, live=True, descendants=True)) as watched:
        for metre in ("metre 1", "metre 2"):
            await watched.until(partial(says, metre))
            SURVEYING.seen()
        records = await watched.to_the_end()
    shown = [record for record in records if is_progress(record)]
    assert [
        (content_of(each)["tool_name"], content_of(each)["progress"], content_of(each)["status"]) for each in shown
    ] == [
        ("survey", 0.5, "running"),
        ("survey", 1.0, "running"),
        ("survey", 1.0, "done"),
    ]
    assert {(content_of(each)["call_id"], len(each.path), each.agent_id) for each in shown} == {
        ("1-1", depth, "surveyor")
    }
    output = [record.event for record in records if isinstance(record.event, ToolCallStreamDelta)]
    assert [event.delta for event in output] == ["metre 1 ", "metre 2 "]
    own = [record for record in records if record.thread_id == shown[0].thread_id]
    assert [record.seq for record in own] == sorted(record.seq for record in own)
    end = next(
        n for n, each in enumerate(own) if isinstance(each.event, TaskChanged) and each.event.task.status.is_terminal
    )
    assert own[end - 1] == shown[-1], "the last progress comes before the end"


async def test_a_watcher_that_comes_back_sees_the_progress_of_the_tools_that_run(
    client: Client, thread_id: str
) -> None:
    SURVEYING.begin()
    await client.start("surveyor", "survey", thread_id=thread_id)
    async with Watched(client.watch(thread_id, live=True, descendants=True)) as watched:
        seen = await watched.until(partial(says, "metre 1"))
    async with Watched(client.watch(thread_id, after=seen.seq, live=True, descendants=True)) as watched:
        assert (await watched.until(partial(says, "metre 1"))).seq >= seen.seq
        SURVEYING.seen()
        await watched.until(partial(says, "metre 2"))
        SURVEYING.seen()
        records = await watched.to_the_end()
    assert [content_of(record)["status"] for record in records if is_progress(record)][-1] == "done"


async def test_the_progress_of_a_background_tool_that_is_cancelled_ends_as_cancelled(
    client: Client, thread_id: str
) -> None:
    SURVEYING.begin()
    await client.start("surveyor", "survey", thread_id=thread_id)
    async with Watched(client.watch(thread_id, live=True, descendants=True)) as watched:
        await watched.until(partial(says, "metre 1"))
        await client.cancel(thread_id)
        records = await watched.to_the_end()
    assert [content_of(record)["status"] for record in records if is_progress(record)] == ["running", "cancelled"]
