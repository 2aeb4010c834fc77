"""Watchers that disconnect and reconnect while workers are killed: each ends with exactly the events of its run.

WAKEFUL_FAULT_RUNS=10 WAKEFUL_FAULT_RECONNECTS=200 make faults is a short run; WAKEFUL_FAULT_SEED makes another one.
"""

import asyncio
import contextlib
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client as TemporalClient

from tests.faults.subagent_worker import BOUND_SECONDS, KilledWorker
from tests.support.folding import Folding, folded
from tests.support.journal import Journal
from tests.support.subagent_app import Plan, delegate, plan, spawn, written
from tests.support.watched import by_thread, check_causal_order
from wakeful.client.client import Client
from wakeful.contract.errors import CallerError
from wakeful.contract.events import EventRecord, RunFinish, ToolCallDone, ToolCallOutcome

RUNS = int(os.environ.get("WAKEFUL_FAULT_RUNS", "50"))
RECONNECTS = int(os.environ.get("WAKEFUL_FAULT_RECONNECTS", "1000"))
KILLS = int(os.environ.get("WAKEFUL_FAULT_KILLS", "20"))
SEED = int(os.environ.get("WAKEFUL_FAULT_SEED", "7"))
AT_A_TIME = 6
WATCHERS = 3
DELTAS = frozenset({"text_delta", "reasoning_delta", "tool_call_start", "tool_call_delta"})


@dataclass(frozen=True)
class Size:
    runs: int
    reconnects: int
    kills: int

    @property
    def each(self) -> int:
        """How often a watcher may disconnect; a third more than needed, since some runs end before."""
        return 4 * self.reconnects // (3 * self.runs * WATCHERS) + 1


def work(what: str) -> tuple[str, dict[str, Any]]:
    return "work", {"what": what, "seconds": 0.2}


def plan_of(number: int) -> Plan:
    """Four kinds of runs: mostly text, many tools, approvals, and sub-agents."""
    match number % 4:
        case 0:
            return plan([work("a")], [work("b")], say="words " * 30)
        case 1:
            return plan([work("a"), work("b"), work("c")], [work("d"), work("e")], [work("f")], say="worked")
        case 2:
            return plan([work("a"), ("sign", {"what": "it"})], [("sign", {"what": "that"})], say="signed")
        case _:
            child = plan([work("child")], say="child")
            delegated = delegate(child, "talking")
            tasks = [spawn(plan([work(f"task {n}")], [delegated], say=f"task {n}"), "talking") for n in range(2)]
            return plan([*tasks, delegated], [work("root"), ("dig", {"where": "here"})], say="root")


@dataclass
class Disconnects:
    """Decides when watchers disconnect, and counts how often they reconnect."""

    rng: random.Random
    reconnects: int = 0

    def is_now(self) -> bool:
        return self.rng.random() < 0.3


