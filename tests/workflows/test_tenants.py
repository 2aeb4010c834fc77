"""Tenants, users and metadata on the real server: what reads them, where they are found, and what is refused."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecutionStatus

from tests.support.waiting import until
from wakeful import (
    Agent,
    Behavior,
    GateCall,
    InstructionsContext,
    PermissionPolicy,
    Plugin,
    Priority,
    Registry,
    Rule,
    ScriptedModel,
    ThreadMode,
    ToolContext,
    call,
    gate,
    say,
    tool,
)
from wakeful.authoring.hook_contexts import BeforeInference, HookContext
from wakeful.client.client import Client
from wakeful.contract.errors import OtherTenant
from wakeful.contract.names import RECIPIENT_OF_OTHER_TENANT
from wakeful.worker import WorkerSettings, running_worker

QUEUE = "tenants"
SEEN: set[str] = set()
NOTE = "leave it at the door"


def described(ctx: ToolContext | GateCall | HookContext | InstructionsContext) -> str:
    return f"{ctx.tenant} {ctx.user} {ctx.metadata.get('order')}"


def see(who: str, ctx: GateCall | HookContext | InstructionsContext) -> None:
    SEEN.add(f"{who}: {described(ctx)}")


@tool
def whoami(ctx: ToolContext) -> str:
    """Say whose run it is."""
    return described(ctx)


@tool(background=True)
def dig(ctx: ToolContext) -> str:
    """Dig in the background."""
    return described(ctx)


@tool(read_only=True, local=True)
def glance(ctx: ToolContext) -> str:
    """Glance."""
    return described(ctx)


@tool
def fly() -> str:
    """Fly away."""
    return "gone"


@gate
def seeing(call: GateCall) -> None:
    see("gate", call)


class Seeing(Plugin):
    id = "seeing"

    def run_start(self, ctx: HookContext) -> None:
        see("run_start", ctx)

    def before_inference(self, ctx: BeforeInference) -> None:
        see("before_inference", ctx)


def instructions(ctx: InstructionsContext) -> str:
    """Write the instructions."""
    see("instructions", ctx)
    return "Help."


MODEL = ScriptedModel(
    [say("hello")],
    when={
        "look": [call("whoami"), say("{result}")],
        "go": [call("whoami"), call("glance"), call("dig"), call("agent_run_helper", prompt="look"), say("{result}")],
        "write": [
            call("send_message", to={"relation": "agent", "thread_id": "acme-closed"}, message="Hello?"),
            say("{result}"),
        ],
        "please": [call("agent_run_helper", prompt="hello"), say("{result}")],
        "fly": [call("fly").unchecked(), say("{result}")],
    },
)
DESK = Agent(
    id="desk",
    instructions=instructions,
    tools=[whoami, dig, glance, fly],
    delegates=["helper"],
    gates=[seeing],
    plugins=["seeing"],
    permissions=PermissionPolicy(
        default_behavior=Behavior.ALLOW,
        rules=(
            Rule(tool='whoami($tenant = "acme", $metadata.order = "7")', behavior=Behavior.ASK),
            Rule(tool='fly($tenant = "acme")', behavior=Behavior.DENY),
        ),
    ),
)
WRITER = Agent(id="writer", messages=["any"])
BOSS = Agent(id="boss", delegates=["helper"], priority=Priority(fairness_weight=3))
REGISTRY = Registry(
    agents=[DESK, Agent(id="helper", tools=[whoami]), WRITER, BOSS], models={"default": MODEL}, plugins=[Seeing()]
)


@asynccontextmanager
async def served(temporal: TemporalClient) -> AsyncIterator[Client]:
    settings = WorkerSettings(task_queue=QUEUE)
    async with running_worker(temporal, REGISTRY, settings), Client(temporal, task_queue=QUEUE) as client:
        yield client


async def listed(temporal: TemporalClient, query: str) -> set[str]:
    return {execution.id async for execution in temporal.list_workflows(query)}


async def test_everything_of_a_run_reads_its_context_also_on_a_worker_that_has_to_read_history(
    temporal: TemporalClient, thread_id: str
) -> None:
    """B-660, B-661, B-664"""
    SEEN.clear()
    async with served(temporal) as client:
        await client.start(
            "desk", "go", thread_id=thread_id, tenant="acme", user="ann", metadata={"order": 7, "note": NOTE}
        )
        view = await until(client, thread_id, lambda view: bool(view.pending))
    async with served(temporal) as client:
        (entry,) = [entry async for entry in client.inbox(tenant="acme", thread_id=thread_id)]
        assert (entry.tenant, entry.user) == ("acme", "ann")
        assert [entry async for entry in client.inbox(tenant="beta", thread_id=thread_id)] == []
        await client.decide(thread_id, view.pending[0].pending.id, "resume")
        # What the desk's rule asks about is asked in its delegate, too: the rule is about the same tenant and metadata.
        view = await until(client, thread_id, lambda view: any(call.child_thread_id for call in view.calls))
        (helper,) = [call.child_thread_id for call in view.calls if call.child_thread_id]
        view = await until(client, helper, lambda view: bool(view.pending))
        await client.decide(helper, view.pending[0].pending.id, "resume")
        result = await client.result(thread_id)
        children = [node.thread_id for node in (await client.tree(thread_id)).children]
        texts = [message.text for message in await client.transcript(thread_id)]
        view, history = await client.status(thread_id), await client.handle(thread_id).fetch_history()
        found = await listed(temporal, "WakefulTenant = 'acme' AND WakefulUser = 'ann'")
    assert {f"{who}: acme ann 7" for who in ("gate", "run_start", "before_inference", "instructions")} == SEEN
    assert "acme ann 7" in result.response
    assert sum(text == "acme ann 7" for text in texts) == 2
    assert any("background-task-event" in text and "acme ann 7" in text for text in texts)
    assert (view.identity.tenant, view.identity.user) == ("acme", "ann")
    # The request, the lookup of the agent, the background tool and the delegate have it; steps and tool calls do not.
    assert sum(NOTE in str(event) for event in history.events) == 4
    assert {thread for thread in found if thread.startswith(thread_id)} == {thread_id, *children}


async def test_a_rule_of_one_tenant_does_not_bind_another(temporal: TemporalClient) -> None:
    """B-664"""
    async with served(temporal) as client:
        denied = await client.run("desk", "fly", tenant="acme")
        allowed = await client.run("desk", "fly", tenant="beta")
    assert denied.status_reason == "blocked:Tool 'fly' denied by permission rules"
    assert allowed.response == "gone"


async def test_a_thread_refuses_another_tenant_in_every_state(temporal: TemporalClient) -> None:
    """B-660"""
    async with served(temporal) as client:
        await client.start("desk", "hello", thread_id="acme-closed", tenant="acme", user="ann", mode=ThreadMode.THREAD)
        await until(client, "acme-closed", lambda view: view.result is not None)
        with pytest.raises(OtherTenant, match="another tenant than 'beta'"):
            await client.send("acme-closed", "hello", tenant="beta")
        await client.close("acme-closed")
        await client.result("acme-closed")
        with pytest.raises(OtherTenant, match="another tenant than 'beta'"):
            await client.send("acme-closed", "hello", tenant="beta")
        refused = await client.run("writer", "write", tenant="beta")
        closed = await client.handle("acme-closed").describe()
        await client.send("acme-closed", "hello", user="bob", tenant="acme", confirm=True)
        woken = await client.status("acme-closed")
        forked = await client.fork("acme-closed", at=1, message="and?")
        await client.result(forked)
        fork = await client.status(forked)
    assert RECIPIENT_OF_OTHER_TENANT in refused.response
    assert closed.status is WorkflowExecutionStatus.COMPLETED
    assert (woken.identity.tenant, woken.identity.user) == ("acme", "bob")
    assert (fork.identity.tenant, fork.identity.user) == ("acme", "ann")


@pytest.mark.parametrize("owner", ["acme", None])
async def test_a_refused_request_of_another_tenant_leaves_the_thread_to_its_owner(
    temporal: TemporalClient, thread_id: str, owner: str | None
) -> None:
    """B-660"""
    async with served(temporal) as client:
        await client.run("desk", "hello", thread_id=thread_id, tenant=owner)
        before = await client.transcript(thread_id)
        closed = await client.handle(thread_id).describe()
        request = {"agent_id": "desk", "input": "mine", "tenant": "beta", "restore_from": closed.run_id}
        await temporal.start_workflow("AgentRun", request, id=thread_id, task_queue=QUEUE)
        refused = await client.result(thread_id)
        shown = (await client.handle(thread_id).describe()).search_attributes
        assert await client.transcript(thread_id) == before
        with pytest.raises(OtherTenant):
            await client.send(thread_id, "mine", tenant="beta")
        await client.send(thread_id, "hello", tenant=owner, confirm=True)
        view = await until(client, thread_id, lambda view: view.result is not None)
        after = await client.transcript(thread_id)
    assert "leave the tenant out" in refused.status_reason
    assert shown["WakefulReason"] == ["other_tenant"]
    assert view.identity.tenant == owner
    assert [message.text for message in after[: len(before) + 1]] == [*(message.text for message in before), "hello"]


@pytest.mark.parametrize("is_restored", [False, True])
async def test_only_its_own_tenant_starts_a_thread_over(
    temporal: TemporalClient, thread_id: str, *, is_restored: bool
) -> None:
    """B-660"""
    async with served(temporal) as client:
        await client.run("desk", "hello", thread_id=thread_id, tenant="acme")
        if is_restored:  # by a request that leaves the tenant to the thread
            closed = await client.handle(thread_id).describe()
            request = {"agent_id": "desk", "input": "more", "restore_from": closed.run_id}
            await temporal.start_workflow("AgentRun", request, id=thread_id, task_queue=QUEUE)
            await client.result(thread_id)
        before = await client.transcript(thread_id)
        for tenant in ("beta", None):
            with pytest.raises(OtherTenant):
                await client.start("desk", "mine", thread_id=thread_id, tenant=tenant, again=True)
        assert await client.transcript(thread_id) == before
        await client.run("desk", "anew", thread_id=thread_id, tenant="acme", again=True)
        after = await client.transcript(thread_id)
    assert [message.text for message in after][:1] == ["anew"]


async def test_priorities_and_fairness_keys_reach_activities_and_sub_agents(
    temporal: TemporalClient, thread_id: str
) -> None:
    """B-665"""
    raw = f"{thread_id}-raw"
    async with served(temporal) as client:
        await client.run("boss", "please", thread_id=thread_id, tenant="acme", priority=Priority(priority_key=2))
        request = {"agent_id": "boss", "input": "please", "tenant": "acme", "priority": {"priority_key": 2}}
        handle = await temporal.start_workflow("AgentRun", request, id=raw, task_queue=QUEUE)
        await handle.result()
        found = {}
        for thread in (thread_id, raw):
            history = await client.handle(thread).fetch_history()
            found[thread] = [scheduled_priority(event) for event in history.events if is_scheduled(event)]
            (child,) = (await client.tree(thread)).children
            described = await client.handle(child.thread_id).describe()
            priority = described.raw_description.workflow_execution_info.priority
            assert (priority.priority_key, priority.fairness_key, priority.fairness_weight) == (2, "acme", 3)
    # What the execution was started with is inherited, and costs nothing; of the agent, what it adds once it is known.
    assert found == {
        thread_id: [(0, "", 0), *[(0, "", 3)] * 2],
        raw: [(2, "acme", 0), *[(2, "acme", 3)] * 2],
    }


def is_scheduled(event: HistoryEvent) -> bool:
    return event.HasField("activity_task_scheduled_event_attributes")


def scheduled_priority(event: HistoryEvent) -> tuple[int, str, float]:
    priority = event.activity_task_scheduled_event_attributes.priority
    return priority.priority_key, priority.fairness_key, priority.fairness_weight
