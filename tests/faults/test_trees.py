"""Random trees of agents that are cancelled at random moments: no descendant stays open after its root has ended.

WAKEFUL_FAULT_TREES=40 make faults is a short run; WAKEFUL_FAULT_SEED makes other trees.
"""

import asyncio
import contextlib
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from tests.faults.subagent_worker import BOUND_SECONDS, KilledWorker
from tests.support.journal import Journal
from tests.support.subagent_app import Plan, delegate, holding, plan, registry, send, spawn, written
from tests.support.subagents import answer_of, ends_in_tree, open_in_tree, tools_left
from wakeful.client.client import Client
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.errors import CallerError
from wakeful.contract.names import SIGNAL_CANCEL, SIGNAL_CLOSE
from wakeful.worker import WorkerSettings, running_worker

TREES = int(os.environ.get("WAKEFUL_FAULT_TREES", "200"))
SEED = int(os.environ.get("WAKEFUL_FAULT_SEED", "7"))
AT_A_TIME = 4
LEVELS, MOST_NODES, MOST_CHILDREN = 4, 25, 6
NEVER_ENDS = 300.0

UNDISTURBED = frozenset({"natural", "completed"})
CANCELS: dict[str, Callable[[Client, str], Awaitable[None]]] = {
    "cancel": lambda client, thread_id: client.cancel(thread_id),
    "close": lambda client, thread_id: client.close(thread_id),
    "temporal": lambda client, thread_id: client.handle(thread_id).cancel(),
}
"""Two signals, and Temporal's own cancellation."""
CANCELLED = {"cancelled", "CANCELED"}
"""The run's own reason, or Temporal's status if the workflow was cancelled before a worker had started it."""


class PlanGenerator:
    """Generates plans of random trees; with `ends`, a tree ends by itself after a few seconds."""

    def __init__(self, rng: random.Random, *, ends: bool) -> None:
        self.rng = rng
        self.ends = ends

    def agent(self, nodes: int, level: int = 1) -> Plan:
        """The plan of an agent whose tree has this many nodes, itself included."""
        calls = [self.child(size, level + 1) for size in self._shares(nodes - 1, level)]
        if not calls or self.rng.random() < 0.4:
            calls.append(holding(self._seconds()))
        if level > 1 and self.rng.random() < 0.2:
            calls.append(send({"relation": "parent"}, "how are you?"))
        if not self.ends and self.rng.random() < 0.1:
            calls.append(("sign", {"what": "it"}))
        turns: list[list[Any]] = [[] for _ in range(self.rng.randint(1, 3))]
        for call in calls:
            self.rng.choice(turns).append(call)
        return plan(*(turn for turn in turns if turn))

    def child(self, nodes: int, level: int) -> tuple[str, dict[str, Any]]:
        kind = self.rng.random()
        if nodes == 1 and kind < 0.2:
            return "linger", {"seconds": self._seconds()}
        if nodes == 1 and kind < 0.3:
            return "dig", {"where": "here", "seconds": self._seconds()}
        child = self.agent(nodes, level)
        return delegate(child) if kind < 0.65 else spawn(child)

    def _shares(self, nodes: int, level: int) -> list[int]:
        """How many of the nodes each child gets."""
        if level + 1 >= LEVELS:
            return [1] * nodes
        shares = [1] * min(nodes, self.rng.randint(1, MOST_CHILDREN))
        for _ in range(nodes - len(shares)):
            shares[self.rng.randrange(len(shares))] += 1
        return shares

    def _seconds(self) -> float:
        is_short = self.ends or self.rng.random() < 0.4
        return round(self.rng.uniform(0.1, 2.0), 2) if is_short else NEVER_ENDS


