"""A stream that begins with a snapshot has the conversation as it is, and then what happens (B-700)."""

import pytest
from temporalio.client import Client as TemporalClient

from tests.loop.conversation import entries_of
from tests.support.waiting import until_status
from tests.support.watched import Watched
from wakeful import Agent, CallerError, PermissionPolicy, Registry, RunStatus, ScriptedModel, call, say, tool
from wakeful.client.client import Client
from wakeful.contract.events import MessageReceived, MessagesSnapshot, RunStart, StreamReset
from wakeful.worker import WorkerSettings, running_worker


@tool
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


REGISTRY = Registry(
    agents=[Agent(id="a", tools=[pay], permissions=PermissionPolicy())],
    models={"default": ScriptedModel([call("pay", amount=3), say("{result}")], when={"bye": [say("bye")]})},
)


async def test_a_page_that_opens_later_gets_the_conversation_and_what_waits_and_then_what_happens(
    temporal: TemporalClient, thread_id: str
) -> None:
    """B-700"""
    client = Client(temporal, task_queue=thread_id)
    async with running_worker(temporal, REGISTRY, WorkerSettings(task_queue=thread_id, sweep_interval=None)):
        await client.send(thread_id, "pay", agent_id="a", message_id="m0")
        await until_status(client, thread_id, RunStatus.WAITING)
        await client.send(thread_id, "bye", message_id="m1")
        position = (await client.events(thread_id)).last
        async with Watched(client.watch(thread_id, snapshot=True)) as watched:
            first = await watched.until_type("messages_snapshot", provisional=True)
            waiting = await watched.until_type("message_received", provisional=True)
            await client.decide(thread_id, "1-1", "resume")
            await watched.until(lambda record: isinstance(record.event, RunStart) and bool(record.event.message_ids))
            await client.close(thread_id)
            records = await watched.to_the_end()
        assert isinstance(first.event, MessagesSnapshot)
        assert [text for _, text, _ in entries_of(first.event.messages)] == ["pay", ""]
        assert isinstance(waiting.event, MessageReceived)
        assert (waiting.event.message.id, first.seq, waiting.seq) == ("m1", position, position)
        assert [record.seq for record in records[2:]] == list(range(position + 1, records[-1].seq + 1))
        ended = [record async for record in client.watch(thread_id, snapshot=True)]
        assert isinstance(ended[0].event, MessagesSnapshot)
        assert (len(ended), ended[0].event.messages) == (1, tuple(await client.transcript(thread_id)))


def test_a_stream_with_a_snapshot_is_of_one_thread_and_from_now_on(temporal: TemporalClient) -> None:
    client = Client(temporal)
    for stream in ({"after": 3}, {"descendants": True}):
        with pytest.raises(CallerError, match="a stream that begins with a snapshot"):
            client.watch("t", snapshot=True, **stream)


async def test_a_page_gets_the_conversation_again_after_a_rewind(temporal: TemporalClient, thread_id: str) -> None:
    client = Client(temporal, task_queue=thread_id)
    async with running_worker(temporal, REGISTRY, WorkerSettings(task_queue=thread_id, sweep_interval=None)):
        await client.send(thread_id, "bye", agent_id="a", message_id="m0")
        await until_status(client, thread_id, RunStatus.DONE)
        await client.send(thread_id, "pay", message_id="m1")
        await until_status(client, thread_id, RunStatus.WAITING)
        async with Watched(client.watch(thread_id, snapshot=True)) as watched:
            first = await watched.until_type("messages_snapshot", provisional=True)
            await client.rewind(thread_id, to=0)
            reset = await watched.until_type("stream_reset", provisional=True)
            again = await watched.until(
                lambda record: isinstance(record.event, MessagesSnapshot) and record is not first
            )
        assert (reset.event, reset.seq < first.seq) == (StreamReset(reason="rewound"), True)
        assert isinstance(again.event, MessagesSnapshot)
        assert isinstance(first.event, MessagesSnapshot)
        assert len(again.event.messages) < len(first.event.messages)
