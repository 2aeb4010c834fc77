"""Metrics that a scraper reads of workers under kill -9: at most one workflow task of each run in flight is miscounted.

WAKEFUL_SCRAPED_RUNS and WAKEFUL_SCRAPED_KILLS set the length.
"""

import asyncio
import os
import re
import urllib.request
from collections import Counter
from pathlib import Path

import pytest

from tests.support.processes import kill, worker_process
from wakeful import Client, RunStatus
from wakeful.connection import EmbeddedServer, free_port
from wakeful.contract.events import RunFinish, StepEnd
from wakeful.telemetry import instruments

RUNS = int(os.environ.get("WAKEFUL_SCRAPED_RUNS", "200"))
KILLS = int(os.environ.get("WAKEFUL_SCRAPED_KILLS", "4"))
IN_FLIGHT = 10
INPUTS = ("add", "hello", "explode exception", "count")

COUNTED = {"runs": instruments.RUNS_ENDED, "steps": instruments.STEPS}


class Scraper:
    """Reads a worker's page again and again. What a killed worker last showed counts."""

    def __init__(self) -> None:
        self._last: dict[int, Counter[str]] = {}

    async def scrape(self, port: int) -> None:
        while True:
            try:
                page = await asyncio.to_thread(_read, port)
            except OSError:  # it is starting, or was killed
                await asyncio.sleep(0.05)
                continue
            self._last[port] = Counter({name: _total(page, each.name) for name, each in COUNTED.items()})
            await asyncio.sleep(0.02)

    @property
    def counted(self) -> Counter[str]:
        return sum(self._last.values(), Counter[str]())


def _read(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
        content: bytes = page.read()
    return content.decode()


def _total(page: str, name: str) -> int:
    samples = re.findall(rf"^{name.replace('.', '_')}_total(?:\{{.*\}})? (\S+)$", page, re.MULTILINE)
    return int(sum(map(float, samples)))


async def in_histories(client: Client, threads: list[str]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for thread in threads:
        async for record in client.watch(thread):
            match record.event:
                case RunFinish(result=result) if result and result.status is RunStatus.DONE:
                    counted["runs"] += 1
                case StepEnd():
                    counted["steps"] += 1
                case _:
                    pass
    return counted


@pytest.mark.faults
@pytest.mark.parametrize("kills", [0, KILLS])
async def test_scraped_metrics_equal_the_histories_but_for_tasks_that_a_kill_interrupted(
    server: EmbeddedServer, tmp_path: Path, thread_id: str, kills: int
) -> None:
    """B-841"""
    threads = [f"{thread_id}-{number}" for number in range(RUNS)]
    limit, scraper, ended = asyncio.Semaphore(IN_FLIGHT), Scraper(), 0
    client = Client(server.client, task_queue=thread_id)

    async def limited(number: int) -> None:
        nonlocal ended
        async with limit:
            thread, input = threads[number], INPUTS[number % len(INPUTS)]
            await client.start("tester", input, thread_id=thread, on_error="complete")
            await client.result(thread)
            ended += 1

    running = asyncio.gather(*map(limited, range(RUNS)))
    async with asyncio.timeout(1200):
        for life in range(kills + 1):
            port = free_port()
            options = ("--metrics", str(port))
            async with worker_process(server.address, thread_id, tmp_path / f"journal-{life}", *options) as worker:
                scraping = asyncio.create_task(scraper.scrape(port))
                enough = RUNS * (life + 1) // (kills + 1)
                while ended < enough and not running.done():
                    await asyncio.sleep(0.01)
                if life < kills:
                    await kill(worker)
                else:
                    await running
                    await asyncio.sleep(1)  # the last scrape: nothing more is counted
                scraping.cancel()
    counted = await in_histories(client, threads)
    assert counted["runs"] == RUNS
    print(f"\n{kills} kills: scraped {dict(scraper.counted)}, in histories {dict(counted)}")
    for name in COUNTED:
        assert abs(scraper.counted[name] - counted[name]) <= kills * IN_FLIGHT, name
