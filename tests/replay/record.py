"""Record a history of each kind of run: `python -m tests.replay.record`. Kept ones are never recorded again.

A recorded history is a promise to every run that was asleep when the code changed, so existing files are left alone;
new kinds are added. Delete a file only when no run of its release can be alive any more.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from tests.support import approval_app, plugin_app, subagent_app
from tests.support.app import registry
from tests.support.subagent_app import delegate, holding, plan, send, spawn, written
from tests.support.subagents import ends_in_tree, until_open, until_pending
from tests.support.waiting import until, until_status
from wakeful import FrontendTool, Registry, RunStatus
from wakeful.client.client import Client
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.budgets import Budget
from wakeful.testing import runtime
from wakeful.worker import WorkerSettings

HISTORIES = Path(__file__).parent / "histories"
# What a story returns is the thread whose history is kept, if it is another than its own.
Story = Callable[[Client, str], Awaitable[object]]


async def natural_end(client: Client, thread: str) -> None:
    await client.start("tester", "add", thread_id=thread)


async def parallel_with_suspension(client: Client, thread: str) -> None:
    await client.start("parallel", "mixed", thread_id=thread)
    view = await until_status(client, thread, RunStatus.WAITING)
    await client.decide(thread, view.pending[0].pending.id, "resume", result="go", decision_id="d1")


async def cancelled_by_decision(client: Client, thread: str) -> None:
    await client.start("tester", "approve", thread_id=thread)
    view = await until_status(client, thread, RunStatus.WAITING)
    await client.decide(thread, "call_99", "resume", decision_id="d0")
    await client.handle(thread).signal("misspelt", {})
    await client.decide(thread, view.pending[0].pending.id, "cancel", reason="no", decision_id="d1")


async def frontend_tool(client: Client, thread: str) -> None:
    await client.start("tester", "browse", thread_id=thread, frontend_tools=[FrontendTool(id="open_page")])
    view = await until_status(client, thread, RunStatus.WAITING)
    await client.decide(thread, view.pending[0].pending.id, "resume", result="hi", decision_id="d1")


async def cancelled_while_suspended(client: Client, thread: str) -> None:
    await client.start("tester", "approve", thread_id=thread)
    await until_status(client, thread, RunStatus.WAITING)
    await client.cancel(thread, reason="enough")


async def cancelled_by_temporal_in_a_tool(client: Client, thread: str) -> None:
    await client.start("tester", "linger", thread_id=thread)
    async for record in client.watch(thread):
        if record.event.event_type == "tool_call_ready":
            break
    await client.handle(thread).cancel()


async def max_rounds(client: Client, thread: str) -> None:
    await client.start("short", "for ever", thread_id=thread)


async def unknown_agent(client: Client, thread: str) -> None:
    await client.start("nobody", "hello", thread_id=thread)


async def submitted_meanwhile(client: Client, thread: str) -> None:
    await client.start("tester", "approve", thread_id=thread)
    view = await until_status(client, thread, RunStatus.WAITING)
    await client.submit(thread, "add")
    await client.decide(thread, view.pending[0].pending.id, "resume", decision_id="d1")


async def local_tools(client: Client, thread: str) -> None:
    await client.start("parallel", "glance", thread_id=thread)


async def interrupted_and_rolled_back(client: Client, thread: str) -> None:
    await client.send(thread, "approve", agent_id="tester", message_id="m1")
    await until_status(client, thread, RunStatus.WAITING)
    await client.send(thread, "approve", on_busy="interrupt", message_id="m2")
    await until(client, thread, lambda view: view.status is RunStatus.WAITING and view.runs == 2)
    await client.send(thread, "add", on_busy="rollback", message_id="m3")
    await until(client, thread, lambda view: view.status is RunStatus.DONE and view.runs == 3)
    await client.handle(thread).cancel()


async def restored(client: Client, thread: str) -> None:
    await client.run("tester", "add", thread_id=thread)
    await client.send(thread, "hello", message_id="m2")
    await until(client, thread, lambda view: view.status is RunStatus.DONE and view.runs == 2)
    await client.handle(thread).cancel()


async def continued_as_new(client: Client, thread: str) -> None:
    """Its last execution, which began with what the one before carried over."""
    for number in range(1, 5):
        await client.send(thread, "add", agent_id="tester", message_id=f"m{number}")
        await until(client, thread, lambda view, n=number: view.status is RunStatus.DONE and view.runs == n)  # type: ignore[misc]
    await client.handle(thread).cancel()


async def forked(client: Client, thread: str) -> str:
    """The fork's: it goes on from another thread, and takes its state from there."""
    await client.run("tester", "count", thread_id=f"{thread}-origin")
    return await client.fork(f"{thread}-origin", at=5, message="add", new_thread_id=thread)


