"""What was sent and no worker has handled: every reader shows it, by whom and since when, and asks for it once."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.app import approve, registry
from tests.support.namespaces import empty_namespace
from tests.support.processes import wakeful
from tests.support.waiting import BOUND_SECONDS, until_status
from wakeful import Agent, Registry, RunStatus, ScriptedModel, ThreadMode, call, say
from wakeful.client.approvals import PendingDecision, not_sent, pending_of
from wakeful.client.client import Client
from wakeful.client.diagnosis.causes import Cause
from wakeful.contract.applied_decisions import DecisionAction
from wakeful.contract.views import Sent, SentKind
from wakeful.mcp.deciding import pending_in
from wakeful.testing import NoDecision, wait_for_decision
from wakeful.worker import WorkerSettings, running_worker

HAND = Agent(id="hand", description="Asks.", tools=[approve], model="hand")
DELEGATING = Registry(
    agents=[HAND, Agent(id="boss", delegates=["hand"])],
    models={
        "default": ScriptedModel([call("agent_run_hand", prompt="ask"), say("done")]),
        "hand": ScriptedModel([call("approve", what="launch"), say("done")]),
    },
)


@asynccontextmanager
async def without_worker(temporal: TemporalClient, thread_id: str, mode: str = "run") -> AsyncIterator[Client]:
    """The client of a thread that waits for a decision, and whose workers are gone."""
    async with Client(temporal, task_queue=thread_id) as client:
        async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
            await client.start("tester", "approve", thread_id=thread_id, mode=ThreadMode(mode))
            await until_status(client, thread_id, RunStatus.WAITING)
        yield client
        if (await client.handle(thread_id).describe()).close_time is None:
            await client.handle(thread_id).terminate()


async def unhandled(client: Client, thread_id: str, number: int = 1) -> tuple[Sent, ...]:
    found = (await client.status(thread_id)).unhandled
    assert len(found) == number
    return found


async def test_a_decision_that_was_sent_is_shown_with_who_sent_it_and_not_asked_for_again(
    temporal: TemporalClient, thread_id: str
) -> None:
    """B-368"""
    address = temporal.service_client.config.target_host
    async with without_worker(temporal, thread_id) as client:
        assert (await client.status(thread_id)).unhandled == ()
        (waiting,) = [each async for each in client.inbox(thread_id=thread_id)]
        assert waiting.sent is None
        await client.decide(thread_id, "1-1", "resume", actor="ann@desk", decision_id="d1")

        (sent,) = await unhandled(client, thread_id)
        assert abs(sent.at / 1000 - time.time()) < BOUND_SECONDS
        resume = DecisionAction.RESUME
        assert sent == Sent(kind=SentKind.DECISION, at=sent.at, by="ann@desk", id="d1", target="1-1", action=resume)
        (pending,) = pending_of(await client.status(thread_id))
        (listed,) = [each async for each in client.inbox(thread_id=thread_id)]
        assert (pending.sent, listed.sent, not_sent([pending])) == (sent, sent, ())
        with pytest.raises(NoDecision):
            await wait_for_decision(client, thread_id, within=0.1)

        said = f"{thread_id} has not handled yet: a decision on 1-1 (approve) by ann@desk, sent "
        new = await client.why(thread_id)
        assert (new.cause, said in new.why) == (Cause.WORKING, True)
        late = await client.why(thread_id, now=sent.at + 11_000)
        assert (late.cause, said in late.why) == (Cause.WORKER_SILENT, True), late.facts
        assert "No worker has polled task queue" in late.why
        gone = await client.why(thread_id, now=sent.at + 120_000)
        assert (gone.cause, said in gone.why) == (Cause.NO_WORKER, True)
        assert [command for each in (new, late, gone) for command in each.commands if "approve" in command] == []

        shown = await wakeful("status", thread_id, address=address)
        assert "sent     a decision on 1-1 (approve) by ann@desk, sent " in shown.out
        assert "is decided: May I launch?" in shown.out
        inbox = await wakeful("inbox", "--thread", thread_id, address=address)
        assert "waits for a worker: a decision on 1-1 (approve) by ann@desk, sent " in inbox.out
        assert "wakeful approve" not in shown.out + inbox.out

        async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
            await client.result(thread_id)
            assert (await client.status(thread_id)).unhandled == ()


@pytest.mark.parametrize(("mode", "verb"), [("run", "cancel"), ("thread", "cancel"), ("thread", "close")])
async def test_a_cancel_or_a_close_that_was_sent_is_shown_instead_of_asking_for_a_decision(
    temporal: TemporalClient, thread_id: str, mode: str, verb: str
) -> None:
    """B-368"""
    address = temporal.service_client.config.target_host
    async with without_worker(temporal, thread_id, mode) as client:
        await (client.cancel(thread_id) if verb == "cancel" else client.close(thread_id))
        (sent,) = await unhandled(client, thread_id)
        assert (sent.kind, sent.by) == (SentKind(verb), temporal.identity)
        (pending,) = pending_of(await client.status(thread_id))
        (listed,) = [each async for each in client.inbox(thread_id=thread_id)]
        assert (pending.sent, listed.sent, not_sent([pending])) == (sent, sent, ())
        with pytest.raises(NoDecision):
            await wait_for_decision(client, thread_id, within=0.1)

        said = f"{thread_id} has not handled yet: a {verb} by {temporal.identity}, sent "
        new = await client.why(thread_id)
        late = await client.why(thread_id, now=sent.at + 11_000)
        gone = await client.why(thread_id, now=sent.at + 120_000)
        assert [each.cause for each in (new, late, gone)] == [Cause.WORKING, Cause.WORKER_SILENT, Cause.NO_WORKER]
        assert [said in each.why for each in (new, late, gone)] == [True] * 3
        assert [command for each in (new, late, gone) for command in each.commands if "approve" in command] == []

        inbox = await wakeful("inbox", "--thread", thread_id, address=address)
        assert f"waits for a worker: a {verb} by {temporal.identity}, sent " in inbox.out
        shown = await wakeful("status", thread_id, address=address)
        assert "needs no decision: May I launch?" in shown.out
        assert "wakeful approve" not in shown.out + inbox.out


async def test_a_cancel_of_another_run_and_one_that_is_malformed_leave_the_decision_to_be_made(
    temporal: TemporalClient, thread_id: str
) -> None:
    async with without_worker(temporal, thread_id, mode="thread") as client:
        await client.handle(thread_id).signal("cancel", {"why": "enough"})
        await client.cancel(thread_id, run_id="another")
        await unhandled(client, thread_id)
        (listed,) = [each async for each in client.inbox(thread_id=thread_id)]
        assert (listed.sent, (await client.why(thread_id)).cause) == (None, Cause.DECISION)
        await client.cancel(thread_id, run_id=listed.run_id)
        (listed,) = [each async for each in client.inbox(thread_id=thread_id)]
        assert listed.sent is not None
        assert (listed.sent.run_id, (await client.why(thread_id)).cause) == (listed.run_id, Cause.WORKING)


async def test_a_cancel_of_the_parent_settles_what_its_sub_agent_asks(temporal: TemporalClient, thread_id: str) -> None:
    async with Client(temporal, task_queue=thread_id) as client:
        async with running_worker(temporal, DELEGATING, WorkerSettings(task_queue=thread_id)):
            await client.start("boss", "ask", thread_id=thread_id)
            asked = await wait_for_decision(client, thread_id)
        assert [each.ticket for each in await pending_in(client, thread_id)] == [asked.ticket]
        assert (await client.why(thread_id)).cause is Cause.DECISION
        await client.cancel(thread_id)
        assert await pending_in(client, thread_id) == ()
        assert (await client.why(thread_id)).cause is Cause.WORKING
        with pytest.raises(NoDecision):
            await wait_for_decision(client, thread_id, within=0)
        await client.handle(asked.thread_id).terminate()
        await client.handle(thread_id).terminate()


async def test_messages_cancels_closes_and_changes_are_shown_until_a_worker_has_handled_them(
    temporal: TemporalClient, thread_id: str
) -> None:
    async with without_worker(temporal, thread_id, mode="thread") as client:
        await client.send(thread_id, "hello", user="zoe", message_id="m1")
        await client.edit(thread_id, "m1", "hello again", request_id="e1")
        await client.withdraw(thread_id, ["m1"], request_id="w1")
        await client.revoke(thread_id, ["pay"], request_id="r1")
        await client.handle(thread_id).signal("decide", "nonsense")
        await client.cancel(thread_id)
        await client.close(thread_id)
        found = await unhandled(client, thread_id, 6)
        program = temporal.identity
        assert [(each.kind.value, each.id, each.by) for each in found] == [
            ("message", "m1", "zoe"),
            ("change", "e1", program),
            ("change", "w1", program),
            ("change", "r1", program),
            ("cancel", None, program),
            ("close", None, program),
        ]
        assert "; 3 more." in (await client.why(thread_id)).why


async def test_temporal_s_own_cancel_is_shown_with_who_requested_it(temporal: TemporalClient, thread_id: str) -> None:
    async with without_worker(temporal, thread_id) as client:
        await client.cancel(thread_id)
        (sent,) = await unhandled(client, thread_id)
        assert (sent.kind, sent.by) == (SentKind.CANCEL, temporal.identity)


async def test_the_inbox_of_all_threads_knows_what_waits_for_a_worker(temporal: TemporalClient) -> None:
    own = await empty_namespace(temporal)
    async with Client(own) as client:
        async with running_worker(own, registry):
            for thread in ("t1", "t2"):
                await client.start("tester", "approve", thread_id=thread)
                await until_status(client, thread, RunStatus.WAITING)
        await client.decide("t2", "1-1", "cancel", actor="bob")

        async def listed() -> dict[str, PendingDecision]:
            return {each.thread_id: each async for each in client.inbox()}

        async with asyncio.timeout(BOUND_SECONDS):  # Temporal estimates the backlog a moment later
            while len(found := await listed()) < 2 or found["t2"].sent is None:
                await asyncio.sleep(0.1)
        assert found["t1"].sent is None
        assert (found["t2"].sent.by, found["t2"].sent.action) == ("bob", DecisionAction.CANCEL)
