"""Calls of MCP tools on workers that are killed with -9: what must not run twice does not, and runs read one result.

WAKEFUL_FAULT_KILLS=5 make faults is a short run.
"""

import asyncio
import os
from collections import Counter
from pathlib import Path

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.mcp_app import DESK_JOURNAL, calling
from tests.support.processes import kill, worker_process
from wakeful.client.client import Client
from wakeful.contract.messages import Role

KILLS = int(os.environ.get("WAKEFUL_FAULT_KILLS", "50"))
AT_ONCE = 10
BOUND_SECONDS = 1800
APP = "tests.support.mcp_app:registry"


@pytest.mark.faults
async def test_a_tool_runs_once_unless_it_is_idempotent_however_often_its_worker_is_killed(
    temporal: TemporalClient, thread_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-830: every kill hits calls of both kinds, at another moment of their lives."""
    ledger = tmp_path / "ledger"
    ledger.touch()
    monkeypatch.setenv(DESK_JOURNAL, str(ledger))
    monkeypatch.setenv("DESK_HEARTBEAT", "5")
    client = Client(temporal, task_queue=thread_id)
    address = temporal.service_client.config.target_host
    threads = [f"{thread_id}-{number}" for number in range(KILLS)]
    for number, thread in enumerate(threads):
        if number % AT_ONCE == 0 and number:
            await settled(client, address, thread_id, tmp_path, threads[number - AT_ONCE : number])
        turn = [(tool, {"text": f"{thread}", "seconds": 1.5}) for tool in ("note", "put")]
        await client.start("clerk", calling(turn), thread_id=thread)
        async with worker_process(address, thread_id, tmp_path / "journal", app=APP) as worker:
            if number % 2:
                await until_begun(ledger, thread)
            await asyncio.sleep(number % 10 * 0.2)  # not a wait for anything: kills at ten moments
            await kill(worker)
    await settled(client, address, thread_id, tmp_path, threads[-AT_ONCE:])
    ran = Counter(ledger.read_text().splitlines())
    once, unknown, repeated = 0, 0, 0
    for thread in threads:
        noted, put = [each.text for each in await client.transcript(thread) if each.role is Role.TOOL]
        assert ran[f"note {thread}"] <= 1
        assert put == f"put {thread}"
        assert noted == f"noted {thread}" or noted.startswith("outcome unknown")
        once += noted == f"noted {thread}"
        unknown += noted.startswith("outcome unknown")
        repeated += ran[f"put {thread}"] > 1
    print(f"{KILLS} kills: {once} ran once, {unknown} are unknown; {repeated} idempotent calls ran more than once")


async def until_begun(ledger: Path, thread: str) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        while f"{thread}\n" not in ledger.read_text():
            await asyncio.sleep(0.05)


async def settled(client: Client, address: str, queue: str, folder: Path, threads: list[str]) -> None:
    """Let a worker bring these threads to their ends."""
    async with worker_process(address, queue, folder / "journal", app=APP), asyncio.timeout(BOUND_SECONDS):
        for thread in threads:
            await client.result(thread)
