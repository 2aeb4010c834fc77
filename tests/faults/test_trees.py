"""Random trees of agents that are cancelled at random moments, several at a time: nothing is left open below an end.

WAKEFUL_FAULT_TREES=40 make faults is a short run; WAKEFUL_FAULT_SEED grows other trees.
"""

import asyncio
import contextlib
import os
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from tests.faults.subagent_worker import MortalWorker
from tests.support.journal import Journal
from tests.support.subagent_app import Plan, delegate, holding, plan, registry, send, spawn, written
from tests.support.subagents import answer_of, ends_in_tree, open_in_tree, tools_left
from wakeful.client.client import Client
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.errors import CallerError
from wakeful.contract.names import SIGNAL_CANCEL
from wakeful.worker import WorkerSettings, running_worker

TREES = int(os.environ.get("WAKEFUL_FAULT_TREES", "200"))
SEED = int(os.environ.get("WAKEFUL_FAULT_SEED", "7"))
AT_A_TIME = 4
LEVELS, MOST_NODES, MOST_CHILDREN = 4, 25, 6
FOR_EVER = 300.0

BY_ITSELF = frozenset({"natural", "completed"})
CANCELLED = {"cancelled", "CANCELED"}
"""In words of ours, or in Temporal's where it was cancelled before any worker saw it."""


class Grower:
    """Plans of random trees; those that end by themselves take a few seconds."""

    def __init__(self, chance: random.Random, *, ends: bool) -> None:
        self.chance = chance
        self.ends = ends

    def agent(self, nodes: int, level: int = 1) -> Plan:
        """An agent with so many nodes in its tree, itself among them."""
        calls = [self.child(size, level + 1) for size in self._shares(nodes - 1, level)]
        if not calls or self.chance.random() < 0.4:
            calls.append(holding(self._seconds()))
        if level > 1 and self.chance.random() < 0.2:
            calls.append(send({"relation": "parent"}, "how are you?"))
        if not self.ends and self.chance.random() < 0.1:
            calls.append(("sign", {"what": "it"}))
        turns: list[list[Any]] = [[] for _ in range(self.chance.randint(1, 3))]
        for call in calls:
            self.chance.choice(turns).append(call)
        return plan(*(turn for turn in turns if turn))

    def child(self, nodes: int, level: int) -> tuple[str, dict[str, Any]]:
        kind = self.chance.random()
        if nodes == 1 and kind < 0.2:
            return "linger", {"seconds": self._seconds()}
        if nodes == 1 and kind < 0.3:
            return "dig", {"where": "here", "seconds": self._seconds()}
        below = self.agent(nodes, level)
        return delegate(below) if kind < 0.65 else spawn(below)

    def _shares(self, nodes: int, level: int) -> list[int]:
        """How the nodes below are dealt out to children."""
        if level + 1 >= LEVELS:
            return [1] * nodes
        shares = [1] * min(nodes, self.chance.randint(1, MOST_CHILDREN))
        for _ in range(nodes - len(shares)):
            shares[self.chance.randrange(len(shares))] += 1
        return shares

    def _seconds(self) -> float:
        is_short = self.ends or self.chance.random() < 0.4
        return round(self.chance.uniform(0.1, 2.0), 2) if is_short else FOR_EVER


