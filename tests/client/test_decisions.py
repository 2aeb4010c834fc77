"""Who decided what: on record in every thread, through its executions and wakes, and listed over all of them."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.app import registry
from tests.support.encrypted import connect
from tests.support.namespaces import empty_namespace
from tests.support.waiting import BOUND_SECONDS, until_status
from wakeful import CallerError, DecisionRecord, RunStatus, ThreadMode, ThreadNotFound
from wakeful.client.client import Client
from wakeful.contract.applied_decisions import AppliedDecision, DecisionAction, DecisionChannel
from wakeful.contract.messages import Message, Role
from wakeful.worker import running_worker


@pytest.fixture
def client(either_client: Client) -> Client:
    return either_client


async def decisions(client: Client, **wanted: str | timedelta | datetime) -> list[DecisionRecord]:
    return [each async for each in client.decisions(**wanted)]  # type: ignore[arg-type]


async def approved_by(client: Client, thread_id: str, actor: str, call_id: str = "1-1") -> None:
    await until_status(client, thread_id, RunStatus.WAITING)
    await client.decide(thread_id, call_id, "resume", actor=actor, confirm=True)


def results(messages: list[Message]) -> list[tuple[AppliedDecision, ...]]:
    return [each.decisions for each in messages if each.role is Role.TOOL]


async def test_a_decision_is_on_record_with_what_it_was_about(client: Client, thread_id: str) -> None:
    await client.start("tester", "approve", thread_id=thread_id, user="zoe", metadata={"order": 7})
    await until_status(client, thread_id, RunStatus.WAITING)
    sent = datetime.now(UTC)
    await client.decide(
        thread_id, "1-1", "resume", actor="ann", reason="she called", arguments={"what": "land"}, decision_id="d1"
    )
    result = await client.result(thread_id)
    (record,) = await decisions(client, thread_id=thread_id)
    assert record.decision is not None
    at = record.decision.at
    assert abs(at / 1000 - sent.timestamp()) < BOUND_SECONDS
    decision = AppliedDecision(
        action=DecisionAction.RESUME,
        actor="ann",
        at=at,
        channel=DecisionChannel.CLIENT,
        reason="she called",
        arguments={"what": "land"},
        decision_id="d1",
    )
    assert record == DecisionRecord(
        thread_id=thread_id,
        run_id=result.run_id,
        agent_id="tester",
        user="zoe",
        call_id="1-1",
        tool_name="approve",
        suspension_id=record.suspension_id,
        arguments={"what": "launch"},
        question="May I launch?",
        decision=decision,
    )
    (run,) = await client.runs(thread_id)
    assert run.decisions == (record,)
    assert results(await client.transcript(thread_id)) == [(decision.as_shown,)]
    (shown,) = (await client.status(thread_id)).decisions
    assert (shown.call_id, shown.tool_name, shown.decision) == ("1-1", "approve", decision.as_shown)
    assert (await client.tree(thread_id)).decisions == (shown,)


async def test_a_raw_signal_is_on_record_as_such(client: Client, thread_id: str) -> None:
    await client.start("tester", "approve", thread_id=thread_id)
    await until_status(client, thread_id, RunStatus.WAITING)
    await client.handle(thread_id).signal("decide", {"call_id": "1-1", "action": "cancel"})
    await client.result(thread_id)
    (record,) = await decisions(client, thread_id=thread_id)
    assert record.decision is not None
    assert (record.decision.action, record.decision.channel) == (DecisionAction.CANCEL, DecisionChannel.SIGNAL)


async def test_decisions_survive_the_end_of_a_thread_and_its_wakes(client: Client, thread_id: str) -> None:
    await client.start("tester", "approve", thread_id=thread_id, mode=ThreadMode.THREAD)
    await approved_by(client, thread_id, "ann")
    await client.result(thread_id)
    for number, actor in enumerate(("bob", "eve"), start=2):
        await client.close(thread_id)
        await client.handle(thread_id).result()
        await client.send(thread_id, "approve")
        await approved_by(client, thread_id, actor, f"{2 * number - 1}-1")
        await client.result(thread_id)
    found = await decisions(client, thread_id=thread_id)
    actors = [each.decision.actor for each in found if each.decision]
    assert actors == ["ann", "bob", "eve"]
    assert [[each.actor for each in result] for result in results(await client.transcript(thread_id))] == [
        ["ann"],
        ["bob"],
        ["eve"],
    ]
    runs = await client.runs(thread_id, limit=2)
    assert [[each.decision.actor for each in run.decisions if each.decision] for run in runs] == [["bob"], ["eve"]]


async def test_decisions_of_all_threads_are_listed_by_tenant_user_and_time(temporal: TemporalClient) -> None:
    async with running_worker(own := await empty_namespace(temporal), registry), Client(own) as client:
        for thread, tenant, user in (("t1", "acme", "ann"), ("t2", "acme", "bob"), ("t3", "other", "ann")):
            await client.start("tester", "approve", thread_id=thread, tenant=tenant, user=user)
            await approved_by(client, thread, actor=f"who decided {thread}")
            await client.result(thread)
        between = datetime.now(UTC)
        await client.start("tester", "approve", thread_id="t4")
        await approved_by(client, "t4", actor="late")
        await client.start("tester", "hi", thread_id="undecided")
        await client.result("undecided")

        async def threads(**wanted: str | timedelta | datetime) -> list[str]:
            return sorted(each.thread_id for each in await decisions(client, **wanted))

        async with asyncio.timeout(BOUND_SECONDS):  # Temporal's lists are eventually consistent
            while await threads() != ["t1", "t2", "t3", "t4"]:
                await asyncio.sleep(0.05)
        assert await threads(tenant="acme") == ["t1", "t2"]
        assert await threads(user="ann") == ["t1", "t3"]
        assert await threads(tenant="acme", user="ann") == ["t1"]
        assert await threads(since=between) == ["t4"]
        assert await threads(since=timedelta(hours=1)) == ["t1", "t2", "t3", "t4"]
        assert await threads(thread_id="t2") == ["t2"]
        with pytest.raises(ThreadNotFound):
            await threads(thread_id="unknown")
        with pytest.raises(CallerError, match="a time should be a datetime"):
            await threads(since="yesterday")


async def test_a_thread_that_cannot_be_read_is_in_the_list_with_the_reason(temporal: TemporalClient) -> None:
    """An audit must not leave it out."""
    own = await empty_namespace(temporal)
    encrypted = await connect(own.service_client.config.target_host, own.namespace)
    async with running_worker(encrypted, registry), Client(encrypted) as client:
        await client.start("tester", "approve", thread_id="secret")
        await approved_by(client, "secret", actor="ann")
    async with Client(own) as without_key:
        async with asyncio.timeout(BOUND_SECONDS):
            while not (found := await decisions(without_key)):
                await asyncio.sleep(0.05)
        ((thread_id, unknown),) = ((each.thread_id, each.unknown) for each in found)
        assert (thread_id, "cannot be decoded" in (unknown or "")) == ("secret", True)