@dataclass
class Tree:
    """Runs one tree, cancels a node of it, and records what is wrong afterwards."""

    client: Client
    journal: Journal
    number: int
    ends: frozenset[str] = UNDISTURBED
    """How nodes may end that were not cancelled."""
    latest: float = 2.0
    """A node is cancelled within this many seconds after the start."""
    bound: float = 15.0
    """How many seconds after the root's end descendants may seem open: the server's lists lag behind."""
    how: str = ""
    nodes: int = 0
    problems: list[str] = field(default_factory=list)
    stopping_took: float = 0.0
    closing_took: float = 0.0
    hit_a_start: bool = False

    @property
    def root(self) -> str:
        return f"{self.client.task_queue}-{SEED}-{self.number:04}"

    async def run(self) -> None:
        rng = random.Random(f"{SEED} {self.number}")
        whose, by = rng.choice(["root", "root", "inner"]), rng.choice(list(CANCELS))
        plans = PlanGenerator(rng, ends=whose == "inner").agent(rng.randint(2, MOST_NODES))
        moment = rng.uniform(0.0, self.latest)
        self.how = f"{whose} by {by}"
        await self.client.start("node", written(plans), thread_id=self.root)
        if rng.random() < 0.3:
            with contextlib.suppress(TimeoutError):  # a root that first waits for a decision starts no child
                async with asyncio.timeout(self.latest):
                    await self._until_a_child_starts()
        else:
            await asyncio.sleep(moment)  # a random moment, not a wait for a condition
        target = self.root if whose == "root" else await self._open_descendant(rng)
        began = time.monotonic()
        if target is None or not await self._cancel(target, by):
            self.how = f"{whose}, too late"
            target = None
        async with asyncio.timeout(BOUND_SECONDS):
            await self._until_ended(self.root)
        self.stopping_took = time.monotonic() - began if whose == "root" else 0.0
        await self._check(target)

    async def _until_a_child_starts(self) -> None:
        """Wait until the root has initiated a child, which may not have started yet, or has ended."""
        while True:
            root = await self.client.handle(self.root).describe()
            if root.raw_description.pending_children or root.status is not WorkflowExecutionStatus.RUNNING:
                return
            await asyncio.sleep(0.002)

    async def _open_descendant(self, rng: random.Random) -> str | None:
        """Wait for an open descendant and choose one; None if the root ends first."""
        while True:
            open = await open_in_tree(self.client, self.root)
            if descendants := sorted(set(open) - {self.root}):
                return rng.choice(descendants)
            if await self._has_ended(self.root):
                return None
            await asyncio.sleep(0.02)

    async def _cancel(self, thread_id: str, by: str) -> bool:
        """False if the thread had already ended."""
        try:
            await CANCELS[by](self.client, thread_id)
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

    async def _check(self, target: str | None) -> None:
        began = time.monotonic()
        while (left := await self._open()) and time.monotonic() - began < self.bound:
            await asyncio.sleep(0.05)
        self.closing_took = time.monotonic() - began
        self._expect(not left, f"still open: {left}")
        if left:
            return
        self._expect(not (tools := tools_left(self.journal, self.root)), f"tools still run: {tools}")
        ends = await ends_in_tree(self.client, self.root)
        self.nodes = len(ends)
        strange = {id: end for id, end in ends.items() if end not in self.ends | CANCELLED}
        self._expect(not strange, f"unexpected ends: {strange}")
        if target == self.root:
            await self._check_root(ends)
        else:
            await self._check_inner(ends, target)

    async def _open(self) -> list[str]:
        query = f"WorkflowId STARTS_WITH '{self.root}' AND ExecutionStatus = 'Running'"
        return [execution.id async for execution in self.client.temporal.list_workflows(query)]

    async def _check_root(self, ends: dict[str, str]) -> None:
        if ends[self.root] != "cancelled":
            self.how = f"root, ended: {ends[self.root]}"
            return
        receipt = (await self.client.result(self.root)).receipt
        named = sorted(receipt.cancelled) if receipt else []
        cancelled = sorted(id for id, end in ends.items() if end in CANCELLED and id != self.root)
        self.hit_a_start = await self._was_starting_a_child()
        self._expect(named == cancelled, f"the receipt names {named}, but {cancelled} were cancelled")

    async def _was_starting_a_child(self) -> bool:
        """Whether the cancel arrived after the root had initiated a child and before that child had started."""
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
                    if event.workflow_execution_signaled_event_attributes.signal_name in (SIGNAL_CANCEL, SIGNAL_CLOSE):
                        return bool(starting)
                case _:
                    pass
        return False

    async def _check_inner(self, ends: dict[str, str], target: str | None) -> None:
        """The rest of the tree is not cancelled, and the parent of the cancelled node has read of that once."""
        rest = {id: end for id, end in ends.items() if not (target and f"{id}/".startswith(f"{target}/"))}
        stopped = {id: end for id, end in rest.items() if end not in self.ends}
        self._expect(not stopped, f"{target} was cancelled, and so were {stopped}")
        if target is None or ends[target] in self.ends:
            self.how = "inner, too late"
            return
        answer = answer_of(await self.client.result(target.rpartition("/")[0]))
        reports = [event for event in answer["events"] if event["kind"] != "custom" and "cancelled" in str(event)]
        reports += [text for text in answer["results"] if "cancelled" in text]
        self._expect(len(reports) == 1, f"the parent of {target} ({ends[target]}) has read {reports}")

    def _expect(self, met: bool, problem: str) -> None:
        if not met:
            self.problems.append(f"{self.root} ({self.how}): {problem}")


