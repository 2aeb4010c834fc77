"""A rolling deploy under load: old and new workers, in processes of their own, serve the same runs for a while.

WAKEFUL_MIXED_SECONDS=10 make faults is a short run.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.journal import Journal
from tests.support.processes import Program, worker_process
from wakeful.client.client import Client
from wakeful.contract.missing import NOT_ON_THIS_WORKER
from wakeful.contract.runs import RunResult

MIXED_SECONDS = float(os.environ.get("WAKEFUL_MIXED_SECONDS", "60"))
AT_A_TIME = 6
BOUND_SECONDS = 300

pytestmark = pytest.mark.faults


async def test_no_run_ends_because_a_deploy_adds_an_agent_tools_and_a_plugin(
    temporal: TemporalClient, thread_id: str, tmp_path: Path
) -> None:
    """H-25."""
    load = Load(Client(temporal, task_queue=thread_id), thread_id)
    address, path = temporal.service_client.config.target_host, tmp_path / "journal.jsonl"

    async def start(workers: AsyncExitStack, release: str) -> Program:
        app = f"tests.faults.rolling_app:{release}"
        return await workers.enter_async_context(worker_process(address, thread_id, path, app=app))

    async with (
        AsyncExitStack() as workers,
        asyncio.timeout(MIXED_SECONDS + BOUND_SECONDS),
        asyncio.TaskGroup() as tasks,
    ):
        old = [await start(workers, "old") for _ in range(2)]
        for _ in range(AT_A_TIME):
            tasks.create_task(load.run())
        for process in old:  # one after another is replaced, while runs of the new agent start
            await start(workers, "new")
            await asyncio.sleep(MIXED_SECONDS / 2)  # how long they run side by side, not a wait for a condition
            process.terminate()
            assert await process.wait() == 0
        load.is_over.set()

    results = load.results.values()
    assert {result.status_reason for result in results} == {"natural"}
    assert "called 3 tools" in {result.response for result in results}
    keys = [line["key"] for line in Journal(path).lines("refund")]
    assert len(keys) == len(set(keys))
    left = [kind async for kind in load.left_to_others()]
    assert len(left) > 0
    print(f"{len(results)} runs; {len(left)} activities were left to other workers")


class Load:
    """Runs, several at a time, until it is over; every other one is of the new agent, or delegates to it."""

    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        self._prefix = prefix
        self._started = 0
        self.is_over = asyncio.Event()
        self.results: dict[str, RunResult] = {}

    async def run(self) -> None:
        while not self.is_over.is_set():
            self._started += 1
            thread_id = f"{self._prefix}-{self._started}"
            agent = ("clerk", "auditor", "desk")[self._started % 3]
            await self._client.start(agent, "hello", thread_id=thread_id)
            self.results[thread_id] = await self._client.result(thread_id)
            for message in await self._client.transcript(thread_id):
                assert "not executed" not in message.text
                assert "outcome unknown" not in message.text

    async def left_to_others(self) -> AsyncIterator[str]:
        """The activities that a worker without the agent, the tool or the plugin was given first."""
        for thread_id in self.results:
            async for event in self._client.handle(thread_id).fetch_history_events():
                failure = event.activity_task_started_event_attributes.last_failure
                if failure.application_failure_info.type == NOT_ON_THIS_WORKER:
                    yield failure.message
