"""A worker for trees of agents that is made to be killed: its successor takes over soon.

The program is `python -m tests.faults.family_worker ADDRESS TASK_QUEUE EVENTS APP`, where threads continue as new after
so many events; `MortalWorker` is its process.
"""

import asyncio
import importlib
import os
import random
import sys
from datetime import timedelta

from temporalio.client import Client

from tests.support.app import JOURNAL
from tests.support.journal import Journal
from tests.support.processes import ROOT, kill
from tests.support.subagent_app import WAITING
from wakeful import Registry
from wakeful.connection import Address, connect
from wakeful.contract.agents import HistoryBudget
from wakeful.worker import WorkerSettings, serve

BOUND_SECONDS = 240
"""A kill while a letter is on its way costs the half minute of that activity's timeout."""


class MortalWorker:
    """One worker process at a time, which is killed with -9 and comes back."""

    def __init__(
        self, temporal: Client, task_queue: str, journal: Journal, *, events: int = 2000, app: str = "family_app"
    ) -> None:
        self._address = temporal.service_client.config.target_host
        self._task_queue = task_queue
        self._journal = journal
        self._events = events
        self._app = f"tests.support.{app}"
        self._process: asyncio.subprocess.Process | None = None
        self._chance = random.Random(7)

    async def __aenter__(self) -> "MortalWorker":
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.faults.subagent_worker"),
            *(self._address, self._task_queue, str(self._events), self._app),
            cwd=ROOT,
            env={**os.environ, JOURNAL: str(self._journal.path)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            assert b"task queue" in await self._process.stdout.readline()
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._process is not None and self._process.returncode is None:
            await kill(self._process)

    async def die(self, kills: int, *, during: int) -> None:
        """Be killed so many times, evenly spread over so many calls of `work`."""
        before = self._work_done()
        for number in range(1, kills + 1):
            async with asyncio.timeout(BOUND_SECONDS):
                while self._work_done() - before < during * number // (kills + 1):
                    await asyncio.sleep(0.02)
            await self.die_within(0, 0.5)
            print(f"kill {number} after {self._work_done() - before} of {during}", file=sys.stderr, flush=True)

    async def die_within(self, least: float, most: float) -> None:
        """Be killed after so many seconds, and come back."""
        await asyncio.sleep(self._chance.uniform(least, most))  # the fault's moment, and no wait for anything
        assert self._process is not None
        await kill(self._process)
        await self.__aenter__()

    def _work_done(self) -> int:
        return len({line["key"] for line in self._journal.lines("work") if line["what"] != WAITING})


async def main(address: str, task_queue: str, events: str, app: str) -> None:
    registry: Registry = importlib.import_module(app).registry
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
