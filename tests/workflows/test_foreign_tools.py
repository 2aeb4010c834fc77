"""Tools that another worker hosts as activities, by name: a plain Temporal worker that knows nothing of Wakeful."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from pydantic import JsonValue
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.client import Client as TemporalClient
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from tests.support.waiting import until
from wakeful import Agent, Registry, ScriptedModel, Tool, call, say, tool
from wakeful.client.client import Client
from wakeful.contract.messages import Role
from wakeful.history.conversation import read_conversation
from wakeful.history.decoder import ExecutionRef
from wakeful.worker import WorkerSettings, running_worker

QUEUE = "foreign-tools"


def foreign(name: str, **options: Any) -> Tool:
    """A tool that the workers of the other task queue run."""

    @tool(name=name, task_queue=options.pop("task_queue", QUEUE), **options)
    def declared(order: str) -> None:
        """Do something with an order."""
        raise AssertionError("the run's own worker must not run it")

    return declared


@dataclass
class Shop:
    """The other program: its activities take and return plain JSON, and raise what they like."""

    attempts: Counter[str] = field(default_factory=Counter)
    inputs: list[Mapping[str, Any]] = field(default_factory=list)
    can_finish: bool = True

    @activity.defn
    async def returns(self, input: Mapping[str, Any]) -> JsonValue:
        self.inputs.append(input)
        return {"order": input["call"]["arguments"]["order"], "state": "shipped"}

    @activity.defn
    async def refuses(self, _input: Mapping[str, Any]) -> None:
        self.attempts["refuses"] += 1
        raise ApplicationError("no order 7", type="OrderNotFound", non_retryable=True)

    @activity.defn
    async def throws(self, _input: Mapping[str, Any]) -> None:
        self.attempts["throws"] += 1
        raise ApplicationError("out of stock", type="Error")

    @activity.defn
    async def flickers(self, _input: Mapping[str, Any]) -> str:
        self.attempts["flickers"] += 1
        if self.attempts["flickers"] < 3:
            raise ApplicationError("try again", next_retry_delay=timedelta(milliseconds=10))
        return "on"

    @activity.defn
    async def dies_first(self, _input: Mapping[str, Any]) -> str:
        """Loses its worker, as far as Temporal can tell: it does not heartbeat."""
        self.attempts["dies_first"] += 1
        if self.attempts["dies_first"] == 1:
            await asyncio.sleep(60)
        return "alive"

    @activity.defn
    async def dies(self, _input: Mapping[str, Any]) -> None:
        self.attempts["dies"] += 1
        await asyncio.sleep(60)

    @activity.defn
    async def outlives(self, _input: Mapping[str, Any]) -> str:
        """Runs until its worker stops, unless it is on the next one."""
        self.attempts["outlives"] += 1
        if not self.can_finish:
            await asyncio.sleep(60)
        return "finished by the next worker"

    @activity.defn
    async def cuts(self, _input: Mapping[str, Any]) -> RawValue:
        return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=b'"\\ud83d"'))

    @activity.defn
    async def draws(self, _input: Mapping[str, Any]) -> bytes:
        return b"\x89PNG"

    @activity.defn
    async def resembles(self, _input: Mapping[str, Any]) -> JsonValue:
        return {"result": {"status": "pending"}, "blocked": "by customs"}

    def worker(self, temporal: TemporalClient, queue: str = QUEUE) -> Worker:
        functions: list[Callable[..., Any]] = [
            *(self.returns, self.refuses, self.throws, self.flickers, self.dies_first, self.dies, self.outlives),
            *(self.cuts, self.draws, self.resembles),
        ]
        return Worker(
            temporal,
            task_queue=queue,
            activities=functions,
            graceful_shutdown_timeout=timedelta(),
        )


TOOLS = [
    foreign("returns", heartbeat_timeout=0),
    foreign("refuses"),
    foreign("throws", read_only=True),
    foreign("flickers", read_only=True, retries=5),
    foreign("dies_first", idempotent=True, heartbeat_timeout=0.5),
    foreign("dies", heartbeat_timeout=0.5),
    foreign("cuts"),
    foreign("draws"),
    foreign("resembles"),
    foreign("unregistered"),
    foreign("unserved", task_queue="foreign-tools-without-a-worker", queue_timeout=0.5),
]
ALL = call(TOOLS[0].name, order="7")
for each in TOOLS[1:]:
    ALL &= call(each.name, order="7")


def registry() -> Registry:
    script = {
        "everything": [ALL, say("{result}")],
        "hang": [call("dies_again", order="7"), say("{result}")],
        "deploy": [call("outlives", order="7"), say("{result}")],
    }
    more = [
        foreign("dies_again", idempotent=True, heartbeat_timeout=0.5),
        foreign("outlives", read_only=True, task_queue=f"{QUEUE}-deployed"),
    ]
    return Registry(agents=[Agent(id="clerk", tools=[*TOOLS, *more])], models={"default": ScriptedModel(when=script)})


@pytest.fixture(scope="module")
async def clerk(temporal: TemporalClient) -> AsyncIterator[Client]:
    async with running_worker(temporal, registry(), WorkerSettings(task_queue="foreign-clerks")):
        yield Client(temporal, task_queue="foreign-clerks")


UNKNOWN = (
    "outcome unknown: its worker was lost. It is not known whether 'dies' took effect. Check before you call it again."
)
UNREADABLE = "The tool ran, but its result cannot be read: {}. Check what it did before you call it again."


async def test_what_a_tool_of_another_worker_returns_or_raises_is_what_the_model_reads(
    temporal: TemporalClient, clerk: Client, thread_id: str
) -> None:
    """B-210"""
    shop = Shop()
    async with shop.worker(temporal):
        await clerk.run("clerk", "everything", thread_id=thread_id)
    results = [message.text for message in await clerk.transcript(thread_id) if message.role is Role.TOOL]
    read = dict(zip((each.name for each in TOOLS), results, strict=True))
    unregistered = read.pop("unregistered")
    assert unregistered.startswith("Execution failed: NotFoundError: Activity function unregistered for workflow")
    assert read == {
        "returns": '{"order":"7","state":"shipped"}',
        "refuses": "Execution failed: OrderNotFound: no order 7",
        "throws": "Execution failed: out of stock",
        "flickers": "on",
        "dies_first": "alive",
        "dies": UNKNOWN,
        "cuts": UNREADABLE.format(
            "Invalid JSON: unexpected end of hex escape at line 1 column 8 (half a surrogate pair, as of a cut emoji)"
        ),
        "draws": UNREADABLE.format("it is binary data of 4 bytes, and not JSON"),
        "resembles": '{"result":{"status":"pending"},"blocked":"by customs"}',
        "unserved": (
            "The call was not executed: no worker of task queue 'foreign-tools-without-a-worker' has started it within "
            "0.5 seconds. Use another tool, or report the problem."
        ),
    }
    assert shop.attempts == {"refuses": 1, "throws": 1, "flickers": 3, "dies_first": 2, "dies": 1}
    # What a worker without the thread in its cache gives to the model.
    newest = await clerk.handle(thread_id).describe()
    rebuilt = await read_conversation(temporal, ExecutionRef(thread_id, newest.run_id))
    assert [message.text for message in rebuilt.entries()[1] if message.role is Role.TOOL] == results


async def test_a_call_that_is_cancelled_does_not_start_again_when_its_worker_is_lost(
    temporal: TemporalClient, clerk: Client, thread_id: str
) -> None:
    """B-211"""
    starts = 0

    @activity.defn
    async def dies_again(_input: Mapping[str, Any]) -> None:
        nonlocal starts
        starts += 1
        await asyncio.sleep(60)

    async with Worker(temporal, task_queue=QUEUE, activities=[dies_again], graceful_shutdown_timeout=timedelta()):
        await clerk.start("clerk", "hang", thread_id=thread_id)
        await until(clerk, thread_id, lambda _view: starts == 1)
        await clerk.cancel(thread_id)
        await clerk.result(thread_id)
    results = [message.text for message in await clerk.transcript(thread_id) if message.role is Role.TOOL]
    assert [result.partition(". ")[0] for result in results] == ["outcome unknown: its worker was lost"]
    assert starts == 1


async def test_a_call_whose_worker_is_replaced_starts_again_on_the_next_one(
    temporal: TemporalClient, clerk: Client, thread_id: str
) -> None:
    """B-211"""
    shop = Shop(can_finish=False)
    async with shop.worker(temporal, f"{QUEUE}-deployed"):
        await clerk.start("clerk", "deploy", thread_id=thread_id)
        await until(clerk, thread_id, lambda _view: shop.attempts["outlives"] == 1)
    shop.can_finish = True
    async with shop.worker(temporal, f"{QUEUE}-deployed"):
        assert (await clerk.result(thread_id)).response == "finished by the next worker"
    assert shop.attempts["outlives"] == 2
