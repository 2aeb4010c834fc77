"""The awaken runtime's own tests of its runs and their handles, each under its name."""

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.waiting import until_status
from wakeful import (
    Agent,
    Decision,
    DecisionAction,
    Registry,
    RunStatus,
    ScriptedModel,
    ThreadBusy,
    ThreadExists,
    say,
)
from wakeful.client.client import Client
from wakeful.contract.errors import CallerError
from wakeful.worker import WorkerSettings, running_worker


async def test_new_creates_runtime(temporal: TemporalClient, thread_id: str) -> None:
    """A worker and a client need Temporal and a registry, and no store of threads, payloads or profiles."""
    registry = Registry(agents=[Agent(id="solo")], models={"default": ScriptedModel([say("hello")])})
    assert (temporal.data_converter.external_storage, registry.profile_keys) == (None, ())
    client = Client(temporal, task_queue=thread_id)
    async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
        assert (await client.run("solo", "hi", thread_id=thread_id)).response == "hello"


async def test_create_run_channels_returns_triple(client: Client, thread_id: str) -> None:
    """The id that a start returns is the handle of the run: it is not cancelled, and takes decisions and a cancel."""
    id = await client.start("tester", "approve", thread_id=thread_id)
    view = await until_status(client, id, RunStatus.WAITING)
    assert (id, view.identity.thread_id, view.result) == (thread_id, thread_id, None)
    assert [ticket.pending.name for ticket in view.pending] == ["approve"]
    await client.cancel(id)
    assert (await client.result(id)).status_reason == "cancelled"


async def test_register_run_succeeds(client: Client, thread_id: str) -> None:
    assert await client.start("tester", "hello", thread_id=thread_id) == thread_id
    assert (await client.result(thread_id)).status_reason == "natural"


async def test_register_run_fails_for_same_thread(client: Client, thread_id: str) -> None:
    """B-610: a thread with an active run refuses another, and says which thread."""
    await client.start("tester", "approve", thread_id=thread_id)
    with pytest.raises(ThreadBusy, match=f"^thread already has an active run: {thread_id};"):
        await client.start("tester", "hello", thread_id=thread_id)
    await client.cancel(thread_id)
    await client.result(thread_id)


async def test_unregister_run_allows_reregistration(client: Client, thread_id: str) -> None:
    """B-610: once its run has ended, a thread can be continued, or started over if you say so."""
    await client.run("tester", "hello", thread_id=thread_id)
    with pytest.raises(ThreadExists, match=r"use send\(\) to continue it, or start it over with again=True"):
        await client.start("tester", "hello", thread_id=thread_id)
    assert (await client.run("tester", "hello", thread_id=thread_id, again=True)).status_reason == "natural"


async def test_run_handle_send_decisions(client: Client, thread_id: str) -> None:
    """A batch of decisions reaches the run as one."""
    await client.start("tester", "approve", thread_id=thread_id)
    view = await until_status(client, thread_id, RunStatus.WAITING)
    resume = DecisionAction.RESUME
    batch = [Decision(target=ticket.pending.id, action=resume, result="yes") for ticket in view.pending]
    assert await client.decide_many(thread_id, batch, confirm=True) == "applied"
    assert (await client.result(thread_id)).response == 'approval gave {"did":"launch","said":"yes","reason":null}'


async def test_run_handle_send_decision_single(client: Client, thread_id: str) -> None:
    await client.start("tester", "approve", thread_id=thread_id)
    view = await until_status(client, thread_id, RunStatus.WAITING)
    assert await client.decide(thread_id, view.pending[0].pending.id, "resume", confirm=True) == "applied"
    assert (await client.result(thread_id)).status_reason == "natural"


async def test_run_handle_send_decisions_closed_channel(client: Client, thread_id: str) -> None:
    """A run that has ended takes no decision, and the sender learns it."""
    await client.run("tester", "hello", thread_id=thread_id)
    with pytest.raises(CallerError, match=f"^thread {thread_id!r} rejected the decision: the run has ended$"):
        await client.decide(thread_id, "1-1", "resume")