@dataclass
class Tree:
    """One tree, and what became of it."""

    client: Client
    journal: Journal
    number: int
    ends: frozenset[str] = BY_ITSELF
    """How its nodes may end that nobody cancels."""
    latest: float = 2.0
    """So many seconds after its start somebody is cancelled, or less."""
    bound: float = 15.0
    """So many seconds after the root's end something below it may seem open: the server's list lags behind."""
    how: str = ""
    nodes: int = 0
    problems: list[str] = field(default_factory=list)
    stopping_took: float = 0.0
    closing_took: float = 0.0
    met_a_start: bool = False

    @property
    def root(self) -> str:
        return f"{self.client.task_queue}-{SEED}-{self.number:04}"

    async def live(self) -> None:
        chance = random.Random(f"{SEED} {self.number}")
        whose, by = chance.choice(["root", "root", "inner"]), chance.choice(["signal", "temporal"])
        plans = Grower(chance, ends=whose == "inner").agent(chance.randint(2, MOST_NODES))
        moment = chance.uniform(0.0, self.latest)
        self.how = f"{whose} by {by}"
        await self.client.start("node", written(plans), thread_id=self.root)
        if chance.random() < 0.3:
            with contextlib.suppress(TimeoutError):  # a root that waits for a person first starts none
                async with asyncio.timeout(self.latest):
                    await self._until_a_child_starts()
        else:
            await asyncio.sleep(moment)  # the fault's moment, and no wait for anything
        target = self.root if whose == "root" else await self._somebody_below(chance)
        began = time.monotonic()
        if target is None or not await self._cancel(target, by):
            self.how = f"{whose}, too late"
            target = None
        async with asyncio.timeout(180):
            await self._until_ended(self.root)
        self.stopping_took = time.monotonic() - began if whose == "root" else 0.0
        await self._judge(target)

    async def _until_a_child_starts(self) -> None:
        """Until the root has asked for a child, which may not be there yet, or has ended."""
        while True:
            root = await self.client.handle(self.root).describe()
            if root.raw_description.pending_children or root.status is not WorkflowExecutionStatus.RUNNING:
                return
            await asyncio.sleep(0.002)

    async def _somebody_below(self, chance: random.Random) -> str | None:
        """One that is open, once there is any; nobody if the tree has ended before."""
        while True:
            open = await open_in_tree(self.client, self.root)
            if below := sorted(set(open) - {self.root}):
                return chance.choice(below)
            if await self._has_ended(self.root):
                return None
            await asyncio.sleep(0.02)

    async def _cancel(self, thread_id: str, by: str) -> bool:
        """False if it has ended already."""
        try:
            await (self.client.cancel(thread_id) if by == "signal" else self.client.handle(thread_id).cancel())
        except CallerError:
            return False
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return False
        return True

    async def _has_ended(self, thread_id: str) -> bool:
        return (await self.client.handle(thread_id).describe()).status is not WorkflowExecutionStatus.RUNNING

    async def _until_ended(self, thread_id: str) -> None:
        while not await self._has_ended(thread_id):
            await asyncio.sleep(0.05)

    async def _judge(self, target: str | None) -> None:
        began = time.monotonic()
        while (left := await self._open()) and time.monotonic() - began < self.bound:
            await asyncio.sleep(0.05)
        self.closing_took = time.monotonic() - began
        self._expect(not left, f"still open: {left}")
        if left:
            return
        self._expect(not (tools := tools_left(self.journal, self.root)), f"tools were never stopped: {tools}")
        ends = await ends_in_tree(self.client, self.root)
        self.nodes = len(ends)
        strange = {id: end for id, end in ends.items() if end not in self.ends | CANCELLED}
        self._expect(not strange, f"ended in another way: {strange}")
        if target == self.root:
            await self._judge_root(ends)
        else:
            await self._judge_inner(ends, target)

    async def _open(self) -> list[str]:
        query = f"WorkflowId STARTS_WITH '{self.root}' AND ExecutionStatus = 'Running'"
        return [execution.id async for execution in self.client.temporal.list_workflows(query)]

    async def _judge_root(self, ends: dict[str, str]) -> None:
        if ends[self.root] != "cancelled":
            self.how = f"root, ended: {ends[self.root]}"
            return
        receipt = (await self.client.result(self.root)).receipt
        named = sorted(receipt.cancelled) if receipt else []
        cancelled = sorted(id for id, end in ends.items() if end in CANCELLED and id != self.root)
        self.met_a_start = await self._was_starting_a_child()
        self._expect(named == cancelled, f"the receipt names {named}, and cancelled are {cancelled}")

    async def _was_starting_a_child(self) -> bool:
        """Whether the cancel came when the root had asked for a child and not heard yet that it was there."""
        starting: set[int] = set()
        async for event in self.client.handle(self.root).fetch_history_events():
            match event.event_type:
                case EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
                    starting.add(event.event_id)
                case EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED:
                    starting.discard(event.child_workflow_execution_started_event_attributes.initiated_event_id)
                case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
                    return bool(starting)
                case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
                    if event.workflow_execution_signaled_event_attributes.signal_name == SIGNAL_CANCEL:
                        return bool(starting)
                case _:
                    pass
        return False

    async def _judge_inner(self, ends: dict[str, str], target: str | None) -> None:
        """The rest goes on, and whoever started the cancelled one has heard of it, once."""
        rest = {id: end for id, end in ends.items() if not (target and f"{id}/".startswith(f"{target}/"))}
        stopped = {id: end for id, end in rest.items() if end not in self.ends}
        self._expect(not stopped, f"{target} was cancelled, and so are {stopped}")
        if target is None or ends[target] in self.ends:
            self.how = "inner, too late"
            return
        told = answer_of(await self.client.result(target.rpartition("/")[0]))
        heard = [event for event in told["events"] if event["kind"] != "custom" and "cancelled" in str(event)]
        heard += [text for text in told["results"] if "cancelled" in text]
        self._expect(len(heard) == 1, f"of {target} ({ends[target]}) its parent heard {heard}")

    def _expect(self, met: bool, problem: str) -> None:
        if not met:
            self.problems.append(f"{self.root} ({self.how}): {problem}")


