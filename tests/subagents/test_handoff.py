"""One agent hands the conversation off to another."""

from tests.support.subagent_app import plan, written
from tests.support.waiting import until
from wakeful.client.client import Client
from wakeful.contract.events import Handoff
from wakeful.contract.runs import RunStatus, ThreadMode


async def test_the_other_agent_continues_the_run_and_answers_later_ones(client: Client, thread_id: str) -> None:
    """B-522, B-524"""
    plans = plan([("handoff_to_back", {})], [("work", {"what": "as the other"})])
    await client.start("front", written(plans), thread_id=thread_id, mode=ThreadMode.THREAD)
    view = await until(client, thread_id, lambda view: view.status is RunStatus.DONE)
    assert (view.active_agent, view.identity.agent_id, view.runs, view.steps) == ("back", "front", 1, 3)
    await client.send(thread_id, written(plan(say="again")))
    view = await until(client, thread_id, lambda view: view.runs == 2 and view.status is RunStatus.DONE)
    assert view.identity.agent_id == "back"
    await client.handle(thread_id).cancel()
    handed = [record.event async for record in client.watch(thread_id) if isinstance(record.event, Handoff)]
    assert [(event.from_agent, event.to_agent) for event in handed] == [("front", "back")]


async def test_a_woken_thread_has_the_agent_of_the_last_handoff(client: Client, thread_id: str) -> None:
    await client.run("front", written(plan([("handoff_to_back", {})])), thread_id=thread_id)
    await client.send(thread_id, written(plan(say="again")))
    view = await until(client, thread_id, lambda view: view.runs == 2 and view.status is RunStatus.DONE)
    assert view.identity.agent_id == "back"
    await client.handle(thread_id).cancel()
