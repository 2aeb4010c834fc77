"""Trees of agents on a real server: their limit, and a cancel that overtakes their growth."""

import asyncio
import dataclasses

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.encrypted import Encryption
from tests.support.subagent_app import delegate, holding, plan, registry, spawn, written
from tests.support.subagents import until_closed, until_open
from tests.support.waiting import BOUND_SECONDS, until, until_status
from wakeful import Budget, RunStatus
from wakeful.client.client import Client
from wakeful.contract import names
from wakeful.worker import WorkerSettings, running_worker


@pytest.fixture
def client(either_subagents: Client) -> Client:
    return either_subagents


async def test_a_tree_does_not_outgrow_the_limit_of_its_root_and_why_says_so(client: Client, thread_id: str) -> None:
    leaf = plan()
    child = plan([delegate(leaf), delegate(leaf), delegate(leaf)])
    async with asyncio.timeout(BOUND_SECONDS):
        result = await client.run(
            "node", written(plan([delegate(child)])), thread_id=thread_id, budget=Budget(agents=3)
        )
    limit = f"thread {thread_id} and its sub-agents may start 3 (`agents` of its budget)"
    assert limit in result.response
    (child_node,) = (await client.tree(thread_id)).children
    assert len(child_node.children) == 2
    found = await client.why(thread_id)
    assert f"Its run can start no more sub-agents: the limit of agents is reached: {limit}." in found.why


async def test_a_thread_that_was_cancelled_starts_trees_again_also_with_a_codec(
    temporal: TemporalClient, thread_id: str
) -> None:
    config = temporal.config()
    config["data_converter"] = dataclasses.replace(temporal.data_converter, payload_codec=Encryption())
    encrypted = TemporalClient(**config)
    async with running_worker(encrypted, registry, WorkerSettings(task_queue=thread_id)):
        client = Client(encrypted, task_queue=thread_id)
        await client.send(thread_id, written(plan([delegate(plan([holding()]))])), agent_id="node")
        view = await until(client, thread_id, lambda view: bool(view.children))
        await until_status(client, view.children[0], RunStatus.RUNNING)
        await client.cancel(thread_id)
        await until_status(client, thread_id, RunStatus.DONE)
        memo = await (await client.handle(thread_id).describe()).memo()
        assert memo.get(names.MEMO_STOPPING) is None
        tree = plan([delegate(plan([delegate(plan(say="the leaf ended"))]))])
        await client.send(thread_id, written(tree))
        view = await until(client, thread_id, lambda view: view.runs == 2 and view.status is RunStatus.DONE)
        assert view.result is not None
        assert "the leaf ended" in view.result.response
        await client.close(thread_id)


async def test_a_cancel_ends_a_tree_of_several_levels(client: Client, thread_id: str) -> None:
    middle = plan([spawn(plan([holding()]))], [delegate(plan([holding()]))])
    await client.start("node", written(plan([spawn(middle)], [delegate(middle)])), thread_id=thread_id)
    await until_open(client, thread_id, 7)
    await client.cancel(thread_id)
    await until_closed(client, thread_id)


async def test_a_rewound_thread_has_the_count_of_the_step_to_which_it_returned(client: Client, thread_id: str) -> None:
    leaf = plan(say="the leaf ended")
    turns = plan([("work", {"what": "first step"})], [delegate(leaf)], [("sign", {"what": "third step"})])
    await client.start("node", written(turns), thread_id=thread_id, budget=Budget(agents=1))
    await until_status(client, thread_id, RunStatus.WAITING)
    await client.rewind(thread_id, to=1)
    view = await until(client, thread_id, lambda view: view.status is RunStatus.WAITING and view.steps == 3)
    (pending,) = view.pending
    await client.decide(thread_id, pending.suspension.id, "resume")
    result = await client.result(thread_id)
    assert "the leaf ended" in result.response
    assert "the limit of agents" not in result.response
