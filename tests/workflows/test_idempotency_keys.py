"""Different calls have different idempotency keys, and one call has one, whatever its provider, window and worker."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.waiting import BOUND_SECONDS
from wakeful import Agent, ContextPolicy, ModelRequest, ModelResponse, Registry, StopReason, ToolContext, tool
from wakeful.authoring.tool import Tool
from wakeful.client.client import Client
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.messages import Role, ToolCall
from wakeful.worker import WorkerSettings, running_worker

BILLS = 14
RESTART_AFTER = 8


@dataclass(frozen=True)
class Forgetful:
    """A provider that gives its calls the same id each time, or none: the next one is known from the last result."""

    id: str

    async def complete(self, request: ModelRequest) -> ModelResponse:
        last = request.messages[-1]
        paid = int(last.text.split()[0]) if last.role is Role.TOOL else 0
        if paid >= BILLS:
            return ModelResponse(model="m", text="done")
        pay = ToolCall(id=self.id, name="pay", arguments={"bill": paid + 1})
        return ModelResponse(model="m", text="", tool_calls=(pay,), stop_reason=StopReason.TOOL_USE)


@dataclass
class Payments:
    """What was paid, by the keys that a bank would see."""

    bills: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def tool(self) -> Tool:
        @tool(idempotent=True)
        async def pay(bill: int, ctx: ToolContext) -> str:
            """Pay a bill."""
            assert ctx.idempotency_key is not None
            self.bills[ctx.idempotency_key].add(bill)
            return f"{bill} paid {'x' * 20_000}"

        return pay


@pytest.mark.parametrize("id", ["", "call_0"], ids=["no ids", "the same id each time"])
async def test_each_call_has_its_own_key_although_the_worker_knows_only_a_part_of_the_conversation(
    temporal: TemporalClient, thread_id: str, id: str
) -> None:
    """The run continues as new several times, its window is short, and another worker takes over in the middle."""
    payments = Payments()
    window = ContextPolicy(max_context_tokens=12_000, max_output_tokens=1_000)
    agent = Agent(id="a", model="m", tools=[payments.tool()], max_rounds=2 * BILLS, context=window)
    registry = Registry(agents=[agent], models={"m": Forgetful(id)})
    budget = HistoryBudget(events=50, bytes=150_000)
    settings = WorkerSettings(task_queue=thread_id, sweep_interval=None, history_budget=budget)
    client = Client(temporal, task_queue=thread_id)
    async with running_worker(temporal, registry, settings):
        await client.start("a", "pay all bills", thread_id=thread_id)
        async with asyncio.timeout(BOUND_SECONDS):
            while len(payments.bills) < RESTART_AFTER:
                await asyncio.sleep(0.02)
    async with running_worker(temporal, registry, settings), asyncio.timeout(BOUND_SECONDS):
        result = await client.result(thread_id)
    assert (result.response, result.steps) == ("done", BILLS + 1)
    assert sorted(payments.bills.values(), key=min) == [{bill} for bill in range(1, BILLS + 1)]
