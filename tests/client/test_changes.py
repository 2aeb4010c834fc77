"""Clients and the command line change what waits in a thread, and revoke rules, on a real server (B-599, B-803)."""

from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.processes import wakeful
from tests.support.waiting import until, until_status
from wakeful import (
    Agent,
    Changed,
    ChangeRefused,
    DecisionRefused,
    OtherTenant,
    PermissionPolicy,
    Registry,
    RunStatus,
    ScriptedModel,
    call,
    say,
    tool,
)
from wakeful.client.client import Client
from wakeful.contract import names
from wakeful.worker import WorkerSettings, running_worker

LONG = f"the whole story: {'word ' * 2_000}"


@tool
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


MODEL = ScriptedModel([say("heard {input}")], when={"pay": [call("pay", amount=3), say("{result}")]})
REGISTRY = Registry(
    agents=[Agent(id="a", tools=[pay], permissions=PermissionPolicy())],
    models={"default": MODEL},
)


@pytest.fixture
async def client(temporal: TemporalClient, thread_id: str) -> AsyncIterator[Client]:
    """A thread that waits for a decision on a payment."""
    client = Client(temporal, task_queue=thread_id)
    settings = WorkerSettings(task_queue=thread_id, sweep_interval=None)
    async with running_worker(temporal, REGISTRY, settings):
        await client.send(thread_id, "pay", agent_id="a", message_id="m0")
        await until_status(client, thread_id, RunStatus.WAITING)
        yield client


async def said(client: Client, thread_id: str) -> list[str]:
    return [message.text for message in await client.transcript(thread_id) if message.role.value == "user"]


async def test_messages_are_edited_and_withdrawn_until_a_run_reads_them(client: Client, thread_id: str) -> None:
    """B-599: the edited text is too long for an inference input, so a worker without a cache finds it in history."""
    for id in ("m1", "m2", "m3"):
        await client.send(thread_id, f"message {id}", message_id=id)
    assert await client.edit(thread_id, "m1", LONG, confirm=True) == Changed(("m1",), {})
    too_late = {"m0": "it is too late: a run has read message 'm0'"}
    assert await client.withdraw(thread_id, ["m0", "m2"], confirm=True) == Changed(("m2",), too_late)
    await client.handle(thread_id).signal(names.SIGNAL_WITHDRAW, {"message_ids": ["m3"]})  # as any client can
    await until(client, thread_id, lambda view: view.queued == 1)
    [waiting] = await client.queued(thread_id)
    assert (waiting.message.id, waiting.message.text, waiting.status.value) == ("m1", LONG, "queued")
    with pytest.raises(ChangeRefused, match="message 'm2' was withdrawn"):
        await client.edit(thread_id, "m2", "again", confirm=True)
    await client.decide(thread_id, "1-1", "resume", confirm=True)
    await until(client, thread_id, lambda view: view.runs == 2 and view.result is not None)
    await client.send(thread_id, "bye", message_id="m4")
    await until(client, thread_id, lambda view: view.runs == 3 and view.result is not None)
    assert await said(client, thread_id) == ["pay", LONG, "bye"]
    await client.close(thread_id)
    await client.result(thread_id)
    with pytest.raises(ChangeRefused, match="it is closed"):
        await client.withdraw(thread_id, ["m1"])


async def test_a_rule_that_was_remembered_is_listed_and_revoked(client: Client, thread_id: str) -> None:
    """B-803"""
    await client.decide(thread_id, "1-1", "resume", always=True, confirm=True)
    await until(client, thread_id, lambda view: view.result is not None)
    shown = [(each.rule.tool, each.scope.value) for each in (await client.permissions(thread_id)).rules]
    assert shown == [("pay", "thread")]
    assert await client.revoke(thread_id, ["pay"], confirm=True) == Changed(("pay",), {})
    await client.send(thread_id, "pay again")
    await until_status(client, thread_id, RunStatus.WAITING)  # it is asked about again
    with pytest.raises(ChangeRefused, match="the thread has no rule for 'pay'"):
        await client.revoke(thread_id, ["pay"], confirm=True)


