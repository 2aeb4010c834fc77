"""A whole tree is cancelled, by any means: every node ends, every tool stops, and nothing is left open."""

import time
from collections import Counter

import pytest

from tests.support.journal import Journal
from tests.support.subagent_app import Plan, delegate, holding, plan, spawn, written
from tests.support.subagents import calls_in, ends_in_tree, tools_left, until_closed, until_open, until_pending
from wakeful.client.client import Client

LEVELS, CHILDREN, NODES = 4, 3, 40
SELF = ("cancel_task", {"target": {"relation": "self"}})
LINGERING = ("linger", {"seconds": 300.0})
BOUND_SECONDS = 30
"""It takes about 5 s on an idle machine."""


def tree(level: int = 1, *, last: bool = True) -> Plan:
    """Every inner node runs a tool and waits for a delegate; the very last leaf waits for a decision."""
    if level == LEVELS:
        return plan([("sign", {"what": "it"})] if last else [holding()])
    next_level = level + 1
    if next_level == LEVELS:
        return plan([holding(), LINGERING, spawn(tree(next_level, last=False)), delegate(tree(next_level, last=last))])
    inner = tree(next_level, last=False)
    return plan([holding(), spawn(inner), spawn(inner), delegate(tree(next_level, last=last))])


def tree_of_tasks() -> Plan:
    """The same, except that the root only waits for background agents, so that it takes messages."""
    inner = tree(2, last=False)
    return plan([spawn(inner), spawn(inner), spawn(tree(2))])


async def start_tree(client: Client, thread_id: str, journal: Journal, plans: Plan) -> None:
    """Start a tree, and wait until all of it is running or waiting."""
    calls = Counter(calls_in(plans))
    await client.start("node", written(plans), thread_id=thread_id)
    await until_open(client, thread_id, NODES)
    for tool in ("hold", "linger"):
        await journal.until(tool, "began", count=calls[tool])
    await until_pending(client, thread_id)


@pytest.mark.faults
@pytest.mark.parametrize("how", ["signal", "temporal", "itself", "terminated"])
async def test_every_node_of_a_cancelled_tree_ends(
    usual_subagents: Client, thread_id: str, journal: Journal, how: str
) -> None:
    """I-10, H-10: four levels, forty nodes, thirty-nine calls of both kinds in flight."""
    client = usual_subagents
    await start_tree(client, thread_id, journal, tree_of_tasks() if how == "itself" else tree())
    began = time.monotonic()
    match how:
        case "signal":
            await client.cancel(thread_id, reason="enough")
        case "temporal":
            await client.handle(thread_id).cancel()
        case "itself":
            await client.send(thread_id, written(plan([SELF])))
        case _:
            await client.handle(thread_id).terminate("by an operator")
    await until_closed(client, thread_id)
    took = time.monotonic() - began
    print(f"{how}: {NODES} nodes closed after {took:.1f} s")

    ends = await ends_in_tree(client, thread_id)
    assert len(ends) == NODES
    assert tools_left(journal, thread_id) == []
    if how == "terminated":
        assert ends.pop(thread_id) == "TERMINATED"
    else:
        receipt = (await client.result(thread_id)).receipt
        assert receipt is not None
        assert (sorted(receipt.cancelled), receipt.ended) == (sorted(set(ends) - {thread_id}), ())
    assert set(ends.values()) == {"cancelled"}
    assert took < BOUND_SECONDS
