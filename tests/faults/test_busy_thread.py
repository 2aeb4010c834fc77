"""A hundred readers, watchers and askers of one busy thread block no event loop, of their process and of the worker.

WAKEFUL_BUSY_SECONDS=30 make faults is a short run.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest
from temporalio.client import Client as TemporalClient

from tests.faults.watched_worker import watched_worker
from tests.support.blocked_loops import Blocked, watching_loops
from wakeful.client.client import Client

SECONDS = float(os.environ.get("WAKEFUL_BUSY_SECONDS", "300"))
EACH = {"read": 40, "watch": 30, "ask": 30}
OPERATION_SECONDS = 180
"""The limit of one read, one look of a watcher, and one ask, behind all others that the thread has to answer."""
LOOK_RECORDS = 200

THREAD = "busy-thread"


class Crowd:
    """Uses one thread in every way until the time is over."""

    def __init__(self, client: Client, seconds: float) -> None:
        self.done: Counter[tuple[str, int]] = Counter()
        self._client = client
        self._seen: Counter[int] = Counter()
        self._until = time.monotonic() + seconds

    async def use(self, kind: str, number: int) -> None:
        use: Callable[[int], Awaitable[None]] = getattr(self, f"_{kind}")
        while time.monotonic() < self._until:
            async with asyncio.timeout(OPERATION_SECONDS):
                await use(number)
            self.done[kind, number] += 1

    async def _read(self, number: int) -> None:
        client = self._client
        reads = (client.status, client.transcript, client.events, client.queued, client.tree, client.state, client.why)
        await reads[number % len(reads)](THREAD)

    async def _watch(self, number: int) -> None:
        """Watch some records: every second watcher begins anew each time, the others follow the thread."""
        after, seen = 0 if number % 2 else self._seen[number], 0
        watch = self._client.watch(THREAD, after=after, live=number % 3 == 0)
        async with aclosing(watch) as records:  # type: ignore[type-var]
            async for record in records:
                self._seen[number], seen = max(self._seen[number], record.seq), seen + 1
                if seen == LOOK_RECORDS:
                    return

    async def _ask(self, number: int) -> None:
        text = f"message {self.done['ask', number]} of {number}"
        answer = await self._client.ask(THREAD, text)
        assert answer.text == f"answer to {text}"


@pytest.mark.faults
async def test_a_hundred_readers_watchers_and_askers_of_one_busy_thread_block_no_event_loop(
    temporal: TemporalClient, tmp_path: Path
) -> None:
    blocked: list[Blocked] = []
    async with watched_worker(temporal, THREAD, tmp_path) as reports, Client(temporal, task_queue=THREAD) as client:
        await client.ask(THREAD, "first", agent_id="marker")
        crowd, began = Crowd(client, SECONDS), time.monotonic()
        with watching_loops(blocked.append):
            async with asyncio.TaskGroup() as group:
                for kind, count in EACH.items():
                    for number in range(count):
                        group.create_task(crowd.use(kind, number))
        took = time.monotonic() - began
    done = {kind: [crowd.done[kind, number] for number in range(count)] for kind, count in EACH.items()}
    counted = ", ".join(f"{kind} {sum(each)} times (each at least {min(each)})" for kind, each in done.items())
    print(f"{sum(EACH.values())} users of one thread for {took:.0f} s: {counted}")
    assert blocked == []
    assert reports.read_text() == ""
    assert all(min(each) > 0 for each in done.values())
