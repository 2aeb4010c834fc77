"""Accepted input is never lost: messages for a thread that is closing, and more of them than can wait in a thread."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecutionStatus

from tests.support.waiting import BOUND_SECONDS, until
from wakeful import Agent, MessageRefused, Registry, ScriptedModel, ToolContext, call, say, tool
from wakeful.client.client import Client
from wakeful.contract import names
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.runs import RunStatus
from wakeful.contract.views import StatusView
from wakeful.worker import WorkerSettings, running_worker

PICTURE = "x" * 900_000
RELEASED = threading.Event()


@tool(background=True, timeout=60)
def export() -> str:
    """Notices a cancel when the test wants it to."""
    RELEASED.wait(BOUND_SECONDS)
    return "exported"


@tool
def pay(amount: int, ctx: ToolContext) -> str:
    """Asks before it pays."""
    if ctx.resume_input is None:
        ctx.suspend(f"Pay {amount}?")
    return "paid"


@pytest.fixture(autouse=True)
def released() -> Iterator[None]:
    RELEASED.clear()
    yield
    RELEASED.set()


@pytest.fixture
def client(temporal: TemporalClient, thread_id: str) -> Client:
    return Client(temporal, task_queue=thread_id)


@asynccontextmanager
async def working(client: Client, *, events: int = 2000) -> AsyncIterator[None]:
    model = ScriptedModel(
        [say("heard {input}")],
        when={"begin it": [call("export"), say("started")], "pay": [call("pay", amount=3), say("done")]},
    )
    registry = Registry(agents=[Agent(id="a", tools=[export, pay], max_rounds=2)], models={"default": model})
    budget = HistoryBudget(events=events, bytes=1_000_000)
    settings = WorkerSettings(task_queue=client.task_queue, sweep_interval=None, history_budget=budget)
    async with running_worker(client.temporal, registry, settings):
        yield


async def idle(client: Client, thread_id: str, *, runs: int) -> StatusView:
    return await until(client, thread_id, lambda view: view.runs == runs and view.result is not None)


async def close_slowly(client: Client, thread_id: str) -> None:
    """Close a thread while a background tool runs that does not end yet."""
    await client.send(thread_id, "begin it", agent_id="a")
    await until(client, thread_id, lambda view: bool(view.tasks))
    await client.close(thread_id)
    async with asyncio.timeout(BOUND_SECONDS):
        while names.MEMO_CLOSING not in await (await client.handle(thread_id).describe()).memo():
            await asyncio.sleep(0.02)


async def said(client: Client, thread_id: str) -> list[str]:
    return [message.text for message in await client.transcript(thread_id) if message.role.value == "user"]


async def test_a_message_to_a_thread_that_is_closing_wakes_it(client: Client, thread_id: str) -> None:
    async with working(client):
        await close_slowly(client, thread_id)
        before = (await client.handle(thread_id).describe()).run_id
        sending = asyncio.create_task(client.send(thread_id, "cancel my order", message_id="important"))
        await asyncio.sleep(0)
        RELEASED.set()
        assert await sending == "important"
        view = await until(client, thread_id, lambda view: bool(view.result and "order" in view.result.response))
        assert view.result is not None
        assert view.result.response == "heard cancel my order"
        assert (await client.handle(thread_id).describe()).run_id != before
        assert (await said(client, thread_id)).count("cancel my order") == 1


async def test_a_plain_signal_to_a_thread_that_is_closing_wakes_it(client: Client, thread_id: str) -> None:
    async with working(client):
        await close_slowly(client, thread_id)
        await client.submit(thread_id, f"cancel my order {PICTURE}")
        RELEASED.set()
        await until(client, thread_id, lambda view: bool(view.result and "cancel my order" in view.result.response))
        await client.send(thread_id, "hello again")
        await until(client, thread_id, lambda view: bool(view.result and view.result.response == "heard hello again"))
        texts = [text[:15] for text in await said(client, thread_id) if not text.startswith("<background-task")]
        assert texts == ["begin it", "cancel my order", "hello again"]
    async with working(client):  # the conversation is rebuilt from history
        await client.send(thread_id, "and again")
        await until(client, thread_id, lambda view: bool(view.result and view.result.response == "heard and again"))


async def test_a_message_that_a_run_has_read_before_it_ended_wakes_nothing(client: Client, thread_id: str) -> None:
    async with working(client):
        await client.start("a", "pay", thread_id=thread_id)
        await until(client, thread_id, lambda view: view.status is RunStatus.WAITING)
        await client.send(thread_id, "thanks")
        (pending,) = (await client.status(thread_id)).pending
        await client.decide(thread_id, pending.pending.id, "resume", result=True)
        await client.result(thread_id)
        await client.send(thread_id, "thanks", message_id="again")
        await idle(client, thread_id, runs=2)


async def test_more_than_can_wait_is_refused_and_the_thread_continues_as_new(client: Client, thread_id: str) -> None:
    async with working(client):
        await client.send(thread_id, "pay", agent_id="a")
        view = await until(client, thread_id, lambda view: view.status is RunStatus.WAITING)
        assert await client.send(thread_id, f"first {PICTURE}", message_id="m1", confirm=True) == "m1"
        for _ in range(5):
            with pytest.raises(MessageRefused, match=r"1 messages and decisions with 900,.* can wait"):
                await client.send(thread_id, f"more {PICTURE}", confirm=True)
        await client.send(thread_id, "short", confirm=True)
        described = await client.handle(thread_id).describe()
        assert described.status is WorkflowExecutionStatus.RUNNING
        assert described.raw_description.workflow_execution_info.history_size_bytes < 4_000_000
        assert described.raw_description.workflow_execution_info.first_run_id != described.run_id
        await client.decide(thread_id, view.pending[0].pending.id, "resume", result=True)
        await idle(client, thread_id, runs=3)
        assert [text[:5] for text in await said(client, thread_id)] == ["pay", "first", "short"]


async def test_what_waited_in_a_closed_thread_is_read_when_it_is_woken(client: Client, thread_id: str) -> None:
    async with working(client):
        await client.send(thread_id, "pay", agent_id="a")
        await until(client, thread_id, lambda view: view.status is RunStatus.WAITING)
        await client.send(thread_id, f"first {PICTURE}", message_id="m1", confirm=True)
        await client.close(thread_id)
        assert (await client.result(thread_id)).unread == ("m1",)
        await client.send(thread_id, "again", message_id="m1")  # a client that retries wakes it with the same message
        await idle(client, thread_id, runs=2)
        assert [text[:5] for text in await said(client, thread_id)] == ["pay", "first"]


async def test_a_message_that_wakes_a_thread_can_be_confirmed(client: Client, thread_id: str) -> None:
    async with working(client):
        await client.send(thread_id, "hello", agent_id="a", confirm=True)
        await idle(client, thread_id, runs=1)
        await client.close(thread_id)
        await client.result(thread_id)
        assert await client.send(thread_id, "again", message_id="m2", confirm=True) == "m2"
        await idle(client, thread_id, runs=2)
