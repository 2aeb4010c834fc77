"""What a reader makes of history is what a worker answers, for every query and execution of random threads.

`make test` checks a few threads and `make faults` 200; to check more, set `WAKEFUL_READER_RUNS` and run pytest on this
file. `WAKEFUL_READER_SEED` makes other threads.
"""

import asyncio
import os
from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client as TemporalClient

from tests.history.comparing import Comparison
from tests.history.random_threads import RandomThread, registry
from wakeful.client.client import Client
from wakeful.contract.agents import HistoryBudget
from wakeful.history.reader import HistoryReader
from wakeful.worker import WorkerSettings, running_worker

RUNS = int(os.environ.get("WAKEFUL_READER_RUNS", "8"))
SEED = int(os.environ.get("WAKEFUL_READER_SEED", "1"))
CONCURRENT = 4
SMALL_BUDGET = HistoryBudget(events=40)


@pytest.fixture(params=["whole", "continued"])
async def driven(request: pytest.FixtureRequest, temporal: TemporalClient) -> AsyncIterator[Client]:
    """A client of a worker that lets histories grow, or of one whose threads often continue as new."""
    queue = f"reading-{request.param}"
    budget = SMALL_BUDGET if request.param == "continued" else HistoryBudget()
    async with running_worker(temporal, registry, WorkerSettings(task_queue=queue, history_budget=budget)):
        yield Client(temporal, task_queue=queue)


async def test_a_reader_gives_every_answer_of_a_worker(driven: Client) -> None:
    reader = HistoryReader(driven.temporal)
    comparison = Comparison(driven.temporal, reader)
    gate = asyncio.Semaphore(CONCURRENT)

    async def compare(seed: int) -> None:
        async with gate:
            thread = RandomThread(driven, seed)
            await thread.drive()
            await comparison.tree(thread.id)

    async with asyncio.TaskGroup() as group:
        for seed in range(SEED, SEED + RUNS // 2):
            group.create_task(compare(seed))
    await reader.aclose()
    print(f"{comparison.answers} answers of {comparison.executions} executions")
    assert comparison.differences == []
    assert comparison.executions >= RUNS // 2
