"""Budgets of a tree: it stops within one model call per node of the limit, and names the budget that is spent."""

import pytest

from tests.support.subagent_app import TOKENS_A_TURN, delegate, holding, plan, spawn, written
from tests.support.subagents import ends_in_tree, until_closed
from wakeful.client.client import Client
from wakeful.contract.budgets import Budget

LONG = [[("work", {"what": f"step {n}"})] for n in range(30)]


async def test_a_tree_stops_within_one_model_call_per_node_of_its_token_budget(client: Client, thread_id: str) -> None:
    greedy = plan(*LONG)
    tree = plan([spawn(plan([delegate(greedy)], *LONG)), spawn(greedy), delegate(greedy)], *LONG)
    limit = 4000
    thread = await client.start("node", written(tree), thread_id=thread_id, budget=Budget(tokens=limit))
    result = await client.result(thread)
    assert result.status_reason == "stopped:budget"
    assert result.termination.type == "stopped"
    assert "token" in (result.termination.value.detail or "")
    ends = await ends_in_tree(client, thread_id)
    await until_closed(client, thread_id)
    assert result.spent is not None
    assert limit - TOKENS_A_TURN <= result.spent.tokens <= limit + len(ends) * TOKENS_A_TURN
    assert result.spent.tokens > (result.usage.total_tokens or 0)
    assert result.spent.cost > 0


@pytest.mark.parametrize(
    ("budget", "which"),
    [
        (Budget(turns=3), "turn"),
        (Budget(tool_calls=2), "tool call"),
        (Budget(cost=0.00025), "cost"),
    ],
)
async def test_every_budget_stops_a_run_and_is_named(
    client: Client, thread_id: str, budget: Budget, which: str
) -> None:
    result = await client.run("node", written(plan(*LONG)), thread_id=thread_id, budget=budget)
    assert result.status_reason == "stopped:budget"
    assert result.termination.type == "stopped"
    assert which in (result.termination.value.detail or "")
    assert result.steps <= 4


async def test_wall_time_stops_all_descendants_too(client: Client, thread_id: str) -> None:
    tree = plan([spawn(plan([holding()])), delegate(plan([holding()])), holding()])
    result = await client.run("node", written(tree), thread_id=thread_id, budget=Budget(seconds=2))
    assert result.status_reason == "stopped:budget"
    assert result.termination.type == "stopped"
    assert "time" in (result.termination.value.detail or "")
    await until_closed(client, thread_id)


async def test_children_return_the_budget_that_they_did_not_spend(client: Client, thread_id: str) -> None:
    """Ten delegates, one after another, fit into a budget a tenth of which would not be enough for one."""
    turns = [[delegate(plan([("work", {"what": f"{n}"})]))] for n in range(10)]
    result = await client.run("node", written(plan(*turns)), thread_id=thread_id, budget=Budget(tokens=3300))
    assert result.status_reason == "natural"
    assert result.spent is not None
    assert result.spent.tokens == (11 + 20) * TOKENS_A_TURN