async def run_all(trees: list[Tree]) -> None:
    """Run the trees, several at a time, print a summary, and fail with the problems of all of them."""
    slots = asyncio.Semaphore(AT_A_TIME)

    async def run(tree: Tree) -> None:
        async with slots:
            try:
                await tree.run()
            except Exception as error:
                tree.problems.append(f"{tree.root} ({tree.how}): {error!r}")
            for problem in tree.problems:
                print(problem, file=sys.stderr, flush=True)

    await asyncio.gather(*map(run, trees))
    slowest = max(trees, key=lambda tree: tree.stopping_took)
    print(
        f"{len(trees)} trees of {sum(tree.nodes for tree in trees)} nodes; "
        f"{dict(Counter(tree.how for tree in trees))}; "
        f"{sum(tree.hit_a_start for tree in trees)} roots were starting children; "
        f"the slowest root, {slowest.root}, took {slowest.stopping_took:.1f} s to stop, "
        f"and trees up to {max(tree.closing_took for tree in trees):.1f} s more until every descendant was closed"
    )
    assert [problem for tree in trees for problem in tree.problems] == []


@pytest.mark.faults
async def test_no_descendant_outlives_a_cancelled_thread(temporal: TemporalClient, journal: Journal) -> None:
    """I-10; every third tree continues as new after every fact."""
    sweep = timedelta(seconds=1)
    usual = WorkerSettings(task_queue="trees", sweep_interval=sweep)
    restless = WorkerSettings(task_queue="restless", sweep_interval=sweep, history_budget=HistoryBudget(events=1))
    clients = [Client(temporal, task_queue=settings.task_queue) for settings in (usual, usual, restless)]
    async with running_worker(temporal, registry, usual), running_worker(temporal, registry, restless):
        await run_all([Tree(clients[number % 3], journal, number) for number in range(TREES)])


@pytest.mark.faults
@pytest.mark.parametrize("events", [2000, 1], ids=["usual", "restless"])
async def test_no_descendant_outlives_a_cancelled_thread_whose_worker_is_killed(
    temporal: TemporalClient, tmp_path: Path, events: int
) -> None:
    """I-10; a tool that is killed with its worker writes no line to the journal, and a background tool fails.

    A thread whose worker is killed in its last workflow task ends after that task's timeout.
    """
    client = Client(temporal, task_queue=f"killed-{events}")
    journal, empty = Journal(tmp_path / "journal.jsonl"), Journal(tmp_path / "empty.jsonl")
    ends = UNDISTURBED | {"failed"}
    trees = [Tree(client, empty, number, ends, latest=6.0, bound=60.0) for number in range(max(1, TREES // 4))]
    async with KilledWorker(temporal, client.task_queue, journal, events=events) as worker:
        running = asyncio.create_task(run_all(trees))
        kills = 0
        while not running.done():
            await worker.kill_after(1, 4)
            kills += 1
        print(f"{kills} kills")
        await running
