"""Forks of runs with handoffs and tasks: what stays with the origin, and what the fork inherits."""

import pytest

from tests.support.subagent_app import holding, plan, spawn, written
from tests.support.subagents import ends_in_tree
from tests.support.waiting import until
from wakeful.client.client import Client
from wakeful.contract.runs import RunStatus


@pytest.fixture
def client(either_subagents: Client) -> Client:
    return either_subagents


async def test_the_agent_of_a_fork_is_the_one_that_answered_at_that_step(client: Client, thread_id: str) -> None:
    """After the step that hands off, it is the other one."""
    plans = plan([("work", {"what": "first"})], [("handoff_to_back", {})], [("work", {"what": "as the other"})])
    await client.run("front", written(plans), thread_id=thread_id)
    for at, agent_id in ((0, "front"), (1, "front"), (2, "back"), (3, "back")):
        fork = await client.fork(thread_id, at=at)
        assert (await client.status(fork)).identity.agent_id == agent_id
        assert (await client.result(fork)).status_reason == "natural"


async def test_the_tasks_of_a_thread_stay_with_it(client: Client, thread_id: str) -> None:
    """A task that a fork starts has an id that no task of its origin has in the shared conversation."""
    plans = plan([spawn(plan([holding()]))], [("work", {"what": "meanwhile"})])
    await client.start("node", written(plans), thread_id=thread_id)
    await until(client, thread_id, lambda view: view.steps == 3)
    fork = await client.fork(thread_id, at=1, message=written(plan([spawn(plan())])))
    assert (await client.result(fork)).status_reason == "natural"
    (task,) = (await client.status(fork)).tasks
    (origins,) = (await client.status(thread_id)).tasks
    assert (origins.status.value, task.task_id == origins.task_id) == ("running", False)
    await client.cancel(thread_id)
    await client.result(thread_id)


async def test_a_fork_of_a_sub_agent_has_no_parent(client: Client, thread_id: str) -> None:
    await client.run("node", written(plan([spawn(plan([("work", {"what": "below"})]))])), thread_id=thread_id)
    (child,) = set(await ends_in_tree(client, thread_id)) - {thread_id}
    fork = await client.fork(child, at=1)
    result = await client.result(fork)
    identity = (await client.status(fork)).identity
    assert (identity.parent_thread_id, identity.path, identity.task, result.thread_id) == (None, (), None, fork)
    view = await client.status(thread_id)
    assert (view.status, len(view.tasks)) == (RunStatus.DONE, 1)
