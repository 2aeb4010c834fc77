"""When workers sweep: the fleet makes one round per interval."""

import asyncio
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import Worker

from tests.support.counting import counting_client
from tests.support.waiting import BOUND_SECONDS
from wakeful.client.thread_reader import ThreadReader
from wakeful_activities.sweep.rounds import Rounds, count_workers, sweeping
from wakeful_workflows import AgentRun


async def test_workers_that_poll_a_queue_are_counted(temporal: Client, thread_id: str) -> None:
    assert await count_workers(temporal, thread_id) == 1  # the one that asks has not polled yet
    other = await Client.connect(temporal.service_client.config.target_host)
    async with (
        Worker(temporal, task_queue=thread_id, workflows=[AgentRun], identity="first"),
        Worker(other, task_queue=thread_id, workflows=[AgentRun], identity="second"),
        asyncio.timeout(BOUND_SECONDS),
    ):
        while await count_workers(temporal, thread_id) < 2:
            await asyncio.sleep(0.05)


async def test_a_worker_waits_one_interval_per_worker(temporal: Client, thread_id: str) -> None:
    rounds = Rounds(ThreadReader(temporal), thread_id, timedelta(seconds=5), jitter=lambda: 0.5)
    assert rounds.pause(workers=1) == 5.0
    assert rounds.pause(workers=4) == 20.0


async def test_what_a_worker_has_found_it_finishes_without_waiting_for_the_others(
    temporal: Client, thread_id: str
) -> None:
    rounds = Rounds(ThreadReader(temporal), thread_id, timedelta(seconds=5), jitter=lambda: 0.5)
    pauses = [rounds.pause(workers=4, has_unfinished=True) for _ in range(14)]
    assert pauses == [5.0] * 12 + [20.0] * 2
    assert rounds.pause(workers=4) == 20.0
    assert rounds.pause(workers=4, has_unfinished=True) == 5.0


async def test_a_round_of_an_idle_worker_costs_three_calls(temporal: Client, thread_id: str) -> None:
    counted, calls = counting_client(temporal)
    async with sweeping(ThreadReader(counted), thread_id, timedelta(milliseconds=10), jitter=lambda: 0.5):
        async with asyncio.timeout(BOUND_SECONDS):
            while calls["describe_task_queue"] < 3:
                await asyncio.sleep(0.01)
    rounds = calls.pop("describe_task_queue")
    assert calls.keys() == {"list_workflow_executions"}
    assert rounds - 1 <= calls["list_workflow_executions"] / 2 <= rounds
