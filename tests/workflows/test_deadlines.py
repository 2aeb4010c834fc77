"""Deadlines and confirmed decisions on the real server: the timer, and what becomes of a decision."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial, reduce
from operator import and_
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client as TemporalClient

from tests.support.waiting import BOUND_SECONDS, until, until_status
from wakeful import Agent, Registry, RunStatus, ScriptedModel, ToolContext, ToolMode, call, say, tool
from wakeful.client.client import Client
from wakeful.client.queries import query
from wakeful.contract import names
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.stopping import StopCondition, Timeout
from wakeful.contract.views import OutcomesView
from wakeful.worker import WorkerSettings, running_worker

BUDGETS = pytest.mark.parametrize(
    "budget", [HistoryBudget(), HistoryBudget(events=1)], ids=["usual", "continuing as new after every fact"]
)


@tool
async def ask(ctx: ToolContext, seconds: float, then: str = "cancel", first: float = 0) -> str:
    """Ask, with a deadline, after a while."""
    if ctx.resume_input is None:
        await asyncio.sleep(first)
        ctx.suspend("Quickly?", expires_after=seconds, on_expiry=then, escalate_after=seconds / 2)  # type: ignore[arg-type]  # a model's word
    return f"went on after {ctx.resume_input.actor}"


def asking(*calls: dict[str, Any], stop_conditions: Sequence[StopCondition] = ()) -> Registry:
    together = reduce(and_, (call("ask", **arguments) for arguments in calls))
    script = ScriptedModel([together, say("{result}")])
    hasty = Agent(id="hasty", tools=[ask], tool_mode=ToolMode.PARALLEL, stop_conditions=stop_conditions)
    return Registry(agents=[hasty], models={"default": script})


@asynccontextmanager
async def at_work(
    temporal: TemporalClient, registry: Registry, queue: str, budget: HistoryBudget | None = None
) -> AsyncIterator[Client]:
    settings = WorkerSettings(task_queue=queue, history_budget=budget or HistoryBudget())
    async with running_worker(temporal, registry, settings):
        yield Client(temporal, task_queue=queue)


async def kinds(client: Client, thread_id: str) -> list[str]:
    history = await client.handle(thread_id).fetch_history()
    return [EventType.Name(event.event_type).removeprefix("EVENT_TYPE_") for event in history.events]


async def results(client: Client, thread_id: str) -> list[str]:
    return [message.text for message in await client.transcript(thread_id) if message.tool_call_id]


@BUDGETS
@pytest.mark.parametrize(
    ("then", "told"),
    [
        ("cancel", "cancelled: no decision within 0.4 s"),
        ("deny", "denied: no decision within 0.4 s"),
        ("resume", "went on after deadline"),
    ],
)
async def test_an_undecided_call_does_not_wait_for_ever(
    temporal: TemporalClient, thread_id: str, budget: HistoryBudget, then: str, told: str
) -> None:
    async with at_work(temporal, asking({"seconds": 0.4, "then": then}), thread_id, budget) as client:
        await client.start("hasty", "go", thread_id=thread_id)
        assert (await client.result(thread_id)).status_reason == "natural"
        assert await results(client, thread_id) == [told]


async def test_watchers_see_that_a_decision_is_overdue(temporal: TemporalClient, thread_id: str) -> None:
    async with at_work(temporal, asking({"seconds": 0.6}), thread_id) as client:
        await client.start("hasty", "go", thread_id=thread_id)
        events = [record.event.event_type async for record in client.watch(thread_id)]
        assert events.count("decision_overdue") == 1


async def test_a_deadline_passes_while_no_worker_runs_and_a_decision_in_time_still_counts(
    temporal: TemporalClient, thread_id: str
) -> None:
    registry = asking({"seconds": 6}, {"seconds": 6})
    async with at_work(temporal, registry, thread_id) as client:
        await client.start("hasty", "go", thread_id=thread_id)
        first, _ = (await until_status(client, thread_id, RunStatus.WAITING)).pending
    await client.decide(thread_id, first.pending.id, "resume", actor="Ann")
    async with asyncio.timeout(BOUND_SECONDS):
        while "TIMER_FIRED" not in await kinds(client, thread_id):
            await asyncio.sleep(0.05)
    async with at_work(temporal, registry, thread_id) as client:
        await client.result(thread_id)
        assert await results(client, thread_id) == ["went on after Ann", "cancelled: no decision within 6 s"]


async def test_the_timer_goes_with_the_last_call_that_has_a_deadline(temporal: TemporalClient, thread_id: str) -> None:
    async with at_work(temporal, asking({"seconds": 500}, {"seconds": 300}), thread_id) as client:
        await client.start("hasty", "go", thread_id=thread_id)
        await until_status(client, thread_id, RunStatus.WAITING)
        for ticket in (await client.status(thread_id)).pending:
            await client.decide(thread_id, ticket.pending.id, "cancel")
        await client.result(thread_id)
        happened = await kinds(client, thread_id)
        assert happened.count("TIMER_STARTED") == happened.count("TIMER_CANCELED") >= 1
        assert "TIMER_FIRED" not in happened


async def test_a_run_with_a_deadline_is_cancelled_as_any_other(temporal: TemporalClient, thread_id: str) -> None:
    """H-06"""
    async with at_work(temporal, asking({"seconds": 500}), thread_id) as client:
        await client.start("hasty", "go", thread_id=thread_id)
        await until_status(client, thread_id, RunStatus.WAITING)
        await client.cancel(thread_id)
        assert (await client.result(thread_id)).status_reason == "cancelled"


async def test_a_run_without_a_deadline_has_no_timer(usual_client: Client, thread_id: str) -> None:
    await usual_client.start("tester", "approve", thread_id=thread_id)
    (ticket,) = (await until_status(usual_client, thread_id, RunStatus.WAITING)).pending
    await usual_client.decide(thread_id, ticket.pending.id, "resume")
    await usual_client.result(thread_id)
    assert "TIMER_STARTED" not in await kinds(usual_client, thread_id)


async def test_a_confirmed_decision_is_answered_with_what_became_of_it(client: Client, thread_id: str) -> None:
    """B-329: the decider learns whether the decision was applied, not only that it was sent."""
    await client.start("parallel", "two approvals", thread_id=thread_id)
    first, second = (await until_status(client, thread_id, RunStatus.WAITING)).pending
    deny = partial(client.decide, thread_id, action="cancel", decision_id="d1", confirm=True)
    assert await deny(first.pending.id) == "applied"
    assert await deny(first.pending.id) == "repeated"
    assert await deny(second.pending.id) == "applied"
    assert (await client.result(thread_id)).status_reason == "natural"


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["yes please"], "a JSON object is required"),
        ([{"call_id": "c", "action": "resume"}, 2], "it takes one JSON value, got 2"),
        ([], "a JSON object is required"),
        ([{"call_id": "c", "action": "resume"}], "unknown key: tool call or suspension 'c' not"),
    ],
)
async def test_a_decision_that_is_refused_shows_the_reason_and_changes_nothing(
    usual_client: Client, thread_id: str, args: list[Any], reason: str
) -> None:
    """H-02"""
    client = usual_client
    await client.start("tester", "approve", thread_id=thread_id)
    before = await until_status(client, thread_id, RunStatus.WAITING)
    await client.handle(thread_id).signal("decide", args=args)
    after = await until(client, thread_id, lambda view: view.refusals != ())
    assert (reason in after.refusals[0].reason, after.pending) == (True, before.pending), after.refusals
    await client.cancel(thread_id)
    await client.result(thread_id)


async def test_a_confirmed_decision_on_a_call_that_still_runs_is_held_until_it_asks(
    temporal: TemporalClient, thread_id: str
) -> None:
    registry = asking({"seconds": 60, "first": 3})
    async with at_work(temporal, registry, thread_id) as client:
        await client.start("hasty", "go", thread_id=thread_id)
        running = await until(client, thread_id, lambda view: view.calls != ())
        call_id = running.calls[0].call_id
        assert await client.decide(thread_id, call_id, "resume", actor="Ann", decision_id="d1", confirm=True) == "held"
        await client.result(thread_id)
        assert await results(client, thread_id) == ["went on after Ann"]
        view = await query(temporal, thread_id, names.QUERY_OUTCOMES, OutcomesView, {"ids": ["d1"]})
        assert [outcome.status.value for outcome in view.outcomes] == ["applied"]


async def test_a_timeout_stops_the_run_with_the_answer_after_its_timer(
    temporal: TemporalClient, thread_id: str
) -> None:
    registry = asking({"seconds": 60, "first": 1}, stop_conditions=[Timeout(seconds=0.3)])
    async with at_work(temporal, registry, thread_id) as client:
        await client.start("hasty", "go", thread_id=thread_id)
        (ticket,) = (await until_status(client, thread_id, RunStatus.WAITING)).pending
        await client.decide(thread_id, ticket.pending.id, "cancel")
        assert (await client.result(thread_id)).status_reason == "stopped:timeout"
        assert (await kinds(client, thread_id)).count("TIMER_FIRED") == 1
