"""Messages between agents: none lost, none duplicated, in order; one that cannot be delivered can be sent again."""

import asyncio
from typing import Any

from tests.support.subagent_app import plan, send, written
from tests.support.subagents import answer_of
from tests.support.waiting import until, until_status
from wakeful.client.client import Client
from wakeful.contract.runs import RunStatus, ThreadMode


def to_thread(thread_id: str) -> dict[str, Any]:
    return {"relation": "agent", "thread_id": thread_id}


async def test_a_message_wakes_a_thread_that_has_ended(client: Client, thread_id: str) -> None:
    other = f"{thread_id}-other"
    await client.run("node", written(plan(say="first")), thread_id=other)
    await client.run("node", written(plan([send(to_thread(other), "wake up")])), thread_id=thread_id)
    view = await until(client, other, lambda view: view.runs == 2 and view.status is RunStatus.DONE)
    texts = [message.text for message in await client.transcript(other)]
    assert "wake up" in texts[2]
    assert view.identity.agent_id == "node"
    await client.handle(other).cancel()


async def test_an_undeliverable_message_is_listed_and_can_be_sent_again(client: Client, thread_id: str) -> None:
    """I-11, B-570"""
    other = f"{thread_id}-other"
    plans = plan([send(to_thread(other), "are you there?")], [("recover_failed_messages", {})])
    await client.start("node", written(plans), thread_id=thread_id, mode=ThreadMode.THREAD)
    view = await until_status(client, thread_id, RunStatus.DONE)
    assert view.result is not None
    listed, receipt = answer_of(view.result)["results"]
    assert (receipt["status"], receipt["error"]) == ("failed", "recipient_not_found")
    assert (listed["action"], listed["count"]) == ("list", 1)
    (undelivered,) = await client.undelivered(thread_id)
    assert (undelivered.message.content, undelivered.error) == ("are you there?", "recipient_not_found")
    await client.start("node", written(plan(say="now I am")), thread_id=other, mode=ThreadMode.THREAD)
    await client.recover_undelivered(thread_id, "replay")
    async with asyncio.timeout(30):
        while not any("are you there?" in message.text for message in await client.transcript(other)):
            await asyncio.sleep(0.1)
    await until(client, thread_id, lambda view: not view.undelivered)
    await client.recover_undelivered(thread_id, "replay")  # nothing is sent twice
    texts = [message.text for message in await client.transcript(other)]
    assert sum("are you there?" in text for text in texts) == 1
    for id in (thread_id, other):
        await client.handle(id).cancel()


async def test_messages_of_one_step_arrive_in_their_order(client: Client, thread_id: str) -> None:
    other = f"{thread_id}-other"
    await client.start("node", written(plan(say="here")), thread_id=other, mode=ThreadMode.THREAD)
    await until_status(client, other, RunStatus.DONE)
    messages = [send(to_thread(other), f"number {n}") for n in range(8)]
    await client.run("node", written(plan(messages)), thread_id=thread_id)

    async def received() -> list[str]:
        lines = (message.text.splitlines() for message in await client.transcript(other))
        return [line[1] for line in lines if line and line[0].startswith("<agent-message")]

    async with asyncio.timeout(30):
        while len(await received()) < 8:
            await asyncio.sleep(0.1)
    assert await received() == [f"number {n}" for n in range(8)]
    await client.handle(other).cancel()
