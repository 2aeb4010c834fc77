"""What a caller sets arrives wherever a run begins, on a real server. `tests/loop/thread` has every cell."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import pytest
from temporalio.client import Client as TemporalClient
from temporalio.client import ScheduleIntervalSpec, ScheduleSpec

from tests.support.subagents import until_closed
from tests.support.waiting import until, until_status
from wakeful import (
    Agent,
    Behavior,
    Budget,
    PermissionPolicy,
    Registry,
    Rule,
    RunStatus,
    ScriptedModel,
    ToolContext,
    call,
    say,
    tool,
)
from wakeful.client.client import Client
from wakeful.contract.settings import RunOptions
from wakeful.worker import WorkerSettings, running_worker

DENY_PAY = Rule(tool="pay", behavior=Behavior.DENY)
ASK_DIG = Rule(tool="dig", behavior=Behavior.ASK)
OPTIONS: RunOptions = {
    "permissions": [DENY_PAY],
    "budget": Budget(turns=7),
    "tenant": "acme",
    "user": "ann",
    "metadata": {"order": 7},
}

TOLD: dict[str, tuple[str | None, str | None, object]] = {}


@tool
def who(ctx: ToolContext) -> str:
    """Note for whom the run acts, and wait."""
    TOLD[ctx.identity.thread_id] = ctx.tenant, ctx.user, dict(ctx.metadata)
    if ctx.resume_input is None:
        ctx.suspend("shall I go on?")
    return "done"


@tool(background=True)
def fetch() -> str:
    """Work in the background."""
    return "fetched"


ANSWERS = {
    "^ask them": [call("agent_run_clerk", prompt="who"), say("asked")],
    "^fetch it": [call("fetch")],
    "task-event|background-task": [call("who"), say("done")],
    "^who": [call("who"), say("done")],
    "^hello": [say("hello")],
}
CLERK = Agent(id="clerk", tools=[who])
BOSS = Agent(
    id="boss",
    tools=[who, fetch],
    delegates=["clerk"],
    permissions=PermissionPolicy(default_behavior=Behavior.ALLOW, rules=(ASK_DIG,)),
)
BRIEF = Agent(id="brief", tools=[who, fetch], max_rounds=1)
registry = Registry(agents=[CLERK, BOSS, BRIEF], models={"default": ScriptedModel(when=ANSWERS, strict=False)})


@pytest.fixture
async def client(temporal: TemporalClient, thread_id: str) -> AsyncIterator[Client]:
    async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
        yield Client(temporal, task_queue=thread_id)


async def started(client: Client, thread_id: str) -> str:
    return await client.start("clerk", "who", thread_id=thread_id, mode="thread", **OPTIONS)


async def idle(client: Client, thread_id: str) -> str:
    await client.start("clerk", "hello", thread_id=thread_id, tenant="acme", mode="thread")
    await client.result(thread_id)
    return thread_id


async def sent(client: Client, thread_id: str) -> str:
    await client.send(await idle(client, thread_id), "who", **OPTIONS)
    return thread_id


async def queued(client: Client, thread_id: str) -> str:
    await client.send(await idle(client, thread_id), "who")
    await until_status(client, thread_id, RunStatus.WAITING)
    await client.send(thread_id, "who", **OPTIONS)
    await client.cancel(thread_id)
    await until(client, thread_id, lambda view: view.runs == 3)
    return thread_id


async def woken(client: Client, thread_id: str) -> str:
    await client.close(await idle(client, thread_id))
    await until_closed(client, thread_id)
    await client.send(thread_id, "who", **OPTIONS)
    return thread_id


async def forked(client: Client, thread_id: str) -> str:
    return await client.fork(await idle(client, thread_id), at=1, message="who", mode="thread", **OPTIONS)


async def scheduled(client: Client, thread_id: str) -> str:
    daily = ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(days=1))])
    await client.schedules.create(
        "clerk", "who", spec=daily, schedule_id=thread_id, thread_id=await idle(client, thread_id), **OPTIONS
    )
    await client.temporal.get_schedule_handle(thread_id).trigger()
    await until(client, thread_id, lambda view: view.runs == 2)
    await client.schedules.delete(thread_id)
    return thread_id


async def delegated(client: Client, thread_id: str) -> str:
    await client.start("boss", "ask them", thread_id=thread_id, mode="thread", **OPTIONS)
    return (await until(client, thread_id, lambda view: bool(view.children))).children[0]


async def begun_by_a_task(client: Client, thread_id: str) -> str:
    """The run stops after its round, and the end of its task begins another."""
    await client.start("brief", "fetch it", thread_id=thread_id, mode="thread", **OPTIONS)
    await until(client, thread_id, lambda view: view.runs == 2)
    return thread_id


ORIGINS: dict[str, tuple[Callable[[Client, str], Awaitable[str]], set[Rule], int | None]] = {
    "a request": (started, {DENY_PAY}, 7),
    "a message": (sent, {DENY_PAY}, 7),
    "a message that waited": (queued, {DENY_PAY}, 7),
    "a message that wakes the thread": (woken, {DENY_PAY}, 7),
    "a fork": (forked, {DENY_PAY}, 7),
    "a schedule": (scheduled, {DENY_PAY}, 7),
    "a delegate": (delegated, {DENY_PAY, ASK_DIG}, 3),
    "the end of a task": (begun_by_a_task, {DENY_PAY}, 6),
}


@pytest.mark.parametrize("origin", ORIGINS)
async def test_a_run_has_what_its_caller_has_set_wherever_it_begins(
    client: Client, thread_id: str, origin: str
) -> None:
    """B-513, B-661"""
    begin, rules, turns = ORIGINS[origin]
    thread = await begin(client, thread_id)
    view = await until(client, thread, lambda view: view.status is RunStatus.WAITING and bool(view.pending))
    found = [each.rule for each in (await client.permissions(thread)).rules]
    assert (TOLD[thread], rules - set(found)) == (("acme", "ann", {"order": 7}), set())
    assert (view.budget.turns if view.budget else None) == turns
    await client.cancel(thread_id)
    await client.close(thread_id)