@dataclass
class Viewer:
    """Watches a thread to its end and disconnects at random moments."""

    client: Client
    thread_id: str
    live: bool
    descendants: bool
    disconnects: Disconnects
    disconnects_left: int
    records: list[EventRecord] = field(default_factory=list)
    foldings: dict[str, Folding] = field(default_factory=lambda: defaultdict(Folding))

    async def watch(self) -> None:
        while not await self._watch_once():
            self.disconnects.reconnects += 1
            self.disconnects_left -= 1
            for folding in self.foldings.values():
                folding.reconnecting()

    async def _watch_once(self) -> bool:
        """Watch until the thread ends, or until it is time to disconnect, perhaps while no event arrives."""
        after = {thread: folding.after for thread, folding in self.foldings.items()}
        watch = self.client.watch(self.thread_id, after=after, live=self.live, descendants=self.descendants)
        times_out = self.disconnects_left > 0 and self.disconnects.is_now()
        patience = self.disconnects.rng.uniform(0.05, 1.5) if times_out else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience), aclosing(watch) as records:  # type: ignore[type-var]
                async for record in records:
                    self.records.append(record)
                    self.foldings[record.thread_id].take(record)
                    await self._decide(record)
                    if self.disconnects_left > 0 and self.disconnects.is_now():
                        return False
                return True
        return False

    async def _decide(self, record: EventRecord) -> None:
        """Resume every suspended call; all watchers send the same decision id, so that one decision counts."""
        if isinstance(event := record.event, ToolCallDone) and event.outcome is ToolCallOutcome.SUSPENDED:
            deciding = self.client.decide(self.thread_id, event.id, "resume", decision_id=event.id)
            with contextlib.suppress(CallerError):  # another watcher decided before, and the run has ended
                await asyncio.shield(deciding)

    async def check(self, stored: dict[str, list[EventRecord]]) -> None:
        """No event is lost or duplicated, and all are in order."""
        seen = by_thread(self.records)
        assert seen.keys() == (stored.keys() if self.descendants else {self.thread_id})
        for thread, records in seen.items():
            expected = stored[thread]
            if not self.live:
                assert records == expected
            seqs = [record.seq for record in records]
            assert seqs == sorted(set(seqs))
            assert without_deltas(records) == without_deltas(expected)
            assert self.foldings[thread].answers == folded(expected).answers
        if self.descendants:
            check_causal_order(self.records)


def without_deltas(records: Sequence[EventRecord]) -> list[EventRecord]:
    return [record for record in records if record.event.event_type not in DELTAS]


async def watched_run(client: Client, thread_id: str, number: int, disconnects: Disconnects, size: Size) -> int:
    """Run one thread with its watchers and check each of them; returns the number of records."""
    has_children = number % 4 == 3
    await client.start("talking", written(plan_of(number)), thread_id=thread_id, live=number % 2 == 0)
    viewers = [
        Viewer(client, thread_id, live, has_children and live, disconnects, size.each) for live in (False, True, True)
    ]
    async with asyncio.timeout(BOUND_SECONDS), asyncio.TaskGroup() as group:
        for viewer in viewers:
            group.create_task(viewer.watch())
    threads = {record.thread_id for viewer in viewers for record in viewer.records}
    stored = {thread: [record async for record in client.watch(thread)] for thread in threads}
    assert isinstance(stored[thread_id][-1].event, RunFinish)
    for viewer in viewers:
        await viewer.check(stored)
    return sum(len(records) for records in stored.values())


async def watch_runs(temporal: TemporalClient, journal: Path, queue: str, size: Size) -> str:
    client, disconnects = Client(temporal, task_queue=queue), Disconnects(random.Random(SEED))
    slots, records, began = asyncio.Semaphore(AT_A_TIME), 0, time.monotonic()
    done = 0

    async def one(number: int) -> None:
        nonlocal records, done
        async with slots:
            found = await watched_run(client, f"{queue}-{number}", number, disconnects, size)
            records += found  # after the await: `+=` reads the old value first
            done += 1
            print(f"{done} of {size.runs} runs, {disconnects.reconnects} reconnects", file=sys.stderr, flush=True)

    kills, killed = 0, KilledWorker(temporal, queue, Journal(journal), events=60)
    async with killed as worker, asyncio.TaskGroup() as group:
        runs = [group.create_task(one(number)) for number in range(size.runs)]
        while kills < size.kills and not all(run.done() for run in runs):
            await worker.kill_after(0.5, 6.0)
            kills += 1
    assert kills == size.kills
    assert disconnects.reconnects >= size.reconnects
    took = time.monotonic() - began
    return (
        f"{size.runs} runs, {WATCHERS} watchers each, {kills} kills, {disconnects.reconnects} reconnects: "
        f"{records} records, 0 lost, 0 duplicated, all in order; {took:.0f} s"
    )


@pytest.mark.faults
async def test_watchers_reconnect_while_workers_are_killed(temporal: TemporalClient, tmp_path: Path) -> None:
    size = Size(RUNS, RECONNECTS, KILLS)
    print(await watch_runs(temporal, tmp_path / "journal.jsonl", "watched", size))
