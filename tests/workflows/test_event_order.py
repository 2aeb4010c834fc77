"""Whatever the order in which events, queries and workers come: no run gets stuck, and no decision is lost.

In each test a worker that does not have the runs in its cache meets events that no workflow task has handled yet, with
a query before or beside them. Core then hands out history in other pieces than a later replay does. A second worker
replays what the first one did: a run whose commands depended on the pieces would be stuck there.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TypeVar

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client as TemporalClient

from tests.support.waiting import BOUND_SECONDS, until
from wakeful import Agent, Registry, ScriptedModel, ToolContext, call, say, tool
from wakeful.client.client import Client
from wakeful.contract import names
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.errors import DecisionRefused
from wakeful.worker import WorkerSettings, running_worker

RUNS = int(os.environ.get("WAKEFUL_EVENT_ORDER_RUNS", "1"))
"""Runs of each test, side by side; `make faults` has more."""

SUSPENDED_EVENTS = 29
"""A budget that a run with `ask` does not reach before it suspends, and reaches with the next signal."""


@tool(idempotent=True)
async def ask(ctx: ToolContext, seconds: float | None = None) -> str:
    """Ask a person, with a deadline or without; the answer takes a moment."""
    if ctx.resume_input is None:
        ctx.suspend("May I?", expires_after=seconds)
    await asyncio.sleep(0.5)
    return f"went on after {ctx.resume_input.actor}"


def asking(**arguments: float) -> Registry:
    script = ScriptedModel([call("ask", **arguments), say("{result}")])
    return Registry(agents=[Agent(id="a", tools=[ask])], models={"default": script})


T = TypeVar("T")


class Threads:
    """Several threads of one test, on a task queue of their own, with workers that come and go."""

    def __init__(self, temporal: TemporalClient, name: str, registry: Registry, *, events: int = 2000) -> None:
        self.client = Client(temporal, task_queue=name)
        self.ids = [f"{name}-{number}" for number in range(RUNS)]
        self._registry = registry
        self._settings = WorkerSettings(
            task_queue=name,
            sweep_interval=None,
            history_budget=HistoryBudget(events=events),
            graceful_shutdown=timedelta(seconds=0),
        )

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[None]:
        async with running_worker(self.client.temporal, self._registry, self._settings):
            yield

    async def suspend(self) -> dict[str, str]:
        """Start all of them, let a worker bring them to their question, and stop it; the calls that they ask about."""
        async with self.worker():
            await self.each(lambda id: self.client.start("a", "go", thread_id=id))
            views = await self.each(lambda id: until(self.client, id, lambda view: bool(view.pending)))
            await self.each(self._quiet)
        return {id: view.pending[0].pending.id for id, view in zip(self.ids, views, strict=True)}

    async def each(self, do: Callable[[str], Awaitable[T]]) -> list[T]:
        return list(await asyncio.gather(*map(do, self.ids)))

    async def ends(self) -> list[str]:
        """What they answer, on a worker that has none of them in its cache; also that none was ever stuck."""
        async with self.worker(), asyncio.timeout(BOUND_SECONDS):
            ends = [result.response for result in await self.each(self.client.result)]
        await self.each(self._never_stuck)
        return ends

    async def events(self, id: str) -> list[HistoryEvent]:
        run_id = (await self.client.handle(id).describe()).run_id
        return [event async for event in self.client.handle(id, run_id=run_id).fetch_history_events()]

    async def kinds(self, id: str) -> list[str]:
        return [EventType.Name(event.event_type).removeprefix("EVENT_TYPE_") for event in await self.events(id)]

    async def _quiet(self, id: str) -> None:
        """Wait until nothing is due: the newest event completed a workflow task."""
        async with asyncio.timeout(BOUND_SECONDS):
            while (await self.kinds(id))[-1] not in QUIET:
                await asyncio.sleep(0.05)

    async def _never_stuck(self, id: str) -> None:
        failures = [event.workflow_task_failed_event_attributes.failure.message for event in await self.events(id)]
        assert not [failure for failure in failures if "TMPRL" in failure]


UPSERTED = "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES"
QUIET = ("WORKFLOW_TASK_COMPLETED", "TIMER_STARTED", UPSERTED, "WORKFLOW_PROPERTIES_MODIFIED")
"""What the newest event can be while nothing is due: the last of what a completed workflow task has made."""


async def decide(threads: Threads, id: str, call_id: str, actor: str, *, confirm: bool) -> str | None:
    """What the decider is told."""
    try:
        return await threads.client.decide(id, call_id, "resume", actor=actor, confirm=confirm)
    except DecisionRefused as refused:
        return refused.reason


@pytest.mark.parametrize("first", ["ann", "bob"])
async def test_two_people_decide_at_once_on_a_thread_that_has_continued_as_new(
    temporal: TemporalClient, thread_id: str, first: str
) -> None:
    """One decision is confirmed and one is not; the first task of the execution has no commands."""
    threads = Threads(temporal, thread_id, asking(), events=1)
    calls = await threads.suspend()
    answers: list[asyncio.Task[str | None]] = []
    for actor in ("ann", "bob") if first == "ann" else ("bob", "ann"):
        answers += [
            asyncio.create_task(decide(threads, id, calls[id], actor, confirm=actor == "ann")) for id in threads.ids
        ]
        await asyncio.sleep(0.3)
    async with threads.worker():
        told = [answer for answer in await asyncio.gather(*answers) if answer is not None]
    assert await threads.ends() == [f"went on after {first}"] * RUNS
    assert all((answer == "applied") == (first == "ann") for answer in told), told


async def test_a_confirmed_decision_is_applied_although_the_thread_continues_as_new_at_once(
    temporal: TemporalClient, thread_id: str
) -> None:
    """Another signal comes before it, and both before the first task of the execution."""
    threads = Threads(temporal, thread_id, asking(), events=1)
    calls = await threads.suspend()
    await threads.each(lambda id: start_again(threads, id))
    await threads.each(lambda id: threads.client.decide(id, "unknown", "cancel"))
    deciding = [asyncio.create_task(decide(threads, id, calls[id], "ann", confirm=True)) for id in threads.ids]
    await asyncio.sleep(0.3)
    async with threads.worker():
        assert await asyncio.gather(*deciding) == ["applied"] * RUNS
    assert await threads.ends() == ["went on after ann"] * RUNS


async def start_again(threads: Threads, id: str) -> None:
    """Hold the first task of the newest execution back: start it again with its input, now that no worker runs."""
    started = (await threads.events(id))[0].workflow_execution_started_event_attributes
    assert started.continued_execution_run_id, "it has not continued as new"
    await threads.client.handle(id).terminate("it is started again, without a worker")
    snapshot = json.loads(started.input.payloads[0].data)
    await threads.client.temporal.start_workflow(names.WORKFLOW, snapshot, id=id, task_queue=threads.client.task_queue)


async def status_of(threads: Threads, id: str) -> str:
    """What a person sees who asks for the status."""
    return (await threads.client.status(id, within=timedelta(seconds=BOUND_SECONDS))).status.value


async def foreign_query(threads: Threads, id: str) -> None:
    """What Temporal UI does when a person opens the page of a run; it may fail, and must do no harm."""
    query = threads.client.handle(id).query(
        "__temporal_workflow_metadata", rpc_timeout=timedelta(seconds=BOUND_SECONDS)
    )
    await asyncio.gather(query, return_exceptions=True)


def queries(threads: Threads) -> Sequence["asyncio.Task[object]"]:
    asked = [asyncio.ensure_future(status_of(threads, id)) for id in threads.ids]
    return [*asked, *(asyncio.ensure_future(foreign_query(threads, id)) for id in threads.ids)]


async def test_a_status_query_waits_for_a_worker_when_a_deadline_passes(
    temporal: TemporalClient, thread_id: str
) -> None:
    threads = Threads(temporal, thread_id, asking(seconds=4))
    await threads.suspend()
    asked = queries(threads)
    for id in threads.ids:
        async with asyncio.timeout(BOUND_SECONDS):
            while "TIMER_FIRED" not in await threads.kinds(id):
                await asyncio.sleep(0.05)
    async with threads.worker():
        seen = await asyncio.gather(*asked)
    assert set(seen) <= {"waiting", "running", "done", None}
    assert await threads.ends() == ["cancelled: no decision within 4 s"] * RUNS


async def test_a_query_runs_ahead_of_the_task_in_which_the_thread_continues_as_new(
    temporal: TemporalClient, thread_id: str
) -> None:
    threads = Threads(temporal, thread_id, asking(), events=SUSPENDED_EVENTS)
    calls = await threads.suspend()
    before = [(await threads.client.handle(id).describe()).run_id for id in threads.ids]
    asked = queries(threads)
    await asyncio.sleep(0.3)
    await threads.each(lambda id: threads.client.decide(id, calls[id], "resume", actor="bob"))
    async with threads.worker():
        await asyncio.gather(*asked)
    assert await threads.ends() == ["went on after bob"] * RUNS
    for id, run_id in zip(threads.ids, before, strict=True):
        old = [event async for event in threads.client.handle(id, run_id=run_id).fetch_history_events()]
        assert old[-1].event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW
        assert old[0].workflow_execution_started_event_attributes.continued_execution_run_id == ""
