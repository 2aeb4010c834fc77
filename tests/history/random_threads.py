"""Random threads on a real server: what their models call, and what people do to them meanwhile, from a seed."""

import asyncio
import contextlib
import random
from typing import Any

from temporalio.service import RPCError

from tests.support.app.basic import glance
from tests.support.app.hooked import COUNT, NAMES, OWNER, claim, tally
from tests.support.subagent_app import TOOLS, Plan, Planner, delegate, plan, spawn, written
from tests.support.waiting import BOUND_SECONDS
from wakeful import Agent, DecisionAction, OnBusy, Registry, RunStatus, ToolMode
from wakeful.client.client import Client
from wakeful.contract import names
from wakeful.contract.errors import WakefulError

SEQUENTIAL, PARALLEL = "sequential", "parallel"
MALFORMED = ("misspelt", names.SIGNAL_SUBMIT, names.SIGNAL_DECIDE, names.SIGNAL_CHILD_SETTLED, names.SIGNAL_DELIVER)

registry = Registry(
    agents=[
        Agent(
            id=mode.value,
            model="planner",
            tools=[*TOOLS, glance, tally, claim],
            state=[COUNT, NAMES, OWNER],
            tool_mode=mode,
            delegates=[PARALLEL],
            spawns=[SEQUENTIAL],
            messages=["any"],
            max_rounds=0,
        )
        for mode in (ToolMode.SEQUENTIAL, ToolMode.PARALLEL)
    ],
    models={"planner": Planner()},
)


class RandomThread:
    """One thread, driven until nothing happens any more."""

    def __init__(self, client: Client, seed: int) -> None:
        self._client = client
        self._random = random.Random(seed)
        self.id = f"{client.task_queue}-{seed}"

    async def drive(self) -> None:
        agent = self._random.choice([SEQUENTIAL, PARALLEL])
        await self._client.send(self.id, written(self._plan()), agent_id=agent, message_id="m0")
        for number in range(self._random.randrange(4)):
            await asyncio.sleep(self._random.random() * 0.3)
            await self._disturb(number)
        leaves_decisions = self._random.random() < 0.2
        await self._until_quiet(leaves_decisions=leaves_decisions)
        match self._random.random():
            case chance if chance < 0.3:
                await self._client.close(self.id, reason="enough")
                await self._until_quiet()
                if chance < 0.15:
                    await self._client.send(self.id, written(self._plan()), message_id="woken")
                    await self._until_quiet()
            case chance if chance < 0.4:
                await self._client.handle(self.id).terminate("enough")
            case _:
                pass

    def _plan(self, depth: int = 2) -> Plan:
        turns = [[self._call(depth) for _ in range(self._chance(3))] for _ in range(self._random.randrange(5))]
        return plan(*turns, say="done")

    def _chance(self, most: int) -> int:
        return self._random.randint(1, most)

    def _call(self, depth: int) -> tuple[str, dict[str, Any]]:
        calls: list[tuple[str, dict[str, Any]]] = [
            ("work", {"what": "it"}),
            ("work", {"what": "longer", "seconds": 0.1}),
            ("glance", {"text": "near"}),
            ("tally", {"name": "n"}),
            ("claim", {"name": "n"}),
            ("dig", {"where": "here", "seconds": 0.1}),
            ("levitate", {}),
        ]
        if depth == 2:
            calls += [("sign", {"what": "launch"}), ("list_tasks", {})]
        if depth:
            calls += [delegate(self._plan(depth - 1), PARALLEL), spawn(self._plan(depth - 1), SEQUENTIAL)]
        return self._random.choice(calls)

    async def _disturb(self, number: int) -> None:
        """Something that a person or another program does to a thread at any time."""
        with contextlib.suppress(WakefulError, RPCError):  # the thread may be closed
            match self._random.randrange(6):
                case 0 | 1 | 2:
                    on_busy = self._random.choice(list(OnBusy))
                    await self._client.send(self.id, written(self._plan()), on_busy=on_busy, message_id=f"d{number}")
                case 3:
                    payload = self._random.choice([13, {"x": 1}, None, "y"])
                    await self._client.handle(self.id).signal(self._random.choice(MALFORMED), payload)
                case 4:
                    await self._client.cancel(self.id, reason="no more")
                case _:
                    await self._client.decide(self.id, "9-9", "resume", decision_id=f"d{number}")

    async def _until_quiet(self, *, leaves_decisions: bool = False) -> None:
        """Decide what is asked, until the thread and its descendants do nothing more by themselves."""
        async with asyncio.timeout(BOUND_SECONDS):
            while True:
                view = await self._client.status(self.id)
                if view.pending and not leaves_decisions:
                    ticket = self._random.choice(view.pending)
                    action = self._random.choice(["resume", "resume", "cancel"])
                    await self._client.decide(self.id, ticket.pending.id, DecisionAction(action))
                elif (view.status is RunStatus.DONE or view.pending) and await self._is_quiet():
                    return
                await asyncio.sleep(0.05)

    async def _is_quiet(self) -> bool:
        described = (await self._client.handle(self.id).describe()).raw_description
        return not (
            described.HasField("pending_workflow_task") or described.pending_activities or described.pending_children
        )
