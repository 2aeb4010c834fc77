"""Agents that call agents and wait for them."""

from temporalio.client import WorkflowExecutionStatus

from tests.support.subagent_app import delegate, holding, plan, written
from tests.support.subagents import answer_of, ends_in_tree, until_closed, until_pending
from tests.support.waiting import until
from wakeful.client.client import Client
from wakeful.contract.runs import Origin, RunStatus


async def test_a_delegate_answers_its_parent(client: Client, thread_id: str) -> None:
    """B-502, B-505, I-13"""
    child = plan([("work", {"what": "the sums"})], say="summed")
    result = await client.run("node", written(plan([delegate(child)])), thread_id=thread_id)
    (answer,) = answer_of(result)["results"]
    assert answer["agent_id"] == "node"
    assert answer["status"] == "completed"
    assert answer["steps"] == 2
    assert answer["response"]["say"] == "summed"
    assert result.steps == 2
    assert result.spent is not None
    assert (result.spent.turns, result.spent.tool_calls, result.spent.tokens) == (4, 2, 400)


async def test_a_delegate_knows_its_identity_and_its_parent(client: Client, thread_id: str) -> None:
    """B-503; awaken: local_backend_sets_sub_agent_identity, local_backend_passes_parent_thread_id"""
    await client.start("node", written(plan([delegate(plan([holding()]))])), thread_id=thread_id)
    view = await until(client, thread_id, lambda view: bool(view.children))
    (child,) = view.children
    identity = (await until(client, child, lambda view: view.status is RunStatus.RUNNING)).identity
    assert child.startswith(f"{thread_id}/node-")
    assert identity.thread_id == identity.run_id == child
    assert (identity.parent_thread_id, identity.parent_run_id) == (thread_id, view.identity.run_id)
    assert identity.parent_tool_call_id == view.calls[0].call_id
    assert (identity.origin, identity.agent_id, identity.path) == (Origin.SUBAGENT, "node", (thread_id,))
    await client.cancel(thread_id)
    await client.result(thread_id)


async def test_a_decision_goes_to_the_child_while_the_parent_keeps_waiting(client: Client, thread_id: str) -> None:
    """H-05: nothing restarts the child."""
    child = plan([("work", {"what": "once"})], [("sign", {"what": "the contract"})], say="signed")
    await client.start("node", written(plan([delegate(plan([delegate(child)]))])), thread_id=thread_id)
    await until(client, thread_id, lambda view: bool(view.children))
    entry = await until_pending(client, thread_id)
    assert entry.path[0] == thread_id
    assert len(entry.path) == 3
    assert entry.path[-1] == entry.thread_id
    await client.decide(entry.thread_id, entry.call_id, "resume")
    result = await client.result(thread_id)
    assert "signed the contract" in result.response
    assert result.spent is not None
    assert result.spent.turns == 2 + 2 + 3


async def test_a_child_that_is_terminated_fails_its_call(client: Client, thread_id: str) -> None:
    await client.start("node", written(plan([delegate(plan([holding()]))])), thread_id=thread_id)
    view = await until(client, thread_id, lambda view: bool(view.children))
    (child,) = view.children
    await until(client, child, lambda view: view.status is RunStatus.RUNNING)  # the server has started it
    await client.handle(child).terminate("by an operator")
    result = await client.result(thread_id)
    (failed,) = answer_of(result)["results"]
    assert failed.startswith("delegation to ")
    assert "terminated" in failed


async def test_levels_of_sub_agents_have_a_limit(client: Client, thread_id: str) -> None:
    """B-510 has none; a loop of agents that call each other must end."""
    deep = plan(say="the bottom")
    for _ in range(12):
        deep = plan([delegate(deep)])
    result = await client.run("node", written(deep), thread_id=thread_id)
    assert "at most 8 levels of them (max_depth)" in result.response
    assert len(await ends_in_tree(client, thread_id)) == 9


async def test_children_of_a_terminated_parent_stop(client: Client, thread_id: str) -> None:
    await client.start("node", written(plan([delegate(plan([delegate(plan([holding()]))]))])), thread_id=thread_id)
    view = await until(client, thread_id, lambda view: bool(view.children))
    await until(client, view.children[0], lambda view: bool(view.children))
    await client.handle(thread_id).terminate("by an operator")
    await until_closed(client, thread_id)
    ends = await ends_in_tree(client, thread_id)
    assert ends.pop(thread_id) == WorkflowExecutionStatus.TERMINATED.name
    assert set(ends.values()) == {"cancelled"}
    assert len(ends) == 2