async def decided_in_every_way(client: Client, thread: str) -> None:
    """Five calls: two run, one is approved by update, one is denied by signal, one expires."""
    await client.start("gated", "five", thread_id=thread)
    view = await until(client, thread, lambda view: len(view.pending) == 3)
    first, second, _third = sorted(ticket.pending.id for ticket in view.pending)
    await client.decide(thread, first, "resume", decision_id="d1", confirm=True)
    await client.decide(thread, second, "cancel", reason="too dear", decision_id="d2")


async def blocked_by_a_gate(client: Client, thread: str) -> None:
    await client.start("gated", "unlucky", thread_id=thread)


async def always_allowed(client: Client, thread: str) -> None:
    await client.start("ruled", "again", thread_id=thread)
    view = await until_status(client, thread, RunStatus.WAITING)
    await client.decide(thread, view.pending[0].pending.id, "resume", always=True, decision_id="d1")


async def put_right(client: Client, thread: str) -> None:
    """An answer cut off, a call garbled, a value of the wrong type."""
    await client.start("clumsy", "what is two and two?", thread_id=thread)


async def delegated(client: Client, thread: str) -> None:
    """Two at once, one of which waits for a decision."""
    signing = plan([("sign", {"what": "it"})], say="signed")
    await client.start("node", written(plan([delegate(signing), delegate(plan(say="quick"))])), thread_id=thread)
    pending = await until_pending(client, thread)
    await client.decide(pending.thread_id, pending.call_id, "resume", decision_id="d1")


async def a_delegate(client: Client, thread: str) -> str:
    """The other side: a sub-agent that settles with its parent."""
    await client.run("node", written(plan([delegate(plan([("work", {"what": "its own"})]))])), thread_id=thread)
    return await _child(client, thread)


async def in_the_background(client: Client, thread: str) -> None:
    """An agent that hears from its owner and writes to it, and a tool that tells how it goes."""
    scout = plan([("work", {"what": "look", "seconds": 0.5})], [send({"relation": "parent"}, "seen")], say="done")
    turns = (
        [spawn(scout, name="scout"), ("dig", {"where": "garden"})],
        [send({"relation": "child", "name": "scout"}, "go")],
    )
    await client.start("node", written(plan(*turns, [("list_tasks", {})])), thread_id=thread)


async def a_background_tool(client: Client, thread: str) -> str:
    await client.run("node", written(plan([("dig", {"where": "cellar"})])), thread_id=thread)
    return await _child(client, thread)


async def cancelled_with_all_below(client: Client, thread: str) -> None:
    below = plan([holding(), spawn(plan([holding()]))])
    tree = plan([delegate(below), spawn(below), ("linger", {"seconds": 300})])
    await client.start("node", written(tree), thread_id=thread)
    await until_open(client, thread, 6)
    await client.cancel(thread, reason="enough")


async def cancelled_by_itself(client: Client, thread: str) -> None:
    first = [spawn(plan([holding()]), name="leaf"), spawn(plan([holding()]), name="other")]
    leaf = ("cancel_task", {"target": {"relation": "child", "name": "leaf"}})
    itself = ("cancel_task", {"target": {"relation": "self"}})
    await client.start("node", written(plan(first, [leaf], [itself])), thread_id=thread)


