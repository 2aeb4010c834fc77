"""A Temporal worker of a user's own, with the plugin."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import Client as TemporalClient
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor, Worker

from tests.embedding.desk import Asks, Compensates, Quote, Quotes, Uncaught, stamp
from wakeful import (
    Agent,
    Budget,
    Client,
    ModelRequest,
    ModelResponse,
    PermissionPolicy,
    ProviderError,
    ProviderErrorKind,
    Registry,
    Rule,
    ScriptedModel,
    ToolContext,
    WakefulPlugin,
    WorkerSettings,
    call,
    say,
    tool,
)

QUEUE = "embedding"


@tool
def refund(amount: int, ctx: ToolContext) -> str:
    """Refund."""
    if ctx.resume_input is None:
        ctx.suspend("May I?")
    return f"refunded {amount}"


@tool
async def wait() -> str:
    """Wait until the call is cancelled."""
    await asyncio.Event().wait()
    return "never"


class Broken:
    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise ProviderError(ProviderErrorKind.UNAUTHORIZED, "the key is wrong")


NEVER = PermissionPolicy(
    default_behavior="allow", rules=[Rule(tool="refund(amount > 0)", behavior="deny", message="A secret: {amount}.")]
)

registry = Registry(
    agents=[
        Agent(id="quoter", output=Quote, model="quoter"),
        Agent(id="talker", model="talker"),
        Agent(id="thrifty", model="talker", output=Quote, budget=Budget(turns=0)),
        Agent(id="refused", tools=[refund], model="refunder", output=Quote, permissions=NEVER),
        Agent(id="refunder", tools=[refund], model="refunder"),
        Agent(id="waiter", tools=[wait], model="waiter"),
        Agent(id="broken", model="broken"),
    ],
    models={
        "quoter": ScriptedModel([say('{"item": "tea", "price": 3}')]),
        "talker": ScriptedModel([say("you said {input}")]),
        "refunder": ScriptedModel([call("refund", amount=5), say("{result}")], {"quick": [say("quickly")]}),
        "waiter": ScriptedModel([call("wait"), say("done")]),
        "broken": Broken(),
    },
)


class Counting(Interceptor):
    """An interceptor of the user's own: it sees the activities of agents, too."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _CountingActivity(next, self.seen)


class _CountingActivity(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, seen: list[str]) -> None:
        super().__init__(next)
        self._seen = seen

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        self._seen.append(input.fn.__name__)
        return await super().execute_activity(input)


@pytest.fixture(scope="session")
async def counting(temporal: TemporalClient) -> AsyncIterator[Counting]:
    """A worker of the user's own, and its interceptor."""
    interceptor = Counting()
    async with Worker(
        temporal,
        task_queue=QUEUE,
        workflows=[Quotes, Asks, Compensates, Uncaught],
        activities=[stamp],
        interceptors=[interceptor],
        plugins=[WakefulPlugin(registry, WorkerSettings(sweep_interval=None, new_run_patience=timedelta(0)))],
    ):
        yield interceptor


@pytest.fixture
async def agents(temporal: TemporalClient, counting: Counting) -> AsyncIterator[Client]:
    """A client of the agents of that worker."""
    async with Client(temporal, task_queue=QUEUE) as client:
        yield client
