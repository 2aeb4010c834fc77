"""A worker for trees of agents that tests kill with -9; its timeouts are short, so that the next one takes over soon.

The program is `python -m tests.faults.subagent_worker ADDRESS TASK_QUEUE EVENTS`: threads continue as new after
EVENTS events. `KilledWorker` starts, kills and restarts its process.
"""

import asyncio
import os
import random
import sys
import time
from datetime import timedelta

from temporalio.client import Client

from tests.support.app import JOURNAL
from tests.support.journal import Journal
from tests.support.processes import ROOT, kill
from tests.support.subagent_app import WAITING, registry
from wakeful.connection import Address, connect
from wakeful.contract.agents import HistoryBudget
from wakeful.worker import WorkerSettings, serve

BOUND_SECONDS = 240
"""A kill during `deliver_message` delays the message by the half minute of that activity's timeout."""
USUAL_START_SECONDS = 1.5
"""On a machine where a worker takes longer to start, it also lives longer: otherwise no run would make progress."""


class KilledWorker:
    """One worker process at a time: each kill starts the next one."""

    def __init__(self, temporal: Client, task_queue: str, journal: Journal, *, events: int = 2000) -> None:
        self._address = temporal.service_client.config.target_host
        self._task_queue = task_queue
        self._journal = journal
        self._events = events
        self._process: asyncio.subprocess.Process | None = None
        self._rng = random.Random(7)
        self._start_seconds = 0.0

    async def __aenter__(self) -> "KilledWorker":
        began = time.monotonic()
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.faults.subagent_worker"),
            *(self._address, self._task_queue, str(self._events)),
            cwd=ROOT,
            env={**os.environ, JOURNAL: str(self._journal.path)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            assert b"task queue" in await self._process.stdout.readline()
        self._start_seconds = time.monotonic() - began
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._process is not None and self._process.returncode is None:
            await kill(self._process)

    async def kill_during(self, calls: int, *, kills: int) -> None:
        """Kill the process `kills` times, evenly spread over this many calls of `work`."""
        before = self._work_done()
        for number in range(1, kills + 1):
            async with asyncio.timeout(BOUND_SECONDS):
                while self._work_done() - before < calls * number // (kills + 1):
                    await asyncio.sleep(0.02)
            await self.kill_after(0, 0.5)
            print(f"kill {number} after {self._work_done() - before} of {calls} calls", file=sys.stderr, flush=True)

    async def kill_after(self, least: float, most: float) -> None:
        """Kill the process after a random time between these seconds, and start the next one."""
        delay = max(0.0, self._start_seconds - USUAL_START_SECONDS)
        await asyncio.sleep(self._rng.uniform(least, most) + delay)  # a random moment, not a wait for a condition
        assert self._process is not None
        await kill(self._process)
        await self.__aenter__()

    def _work_done(self) -> int:
        return len({line["key"] for line in self._journal.lines("work") if line["what"] != WAITING})


async def main(address: str, task_queue: str, events: str) -> None:
    settings = WorkerSettings(
        task_queue=task_queue,
        sticky_timeout=timedelta(seconds=1),
        sweep_interval=timedelta(seconds=1),
        history_budget=HistoryBudget(events=int(events)),
    )
    client = await connect(Address(address))
    print(f"worker on task queue {task_queue}", flush=True)
    await serve(client, registry, settings, until=asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
