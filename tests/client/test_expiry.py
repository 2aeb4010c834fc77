"""A thread that is idle for too long deletes itself; a message before that keeps it."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client as TemporalClient

from tests.client.test_delete import Counting, answered, left
from tests.support.waiting import BOUND_SECONDS
from wakeful import Agent, CallerError, HistoryBudget, Registry, ThreadMode, WorkerSettings, running_worker
from wakeful.client.client import Client

AGENTS = [Agent(id="brief", model="m", expire_after=1), Agent(id="patient", model="m", expire_after=3600)]


@pytest.fixture
async def client(temporal: TemporalClient, thread_id: str) -> AsyncIterator[Client]:
    settings = WorkerSettings(task_queue=thread_id, history_budget=HistoryBudget(bytes=100_000), sweep_interval=None)
    async with running_worker(temporal, Registry(agents=AGENTS, models={"m": Counting()}), settings):
        yield Client(temporal, task_queue=thread_id)


async def until_gone(client: Client, thread_id: str) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        while await left(client, thread_id):
            await asyncio.sleep(0.2)


@pytest.mark.faults  # the server takes its time to delete executions
async def test_an_idle_thread_deletes_itself_with_its_archives(client: Client, thread_id: str) -> None:
    for number in range(1, 11):
        await client.send(thread_id, f"message {number} " + "x" * 30_000, agent_id="brief")
        await answered(client, thread_id, runs=number)
    assert await left(client, thread_id)
    await until_gone(client, thread_id)
    assert not (await client.delete(thread_id)).found


async def test_a_request_has_precedence_and_a_fork_does_not_expire_with_its_origin(
    client: Client, thread_id: str
) -> None:
    await client.start("patient", "hello", thread_id=thread_id, mode=ThreadMode.THREAD, expire_after=1)
    await answered(client, thread_id, runs=1)
    fork = await client.fork(thread_id, at=1, message="instead", mode=ThreadMode.THREAD)
    await answered(client, fork, runs=2)
    await until_gone(client, thread_id)
    await client.send(fork, "still there?")
    assert await answered(client, fork, runs=3) == "shown 5"
    await client.close(fork)


async def test_a_time_must_be_positive_and_finite(client: Client) -> None:
    for wrong in (0, -1, float("inf"), float("nan")):
        with pytest.raises(CallerError, match="expire_after"):
            await client.start("patient", "hello", mode=ThreadMode.THREAD, expire_after=wrong)
