"""Five calls at once, three of which a person has to decide: the model's next turn sees five results, in call order."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.app import registry
from tests.support.app.gated import PAID
from tests.support.waiting import until
from wakeful import Behavior, Rule, RunStatus
from wakeful.client.client import Client
from wakeful.contract.errors import DecisionRefused
from wakeful.contract.runs import Blocked
from wakeful.worker import WorkerSettings, running_worker


@pytest.fixture
async def mine(temporal: TemporalClient, thread_id: str) -> AsyncIterator[Client]:
    PAID.clear()
    async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
        yield Client(temporal, task_queue=thread_id)


async def test_one_approved_one_denied_one_expired(mine: Client, thread_id: str) -> None:
    await mine.start("gated", "five", thread_id=thread_id)
    view = await until(mine, thread_id, lambda view: len(view.pending) == 3)
    first, second, _third = sorted(view.pending, key=lambda ticket: ticket.pending.id)
    assert await mine.decide(thread_id, first.pending.id, "resume", actor="ada", confirm=True) == "applied"
    assert await mine.decide(thread_id, second.pending.id, "cancel", reason="too dear", confirm=True) == "applied"
    result = await mine.result(thread_id)
    assert result.status_reason == "natural"
    transcript = await mine.transcript(thread_id)
    asked = [one.id for message in transcript for one in message.tool_calls]
    answered = [message for message in transcript if message.tool_call_id]
    assert [message.tool_call_id for message in answered] == asked
    assert [message.text for message in answered[:4]] == [
        "saw left",
        "paid 1",
        "saw right",
        "cancelled by decision: too dear",
    ]
    assert answered[4].text.startswith("denied: no decision within 2")
    assert PAID == [1]


async def test_bad_decisions_are_refused_as_a_whole_and_the_run_is_unharmed(mine: Client, thread_id: str) -> None:
    await mine.start("gated", "one", thread_id=thread_id)
    [ticket] = (await until(mine, thread_id, lambda view: bool(view.pending))).pending
    id = ticket.pending.id
    with pytest.raises(DecisionRefused, match="not found"):
        await mine.decide(thread_id, "unknown", "resume", confirm=True)
    with pytest.raises(DecisionRefused, match="changed"):
        await mine.decide(thread_id, id, "resume", arguments_digest="0" * 16, confirm=True)
    with pytest.raises(DecisionRefused, match="amount"):
        await mine.decide(thread_id, id, "resume", arguments={"amount": "lots"}, confirm=True)
    with pytest.raises(DecisionRefused, match="remember"):
        await mine.decide(thread_id, id, "resume", always=True, confirm=True)
    assert len((await mine.status(thread_id)).pending) == 1
    digest = ticket.arguments_digest
    answer = await mine.decide(
        thread_id, id, "resume", arguments={"amount": 5}, arguments_digest=digest, decision_id="d1", confirm=True
    )
    assert answer == "applied"
    result = await mine.result(thread_id)
    assert (result.response, PAID) == ("paid 5", [5])


async def test_what_a_gate_blocks_ends_the_run(mine: Client, thread_id: str) -> None:
    result = await mine.run("gated", "unlucky", thread_id=thread_id)
    assert result.status_reason == "blocked:thirteen is never paid"
    answered = [message.text for message in await mine.transcript(thread_id) if message.tool_call_id]
    assert answered == ["saw it", "thirteen is never paid", "saw no more"]
    assert PAID == []


async def test_always_is_remembered_on_the_thread(mine: Client, thread_id: str) -> None:
    await mine.start("ruled", "again", thread_id=thread_id)
    [ticket] = (await until(mine, thread_id, lambda view: bool(view.pending))).pending
    assert ticket.suspension.id == f"perm_{ticket.pending.id}"
    await mine.decide(thread_id, ticket.pending.id, "resume", always=True, confirm=True)
    async with asyncio.timeout(30):
        result = await mine.result(thread_id)
    assert (result.response, PAID) == ("paid 9", [8, 9])


async def test_a_run_may_bring_rules_of_its_own(mine: Client, thread_id: str) -> None:
    rules = (Rule(tool='pay(amount = "7")', behavior=Behavior.DENY),)
    await mine.start("ruled", "one", thread_id=thread_id, permissions=rules)
    result = await mine.result(thread_id)
    assert result.status_reason == "blocked:Tool 'pay' denied by permission rules"
    assert PAID == []


async def test_people_are_asked_what_a_rule_says_until_its_deadline(mine: Client, thread_id: str) -> None:
    """B-807"""
    asking = Rule(
        tool="pay(amount > 5)",
        behavior=Behavior.ASK,
        message="Pay {amount} EUR?",
        expires_after=2,
        on_expiry="deny",
    )
    await mine.start("ruled", "one", thread_id=thread_id, permissions=(asking,))
    await until(mine, thread_id, lambda view: bool(view.pending))
    [entry] = [entry async for entry in mine.inbox(thread_id=thread_id)]
    assert entry.message == "Pay 7 EUR?"
    async with asyncio.timeout(60):
        await mine.result(thread_id)
    answers = [message.text for message in await mine.transcript(thread_id) if message.tool_call_id]
    assert (answers, PAID) == (["denied: no decision within 2 s"], [])


async def test_a_run_that_a_rule_ends_names_it(mine: Client, thread_id: str) -> None:
    """B-808"""
    rules = (Rule(tool="pay(amount >= 7)", behavior=Behavior.DENY, message="{amount} EUR is too much."),)
    result = await mine.run("ruled", "one", thread_id=thread_id, permissions=rules)
    assert result.status_reason == "blocked:7 EUR is too much."
    assert result.termination == Blocked(value="7 EUR is too much.", rule="pay(amount >= 7)")
    why = await mine.why(thread_id)
    assert "permission rule 'pay(amount >= 7)' denied a call" in str(why)


async def test_the_inbox_shows_a_call_that_waits_while_others_of_its_step_run(mine: Client, thread_id: str) -> None:
    await mine.start("gated", "slow", thread_id=thread_id)
    async with asyncio.timeout(30):
        while not (found := [entry async for entry in mine.inbox() if entry.thread_id == thread_id]):
            await asyncio.sleep(0.05)
    assert [(entry.tool_name, entry.message) for entry in found] == [("pay", "Pay 7?")]
    assert (await mine.status(thread_id)).status is RunStatus.RUNNING
    await mine.decide(thread_id, found[0].call_id, "cancel", confirm=True)
    await mine.cancel(thread_id)
    result = await mine.result(thread_id)
    assert result.status_reason == "cancelled"
    answers = [message.text for message in await mine.transcript(thread_id) if message.tool_call_id]
    assert answers == ["cancelled by decision", "rested"]  # what the tool did although it was told to stop
