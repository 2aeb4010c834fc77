"""A worker that writes down when its event loop is blocked.

The program is `python -m tests.faults.watched_worker ADDRESS TASK_QUEUE REPORTS`; it serves `long_thread_app`, whose
threads continue as new often.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from temporalio.client import Client

from tests.faults.long_thread_app import registry
from tests.support.app import JOURNAL
from tests.support.blocked_loops import Blocked, watching_loops
from tests.support.processes import ROOT, kill
from wakeful.connection import Address, connect
from wakeful.contract.agents import HistoryBudget
from wakeful.worker import WorkerSettings, serve

EVENTS_BUDGET = 1000


@contextlib.asynccontextmanager
async def watched_worker(temporal: Client, task_queue: str, folder: Path) -> AsyncIterator[Path]:
    """The worker in a process of its own; yields the file with its reports."""
    reports = folder / "blocked.txt"
    reports.touch()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.watched_worker"),
        *(temporal.service_client.config.target_host, task_queue, str(reports)),
        cwd=ROOT,
        env={**os.environ, JOURNAL: str(folder / "journal.jsonl")},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield reports
        assert process.returncode is None, "the worker has ended"
    finally:
        if process.returncode is None:
            await kill(process)


async def main(address: str, task_queue: str, reports: str) -> None:
    def report(blocked: Blocked) -> None:
        with Path(reports).open("a") as file:
            file.write(f"{blocked}\n")

    settings = WorkerSettings(task_queue=task_queue, history_budget=HistoryBudget(events=EVENTS_BUDGET))
    with watching_loops(report):
        await serve(await connect(Address(address)), registry, settings, until=asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
