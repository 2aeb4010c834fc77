"""Delegations to a remote agent, whose worker is killed with -9 at random moments: the service gets each message once.

WAKEFUL_FAULT_KILLS=3 make faults is a short run.
"""

import asyncio
import contextlib
import os
import random
import sys
from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.a2a_peer import Peer, running_peer
from tests.support.processes import ROOT, kill
from wakeful.client.client import Client

KILLS = int(os.environ.get("WAKEFUL_FAULT_KILLS", "50"))
"""Half of them for a service that streams."""
AT_ONCE = 6
"""Delegations that each kill hits, in whatever they do at that moment."""
BOUND_SECONDS = 240
QUEUE = "remote-delegation"


@contextlib.asynccontextmanager
async def worker(temporal: TemporalClient, peer: Peer) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.remote_worker"),
        *(temporal.service_client.config.target_host, QUEUE, peer.url),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(BOUND_SECONDS):
            assert b"task queue" in await process.stdout.readline()
        yield process
    finally:
        if process.returncode is None:
            await kill(process)


@pytest.mark.faults
@pytest.mark.parametrize("streams", [True, False], ids=["streams", "polled"])
async def test_a_killed_worker_costs_neither_a_second_task_nor_a_result(
    temporal: TemporalClient, streams: bool
) -> None:
    rng, client = random.Random(21), Client(temporal, task_queue=QUEUE)
    async with running_peer(streams=streams) as peer:
        for number in range(KILLS // 2):
            threads = [f"{QUEUE}-{streams}-{number}-{n}" for n in range(AT_ONCE)]
            async with worker(temporal, peer) as process:
                for thread in threads:
                    seconds = rng.choice([0.0, 0.1, 0.5, 2.0])
                    await client.start("local", f"later {seconds} {thread}", thread_id=thread)
                if rng.random() < 0.8:  # else it may be killed before that
                    await _first_message(peer, threads)
                await asyncio.sleep(rng.uniform(0, 1.5))  # a random moment, not a wait for a condition
                await kill(process)
            async with worker(temporal, peer), asyncio.timeout(BOUND_SECONDS):
                results = await asyncio.gather(*(client.result(thread) for thread in threads))
            for thread, result in zip(threads, results, strict=True):
                seen = [entry for entry in peer.ledger if thread in entry.text]
                assert len(seen) == 1, f"{thread}: the service got {len(seen)} messages"
                assert result.response.count(thread) == 1, f"{thread} ended with {result.response!r}"
            print(f"kill {number + 1} of {KILLS // 2}", file=sys.stderr, flush=True)


async def _first_message(peer: Peer, threads: list[str]) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        while not any(thread in entry.text for entry in peer.ledger for thread in threads):
            await asyncio.sleep(0.005)
