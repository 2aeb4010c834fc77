"""Delegations to a remote agent, whose worker is killed with -9 at random moments: the service gets each message once.

The service is a2a-sdk's own server, which streams or not, or one of ours: another deployment, on another task queue.

WAKEFUL_FAULT_KILLS=3 make faults is a short run.
"""

import asyncio
import contextlib
import os
import random
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pytest
from temporalio.client import Client as TemporalClient

from tests.a2a.conftest import serving
from tests.support.a2a_peer import Entry, running_peer
from tests.support.processes import ROOT, kill
from wakeful import Agent, ModelRequest, ModelResponse, Registry
from wakeful.client.client import Client
from wakeful.worker import WorkerSettings, running_worker

KILLS = int(os.environ.get("WAKEFUL_FAULT_KILLS", "50"))
"""Of each kind of server."""
AT_ONCE = 6
"""Delegations that each kill hits, in whatever they do at that moment."""
BOUND_SECONDS = 240
QUEUE = "remote-delegation"


@dataclass(frozen=True)
class Seen:
    """A message that the service got."""

    text: str


class Service(Protocol):
    """A service that records every message that it gets."""

    @property
    def url(self) -> str: ...

    @property
    def ledger(self) -> Sequence[Seen | Entry]: ...


@dataclass
class OwnService:
    """A deployment of ours, whose agent does what the messages `later SECONDS TEXT` say."""

    url: str = ""
    ledger: list[Seen] = field(default_factory=list)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        said = request.messages[-1].text
        self.ledger.append(Seen(said))
        _, seconds, text = said.split(" ", 2)
        await asyncio.sleep(float(seconds))  # the work that it does
        return ModelResponse(model=request.model, text=text)


@contextlib.asynccontextmanager
async def own_service(temporal: TemporalClient) -> AsyncIterator[OwnService]:
    service, client = OwnService(), Client(temporal, task_queue=f"{QUEUE}-own")
    registry = Registry(agents=[Agent(id="worker")], models={"default": service})
    async with (
        serving(client, agents={"worker": "Works."}) as service.url,
        running_worker(temporal, registry, WorkerSettings(task_queue=client.task_queue, sweep_interval=None)),
    ):
        yield service


@contextlib.asynccontextmanager
async def worker(temporal: TemporalClient, peer: Service) -> AsyncIterator[asyncio.subprocess.Process]:
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
@pytest.mark.parametrize("kind", ["streams", "polled", "own"])
async def test_a_killed_worker_costs_neither_a_second_task_nor_a_result(temporal: TemporalClient, kind: str) -> None:
    rng, client = random.Random(21), Client(temporal, task_queue=QUEUE)
    kills = KILLS if kind == "own" else KILLS // 2
    running: contextlib.AbstractAsyncContextManager[Service]
    running = own_service(temporal) if kind == "own" else running_peer(streams=kind == "streams")
    async with running as peer:
        for number in range(kills):
            threads = [f"{QUEUE}-{kind}-{number}-{n}" for n in range(AT_ONCE)]
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
            print(f"{kind}: kill {number + 1} of {kills}", file=sys.stderr, flush=True)


async def _first_message(peer: Service, threads: list[str]) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        while not any(thread in entry.text for entry in peer.ledger for thread in threads):
            await asyncio.sleep(0.005)
