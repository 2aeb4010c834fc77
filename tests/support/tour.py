"""A run with everything that can tear a trace apart, for programs that show traces.

It has a provider that fails and its fallback, a tool whose worker is killed, a delegate, a background agent, a decision
of a person, a question that expires after a day, and several executions. `python -m tests.support.tour ADDRESS` is its
worker.
"""

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client as TemporalClient
from temporalio.contrib.pydantic import pydantic_data_converter

from wakeful import (
    Agent,
    ModelRequest,
    ModelResponse,
    Price,
    ProviderError,
    ProviderErrorKind,
    Registry,
    ScriptedModel,
    ToolContext,
    call,
    say,
    tool,
)
from wakeful.contract.agents import HistoryBudget, RetryPolicy
from wakeful.telemetry.client_spans import propagating_plugins
from wakeful.telemetry.setup import set_up
from wakeful.worker import WorkerSettings, running_worker

QUEUE, THREAD = "tour", "refund-order-1042"
JOURNAL = "WAKEFUL_TOUR_JOURNAL"
DAY = timedelta(days=1).total_seconds()


@tool(idempotent=True, heartbeat_timeout=3)
async def look_up_order(order: int, ctx: ToolContext) -> str:
    """Look an order up. The first attempt takes so long that its worker can be killed."""
    if ctx.attempt == 1:
        Path(os.environ[JOURNAL]).write_text(str(os.getpid()))
        await asyncio.sleep(600)
    return f"order {order}: a lamp, 249.00"


@tool
def ask_customer(ctx: ToolContext) -> str:
    """Ask the customer, who has a day to answer."""
    if ctx.resume_input is None:
        ctx.suspend("Is the lamp broken?", expires_after=DAY, on_expiry="resume", default_result="no answer")
    return str(ctx.resume_input.result)


@tool
def refund(amount: float, ctx: ToolContext) -> str:
    """Refund, after a person has agreed."""
    if ctx.resume_input is None:
        ctx.suspend(f"Refund {amount:.2f} EUR?")
    return f"refunded {amount:.2f}"


class Overloaded:
    """A provider that has no capacity."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise ProviderError(ProviderErrorKind.PROVIDER, "no capacity")


SCRIPT = ScriptedModel(
    [
        call("look_up_order", order=1042),
        call("agent_run_researcher", prompt="What is our policy?"),
        call("spawn_agent", agent="watcher", prompt="Watch for the parcel.", name="parcel"),
        call("ask_customer"),
        call("refund", amount=249.0),
        say("We have refunded your lamp."),
    ]
)

REGISTRY = Registry(
    agents=[
        Agent(
            id="assistant",
            instructions="Help customers.",
            model="large",
            fallbacks=["small"],
            retry=RetryPolicy(max_retries=1, backoff_base_ms=10),
            tools=[look_up_order, ask_customer, refund],
            delegates=["researcher"],
            spawns=["watcher"],
        ),
        Agent(id="researcher", model="research"),
        Agent(id="watcher", model="watch"),
    ],
    models={
        "large": Overloaded(),
        "small": SCRIPT,
        "research": ScriptedModel([say("Within 30 days, all of it.")]),
        "watch": ScriptedModel([say("It has not arrived.")]),
    },
    prices={"small": Price(input=1.0, output=2.0)},
)


async def serve(address: str) -> None:
    """A worker that exports as the environment says, until it is killed or terminated."""
    exports = set_up(os.environ, is_worker=True)
    temporal = await TemporalClient.connect(
        address, data_converter=pydantic_data_converter, plugins=propagating_plugins(), runtime=exports.runtime
    )
    settings = WorkerSettings(task_queue=QUEUE, history_budget=HistoryBudget(events=60), min_retention=None)
    async with exports.running(), running_worker(temporal, REGISTRY, settings):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