async def live_and_tell(trees: list[Tree]) -> None:
    """Let the trees live, several at a time; fails with everything that went wrong, after the last of them."""
    turn = asyncio.Semaphore(AT_A_TIME)

    async def live(tree: Tree) -> None:
        async with turn:
            try:
                await tree.live()
            except Exception as error:
                tree.problems.append(f"{tree.root} ({tree.how}): {error!r}")
            for problem in tree.problems:
                print(problem, file=sys.stderr, flush=True)

    await asyncio.gather(*map(live, trees))
    slowest = max(trees, key=lambda tree: tree.stopping_took)
    print(
        f"{len(trees)} trees of {sum(tree.nodes for tree in trees)} nodes; "
        f"{dict(Counter(tree.how for tree in trees))}; "
        f"{sum(tree.met_a_start for tree in trees)} roots were just starting children; "
        f"to stop took {slowest.root} {slowest.stopping_took:.1f} s, "
        f"and any tree up to {max(tree.closing_took for tree in trees):.1f} s more until nothing was open"
    )
    assert [problem for tree in trees for problem in tree.problems] == []


@pytest.mark.faults
async def test_nothing_outlives_a_cancelled_tree(temporal: TemporalClient, journal: Journal) -> None:
    """I-10; every third tree continues as new all the time."""
    sweep = timedelta(seconds=1)
    usual = WorkerSettings(task_queue="trees", sweep_interval=sweep)
    restless = WorkerSettings(task_queue="restless", sweep_interval=sweep, history_budget=HistoryBudget(events=1))
    clients = [Client(temporal, task_queue=settings.task_queue) for settings in (usual, usual, restless)]
    async with running_worker(temporal, registry, usual), running_worker(temporal, registry, restless):
        await live_and_tell([Tree(clients[number % 3], journal, number) for number in range(TREES)])


@pytest.mark.faults
@pytest.mark.parametrize("events", [2000, 1], ids=["usual", "restless"])
async def test_nothing_outlives_a_cancelled_tree_whose_worker_dies(
    temporal: TemporalClient, tmp_path: Path, events: int
) -> None:
    """I-10; a tool that dies with its worker writes nothing down, and a background one has then failed.

    A node that dies between its last word and its end takes a workflow task's timeout to end.
    """
    client = Client(temporal, task_queue=f"mortal-{events}")
    journal, unwritten = Journal(tmp_path / "journal.jsonl"), Journal(tmp_path / "unwritten.jsonl")
    ends = BY_ITSELF | {"failed"}
    trees = [Tree(client, unwritten, number, ends, latest=6.0, bound=60.0) for number in range(TREES // 4)]
    async with MortalWorker(temporal, client.task_queue, journal, events=events) as worker:
        living = asyncio.create_task(live_and_tell(trees))
        kills = 0
        while not living.done():
            await worker.die_within(1, 4)
            kills += 1
        print(f"{kills} kills")
        await living