async def dead_letters(client: Client, thread: str) -> None:
    undelivered = [send({"relation": "agent", "thread_id": "nobody"}, "hello?"), ("recover_failed_messages", {})]
    await client.start(
        "node", written(plan(undelivered, [("recover_failed_messages", {"action": "replay"})])), thread_id=thread
    )


async def handed_over(client: Client, thread: str) -> None:
    turns = plan([("handoff_to_back", {})], [("work", {"what": "as the other"})])
    await client.start("front", written(turns), thread_id=thread)


async def out_of_budget(client: Client, thread: str) -> None:
    """Sub-agents ask for more until nothing is left."""
    greedy = plan(*[[("work", {"what": f"{n}"})] for n in range(12)])
    tree = plan([spawn(greedy), delegate(plan([delegate(greedy)]))], [delegate(greedy)])
    await client.start("node", written(tree), thread_id=thread, budget=Budget(tokens=1500))


async def woken_by_a_task(client: Client, thread: str) -> None:
    """The second execution of a thread whose run had ended before its task."""
    late = plan([("work", {"what": "late", "seconds": 1.5})])
    await client.run("limited", written(plan([spawn(late)])), thread_id=thread)
    await until(client, thread, lambda view: view.identity.origin.value == "internal" and view.status is RunStatus.DONE)
    await client.handle(thread).cancel()


async def continued_with_children(client: Client, thread: str) -> None:
    """Its last execution: the children were started by one before."""
    children = [spawn(plan([("work", {"what": f"w{n}", "seconds": 2.0})])) for n in range(3)]
    busy = [[("work", {"what": f"busy {n}", "seconds": 0.1})] for n in range(12)]
    await client.start("node", written(plan(children, *busy)), thread_id=thread)


async def with_hooks(client: Client, thread: str) -> None:
    """Hooks in every phase, and six rounds."""
    await client.start("hooked", "6", thread_id=thread)


async def with_state(client: Client, thread: str) -> None:
    """Two calls want the same key; the later one is refused."""
    await client.start("tallying", "claim it", thread_id=thread)


async def _child(client: Client, thread: str) -> str:
    (child,) = set(await ends_in_tree(client, thread)) - {thread}
    return child


USUAL: tuple[Story, ...] = (
    natural_end,
    parallel_with_suspension,
    cancelled_by_decision,
    frontend_tool,
    cancelled_while_suspended,
    cancelled_by_temporal_in_a_tool,
    max_rounds,
    unknown_agent,
    submitted_meanwhile,
    local_tools,
    interrupted_and_rolled_back,
    restored,
    continued_as_new,
    forked,
)
APPROVALS: tuple[Story, ...] = (decided_in_every_way, blocked_by_a_gate, always_allowed, put_right)
FAMILIES: tuple[Story, ...] = (
    delegated,
    a_delegate,
    in_the_background,
    a_background_tool,
    cancelled_with_all_below,
    cancelled_by_itself,
    dead_letters,
    handed_over,
    out_of_budget,
    woken_by_a_task,
    continued_with_children,
)
PLUGINS: tuple[Story, ...] = (with_hooks, with_state)
STORIES = (*USUAL, *APPROVALS, *FAMILIES, *PLUGINS)


async def main() -> None:
    HISTORIES.mkdir(exist_ok=True)
    await record(USUAL, registry)
    await record(APPROVALS, approval_app.registry)
    await record(FAMILIES, subagent_app.registry)
    await record(PLUGINS, plugin_app.registry)


async def record(stories: Sequence[Story], registry: Registry) -> None:
    missing = [story for story in stories if not (HISTORIES / f"{story.__name__}.json").exists()]
    async with runtime(registry, settings=WorkerSettings(history_budget=HistoryBudget(events=100))) as client:
        for story in missing:
            told = await story(client, story.__name__)
            thread = told if isinstance(told, str) else story.__name__
            await client.temporal.get_workflow_handle(thread).result()
            history = await client.handle(thread).fetch_history()
            (HISTORIES / f"{story.__name__}.json").write_text(history.to_json() + "\n")
            print(f"{story.__name__}: {len(history.events)} events")


if __name__ == "__main__":
    asyncio.run(main())
    os._exit(0)  # Temporal's native threads may abort a regular exit
