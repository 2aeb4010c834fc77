"""What a reader makes of history is what a worker answers, for every query and execution of random threads.

`make test` checks a tree of threads that continue as new, and `make faults` 200; to check more, set
`WAKEFUL_READER_RUNS` and run pytest on this file. `WAKEFUL_READER_SEED` makes other threads.
"""

import asyncio
import os

import pytest
from temporalio.client import Client as TemporalClient

from tests.history.comparing import Comparison
from tests.history.random_threads import RandomThread, registry
from wakeful.client.client import Client
from wakeful.contract.agents import HistoryBudget
from wakeful.history.reader import HistoryReader
from wakeful.worker import WorkerSettings, running_worker

RUNS = int(os.environ.get("WAKEFUL_READER_RUNS", "2"))
SEED = int(os.environ.get("WAKEFUL_READER_SEED", "1"))
CONCURRENT = 4
SMALL_BUDGET = HistoryBudget(events=40)


@pytest.mark.parametrize(
    "budget", [pytest.param(HistoryBudget(), marks=pytest.mark.faults), SMALL_BUDGET], ids=["whole", "continued"]
)
async def test_a_reader_gives_every_answer_of_a_worker(
    temporal: TemporalClient, thread_id: str, budget: HistoryBudget
) -> None:
    """The worker that ran the threads, and one that replays them."""
    settings = WorkerSettings(task_queue=thread_id, history_budget=budget)
    client, reader = Client(temporal, task_queue=thread_id), HistoryReader(temporal)
    threads = [RandomThread(client, seed) for seed in range(SEED, SEED + RUNS // 2)]
    warm, cold = Comparison(temporal, reader, cold=False), Comparison(temporal, reader, cold=True)
    gate = asyncio.Semaphore(CONCURRENT)

    async def compare(thread: RandomThread) -> None:
        async with gate:
            await thread.drive()
            await warm.tree(thread.id)

    async with running_worker(temporal, registry, settings):
        await asyncio.gather(*(compare(thread) for thread in threads))
    async with running_worker(temporal, registry, settings):
        for thread in threads:
            await cold.tree(thread.id)
    await reader.aclose()
    print(f"{warm.answers + cold.answers} answers of {warm.executions} executions")
    differences = [*warm.differences, *cold.differences]
    assert not differences, "\n".join(map(str, differences))
    assert warm.executions >= len(threads)
