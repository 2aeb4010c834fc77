"""Queries that come before their thread has handled its newest events: asked again, or answered from history."""

import asyncio

import pytest
from temporalio import workflow
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowQueryFailedError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from tests.support.app import registry
from tests.support.stand_ins import view_of
from tests.support.waiting import until_status
from wakeful import RunStatus
from wakeful.client import queries
from wakeful.client.client import Client
from wakeful.client.queries import ask, query
from wakeful.contract import names
from wakeful.contract.errors import WakefulError
from wakeful.contract.views import StatusView
from wakeful.worker import WorkerSettings, running_worker


async def suspended_with_news(temporal: TemporalClient, thread_id: str) -> Client:
    """A thread that waits for a decision, and has a signal that no worker has handled; none runs."""
    client = Client(temporal, task_queue=thread_id)
    async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id, sweep_interval=None)):
        await client.start("tester", "approve", thread_id=thread_id)
        await until_status(client, thread_id, RunStatus.WAITING)
    await client.decide(thread_id, "nothing", "resume")
    return client


async def test_a_terminated_thread_with_events_that_no_worker_handled_is_read_from_history(
    temporal: TemporalClient, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await suspended_with_news(temporal, thread_id)
    run_id = (await client.handle(thread_id).describe()).run_id
    await client.handle(thread_id).terminate()
    read: list[tuple[object, ...]] = []

    async def from_history(*args: object, run_id: str | None = None) -> StatusView:
        read.append((*args, run_id))
        raise WakefulError("read from history")

    monkeypatch.setattr(queries, "read_from_history", from_history)
    async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id, sweep_interval=None)):
        with pytest.raises(WorkflowQueryFailedError, match=names.HANDLED_EARLY):
            await client.handle(thread_id).query(names.QUERY_STATUS)
        with pytest.raises(WakefulError, match="read from history"):
            await query(temporal, thread_id, names.QUERY_STATUS, StatusView, run_id=run_id)
    assert read == [(temporal, thread_id, names.QUERY_STATUS, StatusView, None, run_id)]


async def test_a_query_that_fails_otherwise_is_not_asked_again(client: Client, thread_id: str) -> None:
    await client.run("tester", "hi", thread_id=thread_id)
    with pytest.raises(WorkflowQueryFailedError, match="nothing"):
        await ask(client.temporal, thread_id, "nothing", StatusView)
    with pytest.raises(WakefulError, match="query 'nothing' of thread"):
        await query(client.temporal, thread_id, "nothing", StatusView)


async def test_many_queries_that_come_too_early_are_answered_in_the_end(
    temporal: TemporalClient, thread_id: str
) -> None:
    client = await suspended_with_news(temporal, thread_id)
    asked = [asyncio.create_task(client.status(thread_id)) for _ in range(10)]
    async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id, sweep_interval=None)):
        views = await asyncio.gather(*asked)
        assert {view.status for view in views} == {RunStatus.WAITING}
        await client.cancel(thread_id)
        await client.result(thread_id)


@workflow.defn(name=names.WORKFLOW)
class Busy:
    """A thread whose worker is too busy for its first two queries."""

    def __init__(self) -> None:
        self.queries = 0

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: self.queries < 0)

    @workflow.query(name=names.QUERY_STATUS)
    def status(self) -> StatusView:
        self.queries += 1
        if self.queries <= 2:
            raise RuntimeError(f"{names.DEADLOCK} Potential deadlock detected: workflow didn't yield within 2 seconds")
        return view_of("busy", "a", RunStatus.WAITING)


async def test_a_query_that_takes_a_busy_worker_too_long_is_asked_again(
    temporal: TemporalClient, thread_id: str
) -> None:
    runner = UnsandboxedWorkflowRunner()
    async with Worker(temporal, task_queue=thread_id, workflows=[Busy], workflow_runner=runner):
        await temporal.start_workflow(Busy.run, id=thread_id, task_queue=thread_id)
        view = await query(temporal, thread_id, names.QUERY_STATUS, StatusView)
        assert view.status is RunStatus.WAITING
        await temporal.get_workflow_handle(thread_id).terminate()
