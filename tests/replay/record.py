"""Record a history of each kind of run: `python -m tests.replay.record`. Kept ones are never recorded again.

A recorded history is a promise to every run that was asleep when the code changed, so existing files are left alone;
new kinds are added. Delete a file only when no run of its release can be alive any more.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from tests.support import approval_app
from tests.support.app import registry
from tests.support.waiting import until, until_status
from wakeful import FrontendTool, Registry, RunStatus
from wakeful.client import WakefulClient
from wakeful.contract.agents import HistoryBudget
from wakeful.testing import runtime
from wakeful.worker import WorkerSettings

HISTORIES = Path(__file__).parent / "histories"
Story = Callable[[WakefulClient, str], Awaitable[object]]


async def natural_end(client: WakefulClient, thread: str) -> None:
    await client.start("tester", "add", thread_id=thread)


async def parallel_with_suspension(client: WakefulClient, thread: str) -> None:
    await client.start("parallel", "mixed", thread_id=thread)
    view = await until_status(client, thread, RunStatus.WAITING)
    await client.decide(thread, view.pending[0].pending.id, "resume", result="go", decision_id="d1")


async def cancelled_by_decision(client: WakefulClient, thread: str) -> None:
    await client.start("tester", "approve", thread_id=thread)
    view = await until_status(client, thread, RunStatus.WAITING)
    await client.decide(thread, "call_99", "resume", decision_id="d0")
    await client.handle(thread).signal("misspelt", {})
    await client.decide(thread, view.pending[0].pending.id, "cancel", reason="no", decision_id="d1")


async def frontend_tool(client: WakefulClient, thread: str) -> None:
    await client.start("tester", "browse", thread_id=thread, frontend_tools=[FrontendTool(id="open_page")])
    view = await until_status(client, thread, RunStatus.WAITING)
    await client.decide(thread, view.pending[0].pending.id, "resume", result="hi", decision_id="d1")


async def cancelled_while_suspended(client: WakefulClient, thread: str) -> None:
    await client.start("tester", "approve", thread_id=thread)
    await until_status(client, thread, RunStatus.WAITING)
    await client.cancel(thread, reason="enough")


async def cancelled_by_temporal_in_a_tool(client: WakefulClient, thread: str) -> None:
    await client.start("tester", "linger", thread_id=thread)
    async for record in client.watch(thread):
        if record.event.event_type == "tool_call_ready":
            break
    await client.handle(thread).cancel()


async def max_rounds(client: WakefulClient, thread: str) -> None:
    await client.start("short", "for ever", thread_id=thread)


async def unknown_agent(client: WakefulClient, thread: str) -> None:
    await client.start("nobody", "hello", thread_id=thread)


async def submitted_meanwhile(client: WakefulClient, thread: str) -> None:
    await client.start("tester", "approve", thread_id=thread)
    view = await until_status(client, thread, RunStatus.WAITING)
    await client.submit(thread, "add")
    await client.decide(thread, view.pending[0].pending.id, "resume", decision_id="d1")


async def local_tools(client: WakefulClient, thread: str) -> None:
    await client.start("parallel", "glance", thread_id=thread)


async def interrupted_and_rolled_back(client: WakefulClient, thread: str) -> None:
    await client.send(thread, "approve", agent_id="tester", message_id="m1")
    await until_status(client, thread, RunStatus.WAITING)
    await client.send(thread, "approve", on_busy="interrupt", message_id="m2")
    await until(client, thread, lambda view: view.status is RunStatus.WAITING and view.runs == 2)
    await client.send(thread, "add", on_busy="rollback", message_id="m3")
    await until(client, thread, lambda view: view.status is RunStatus.DONE and view.runs == 3)
    await client.handle(thread).cancel()


async def restored(client: WakefulClient, thread: str) -> None:
    await client.run("tester", "add", thread_id=thread)
    await client.send(thread, "hello", message_id="m2")
    await until(client, thread, lambda view: view.status is RunStatus.DONE and view.runs == 1)
    await client.handle(thread).cancel()


async def continued_as_new(client: WakefulClient, thread: str) -> None:
    """Its last execution, which began with what the one before carried over."""
    for number in range(1, 5):
        await client.send(thread, "add", agent_id="tester", message_id=f"m{number}")
        await until(client, thread, lambda view, n=number: view.status is RunStatus.DONE and view.runs == n)  # type: ignore[misc]
    await client.handle(thread).cancel()


async def decided_in_every_way(client: WakefulClient, thread: str) -> None:
    """Five calls: two run, one is approved by update, one is denied by signal, one expires."""
    await client.start("gated", "five", thread_id=thread)
    view = await until(client, thread, lambda view: len(view.pending) == 3)
    first, second, _third = sorted(ticket.pending.id for ticket in view.pending)
    await client.decide(thread, first, "resume", decision_id="d1", confirm=True)
    await client.decide(thread, second, "cancel", reason="too dear", decision_id="d2")


async def blocked_by_a_gate(client: WakefulClient, thread: str) -> None:
    await client.start("gated", "unlucky", thread_id=thread)


async def always_allowed(client: WakefulClient, thread: str) -> None:
    await client.start("ruled", "again", thread_id=thread)
    view = await until_status(client, thread, RunStatus.WAITING)
    await client.decide(thread, view.pending[0].pending.id, "resume", always=True, decision_id="d1")


async def put_right(client: WakefulClient, thread: str) -> None:
    """An answer cut off, a call garbled, a value of the wrong type."""
    await client.start("clumsy", "what is two and two?", thread_id=thread)


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
)
APPROVALS: tuple[Story, ...] = (decided_in_every_way, blocked_by_a_gate, always_allowed, put_right)
STORIES = (*USUAL, *APPROVALS)


async def main() -> None:
    HISTORIES.mkdir(exist_ok=True)
    await record(USUAL, registry)
    await record(APPROVALS, approval_app.registry)


async def record(stories: Sequence[Story], registry: Registry) -> None:
    missing = [story for story in stories if not (HISTORIES / f"{story.__name__}.json").exists()]
    async with runtime(registry, settings=WorkerSettings(history_budget=HistoryBudget(events=100))) as client:
        for story in missing:
            await story(client, story.__name__)
            result = await client.result(story.__name__)
            history = await client.handle(story.__name__).fetch_history()
            (HISTORIES / f"{story.__name__}.json").write_text(history.to_json() + "\n")
            print(f"{story.__name__}: {result.status_reason}, {len(history.events)} events")


if __name__ == "__main__":
    asyncio.run(main())
    os._exit(0)  # Temporal's native threads may abort a regular exit
