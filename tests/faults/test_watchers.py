"""Watchers that come and go while workers die: what they have put together in the end is what the run has.

WAKEFUL_FAULT_RUNS=10 WAKEFUL_FAULT_RECONNECTS=200 make faults is a short run; WAKEFUL_FAULT_SEED has others.
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

from tests.faults.subagent_worker import BOUND_SECONDS, MortalWorker
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
        """How often a watcher may go away; a third more than needed, since some runs are over before."""
        return 4 * self.reconnects // (3 * self.runs * WATCHERS) + 1


def work(what: str) -> tuple[str, dict[str, Any]]:
    return "work", {"what": what, "seconds": 0.2}


def plan_of(number: int) -> Plan:
    """Runs of four kinds: with words only, with tools, with approvals, with sub-agents."""
    match number % 4:
        case 0:
            return plan([work("a")], [work("b")], say="words " * 30)
        case 1:
            return plan([work("a"), work("b"), work("c")], [work("d"), work("e")], [work("f")], say="worked")
        case 2:
            return plan([work("a"), ("sign", {"what": "it"})], [("sign", {"what": "that"})], say="signed")
        case _:
            below = plan([work("below")], say="below")
            tasks = [spawn(plan([work(f"task {n}")], [delegate(below)], say=f"task {n}")) for n in range(2)]
            return plan([*tasks, delegate(below)], [work("root"), ("dig", {"where": "here"})], say="root")


@dataclass
class Chances:
    """Who goes away when, over all watchers."""

    chance: random.Random
    reconnects: int = 0

    def leaves(self) -> bool:
        return self.chance.random() < 0.3


@dataclass
class Viewer:
    """Somebody who watches a thread to its end, with interruptions."""

    client: Client
    thread_id: str
    live: bool
    below: bool
    chances: Chances
    may_leave: int
    records: list[EventRecord] = field(default_factory=list)
    foldings: dict[str, Folding] = field(default_factory=lambda: defaultdict(Folding))

    async def watch(self) -> None:
        while not await self._connected():
            self.chances.reconnects += 1
            self.may_leave -= 1
            for folding in self.foldings.values():
                folding.reconnecting()

    async def _connected(self) -> bool:
        """Watch until the end of the thread, or until it pleases to go away, perhaps while nothing comes."""
        after = {thread: folding.after for thread, folding in self.foldings.items()}
        watch = self.client.watch(self.thread_id, after=after, live=self.live, descendants=self.below)
        leaves_soon = self.may_leave > 0 and self.chances.leaves()
        patience = self.chances.chance.uniform(0.05, 1.5) if leaves_soon else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience), aclosing(watch) as records:  # type: ignore[type-var]
                async for record in records:
                    self.records.append(record)
                    self.foldings[record.thread_id].take(record)
                    await self._decide(record)
                    if self.may_leave > 0 and self.chances.leaves():
                        return False
                return True
        return False

    async def _decide(self, record: EventRecord) -> None:
        """Say yes to whatever the run asks, as somebody who watches does; the same decision twice is one."""
        if isinstance(event := record.event, ToolCallDone) and event.outcome is ToolCallOutcome.SUSPENDED:
            decided = self.client.decide(self.thread_id, event.id, "resume", decision_id=event.id)
            with contextlib.suppress(CallerError):  # others saw it sooner, and the run has ended since
                await asyncio.shield(decided)

    async def check(self, stored: dict[str, list[EventRecord]]) -> None:
        """0 lost, 0 doubled, and in order."""
        told = by_thread(self.records)
        assert told.keys() == (stored.keys() if self.below else {self.thread_id})
        for thread, records in told.items():
            kept = stored[thread]
            if not self.live:
                assert records == kept
            seqs = [record.seq for record in records]
            assert seqs == sorted(set(seqs))
            assert without_deltas(records) == without_deltas(kept)
            assert self.foldings[thread].answers == folded(kept).answers
        if self.below:
            check_causal_order(self.records)


def without_deltas(records: Sequence[EventRecord]) -> list[EventRecord]:
    return [record for record in records if record.event.event_type not in DELTAS]


async def watched_run(client: Client, thread_id: str, number: int, chances: Chances, size: Size) -> int:
    """One run with its watchers, each checked in the end; how many records there were."""
    has_children = number % 4 == 3
    await client.start("node", written(plan_of(number)), thread_id=thread_id)
    viewers = [
        Viewer(client, thread_id, live, has_children and live, chances, size.each) for live in (False, True, True)
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
    client, chances = Client(temporal, task_queue=queue), Chances(random.Random(SEED))
    turn, records, began = asyncio.Semaphore(AT_A_TIME), 0, time.monotonic()
    done = 0

    async def one(number: int) -> None:
        nonlocal records, done
        async with turn:
            told = await watched_run(client, f"{queue}-{number}", number, chances, size)
            records += told
            done += 1
            print(f"{done} of {size.runs} runs, {chances.reconnects} reconnects", file=sys.stderr, flush=True)

    kills, mortal = 0, MortalWorker(temporal, queue, Journal(journal), events=60, app="talking_app")
    async with mortal as worker, asyncio.TaskGroup() as group:
        runs = [group.create_task(one(number)) for number in range(size.runs)]
        while kills < size.kills and not all(run.done() for run in runs):
            await worker.die_within(0.5, 6.0)
            kills += 1
    assert kills == size.kills
    assert chances.reconnects >= size.reconnects
    took = time.monotonic() - began
    return (
        f"{size.runs} runs, {WATCHERS} watchers each, {kills} kills, {chances.reconnects} reconnects: "
        f"{records} records, 0 lost, 0 doubled, order kept; {took:.0f} s"
    )


async def test_a_few_watchers_come_and_go_while_a_worker_dies(temporal: TemporalClient, tmp_path: Path) -> None:
    print(await watch_runs(temporal, tmp_path / "journal.jsonl", "few-watched", Size(runs=6, reconnects=60, kills=1)))


@pytest.mark.faults
async def test_watchers_come_and_go_while_workers_die(temporal: TemporalClient, tmp_path: Path) -> None:
    size = Size(RUNS, RECONNECTS, KILLS)
    print(await watch_runs(temporal, tmp_path / "journal.jsonl", "watched", size))