async def test_a_thread_of_another_tenant_is_not_changed_and_decides_nothing(
    client: Client, temporal: TemporalClient, thread_id: str
) -> None:
    """B-660: by the client, which reads search attributes; by the thread itself, if it has no tenant; by commands."""
    owned = f"{thread_id}-acme"
    await client.send(owned, "pay", agent_id="a", tenant="acme")
    await until_status(client, owned, RunStatus.WAITING)
    await client.send(owned, "later", tenant="acme", message_id="m1", confirm=True)
    await client.send(thread_id, "later", message_id="m1", confirm=True)
    refused = "belongs to another tenant than 'beta', which the change is from"
    for thread, error in ((owned, OtherTenant), (thread_id, ChangeRefused)):
        with pytest.raises(error, match=f"rejected the change: .*{refused}"):
            await client.edit(thread, "m1", "mine", tenant="beta", confirm=True)
        with pytest.raises(error, match=refused):
            await client.withdraw(thread, ["m1"], tenant="beta", confirm=True)
        with pytest.raises(error, match=refused):
            await client.revoke(thread, ["pay"], tenant="beta", confirm=True)
    for thread, other in ((owned, OtherTenant), (thread_id, DecisionRefused)):
        with pytest.raises(other, match="another tenant than 'beta', which the decision is from"):
            await client.decide(thread, "1-1", "resume", tenant="beta", confirm=True)
    address = temporal.service_client.config.target_host
    for command in (
        ["edit", owned, "m1", "mine"],
        ["withdraw", owned, "m1"],
        ["revoke", owned, "pay"],
        ["approve", f"{owned}/1-1"],
        ["deny", f"{owned}/1-1"],
        ["decide", owned, "1-1", "resume"],
    ):
        ran = await wakeful(*command, "--tenant", "beta", address=address)
        assert (ran.code, "belongs to another tenant than 'beta'" in ran.err) == (1, True), ran
    assert [each.message.text for each in await client.queued(owned)] == ["later"]
    assert await client.edit(owned, "m1", "rather this", tenant="acme", confirm=True) == Changed(("m1",), {})
    assert await client.decide(owned, "1-1", "resume", tenant="acme", confirm=True) == "applied"


async def test_commands_list_and_change_what_waits_and_what_is_allowed(
    client: Client, temporal: TemporalClient, thread_id: str
) -> None:
    """B-599, B-803"""
    address = temporal.service_client.config.target_host
    for id in ("m1", "m2"):
        await client.send(thread_id, f"message {id}", message_id=id)
    edited = await wakeful("edit", thread_id, "m1", "rather this", address=address)
    assert (edited.code, edited.out) == (0, "edited: m1\n"), edited.err
    withdrawn = await wakeful("withdraw", thread_id, "m2", "m0", address=address)
    assert withdrawn.out.splitlines() == [
        "withdrawn: m2",
        "not withdrawn: m0, because it is too late: a run has read message 'm0'",
    ]
    listed = await wakeful("queue", thread_id, address=address)
    assert listed.out.splitlines() == [
        "MESSAGE  WAITS FOR     TEXT",
        "m1       the next run  rather this",
        f"    wakeful withdraw {thread_id} m1",
        f"    wakeful edit {thread_id} m1 TEXT",
    ]
    await wakeful("withdraw", thread_id, "--all", address=address)
    assert (await wakeful("queue", thread_id, address=address)).out == f"thread {thread_id}: no message waits\n"
    await client.decide(thread_id, "1-1", "resume", always=True, confirm=True)
    rules = await wakeful("permissions", thread_id, address=address)
    assert rules.out.splitlines() == [
        "RULE              BEHAVIOR  OF",
        "pay               allow     the thread",
        "(any other call)  ask       the agent",
        f"    wakeful revoke {thread_id} pay",
    ]
    revoked = await wakeful("revoke", thread_id, "pay", address=address)
    assert revoked.out == "revoked: pay\n"
    again = await wakeful("revoke", thread_id, "pay", address=address)
    assert (again.code, "the thread has no rule for 'pay'" in again.err) == (1, True)
