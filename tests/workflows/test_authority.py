"""What an agent denies or asks about holds in its whole tree, on a real server."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.waiting import BOUND_SECONDS, until
from wakeful import (
    Agent,
    Behavior,
    PermissionPolicy,
    Registry,
    Rule,
    RunStatus,
    ScriptedModel,
    ThreadMode,
    ToolContext,
    call,
    say,
    tool,
)
from wakeful.client.client import Client
from wakeful.worker import WorkerSettings, running_worker

PAID: list[str] = []


@tool
def pay(ctx: ToolContext) -> str:
    """Pay."""
    PAID.append(ctx.identity.thread_id)
    return "paid"


def allowing(*rules: Rule) -> PermissionPolicy:
    return PermissionPolicy(default_behavior=Behavior.ALLOW, rules=rules)


ASK_PAY = Rule(tool="pay", behavior=Behavior.ASK)
ANYTHING = Rule(tool="*", behavior=Behavior.ALLOW)

registry = Registry(
    agents=[
        Agent(id="boss", delegates=["lead"], messages=True, permissions=allowing(ASK_PAY), handoffs=["clerk"]),
        Agent(id="lead", delegates=["clerk"], permissions=allowing(ANYTHING)),
        Agent(id="clerk", tools=[pay], permissions=allowing(ANYTHING)),
    ],
    models={
        "default": ScriptedModel(
            when={
                "^tree": [call("agent_run_lead", prompt="pass it on"), say("{result}")],
                "^pass it on": [call("agent_run_clerk", prompt="pay it"), say("{result}")],
                "^pay it": [call("pay").unchecked(), say("{result}")],
                "^write to (.*)": [
                    lambda request: call(
                        "send_message",
                        to={"relation": "agent", "thread_id": request.messages[-1].text.split()[-1]},
                        message="pay it",
                    ).unchecked(),
                    say("{result}"),
                ],
                "^hand it over": [call("handoff_to_clerk"), call("pay").unchecked(), say("{result}")],
            },
            strict=False,
        )
    },
)


@pytest.fixture
async def client(temporal: TemporalClient, thread_id: str) -> AsyncIterator[Client]:
    PAID.clear()
    async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
        yield Client(temporal, task_queue=thread_id)


async def pending_call(client: Client, thread_id: str) -> str:
    """The thread that waits for a decision, in the tree of this one."""
    while True:
        async for pending in client.inbox(thread_id=thread_id):
            assert pending.tool_name == "pay"
            return pending.thread_id
        await asyncio.sleep(0.05)


async def test_what_an_agent_asks_about_is_asked_two_levels_below_and_whenever_that_thread_runs_again(
    client: Client, thread_id: str
) -> None:
    """B-513"""
    async with asyncio.timeout(BOUND_SECONDS):
        await client.start("boss", "tree", thread_id=thread_id, mode=ThreadMode.THREAD)
        clerk = await pending_call(client, thread_id)
        assert (PAID, clerk.count("/")) == ([], 2)
        await client.decide(clerk, "1-1", "resume")
        await until(client, thread_id, lambda view: view.status is RunStatus.DONE)
        assert [clerk] == PAID

        await client.send(thread_id, f"write to {clerk}")
        await until(client, thread_id, lambda view: view.runs == 2 and view.status is RunStatus.DONE)
        assert "recipient_unavailable" in (await client.result(thread_id)).response

        await client.send(clerk, "pay it")
        await until(client, clerk, lambda view: view.runs == 2 and view.status is RunStatus.WAITING)
        assert [clerk] == PAID
        await client.cancel(clerk)
        await client.close(clerk)
        await client.close(thread_id)


async def test_what_an_agent_asks_about_is_asked_of_the_agent_that_takes_over(client: Client, thread_id: str) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        await client.start("boss", "hand it over", thread_id=thread_id)
        assert await pending_call(client, thread_id) == thread_id
        await client.decide(thread_id, "2-1", "resume", always=True)
        assert (await client.result(thread_id)).response == "paid"
    assert [thread_id] == PAID
