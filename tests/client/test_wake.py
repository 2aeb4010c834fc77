"""Threads that are closed while they are being woken: they lose neither their conversation nor their state."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from temporalio.client import Client as TemporalClient
from temporalio.worker import Worker

from tests.support.app import registry
from tests.support.waiting import BOUND_SECONDS, until
from wakeful import CallerError, RunStatus
from wakeful.client.client import Client
from wakeful.contract.messages import Message
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import Errored
from wakeful.history.latest_execution import ExecutionStart
from wakeful.worker import WorkerSettings, running_worker
from wakeful_workflows.agent_run import AgentRun

STROLL = ["stroll", "", "went to 1", "", "went to 2", "strolled"]
HELLO = ["hello", "hello, hello"]


@pytest.fixture
def client(temporal: TemporalClient, thread_id: str) -> Client:
    return Client(temporal, task_queue=thread_id)


@asynccontextmanager
async def a_worker(client: Client) -> AsyncIterator[None]:
    async with running_worker(client.temporal, registry, WorkerSettings(task_queue=client.task_queue)):
        yield


@asynccontextmanager
async def a_workflow_worker(client: Client) -> AsyncIterator[None]:
    """A worker without activities: a thread that is woken here is never restored."""
    async with Worker(client.temporal, task_queue=client.task_queue, workflows=[AgentRun]):
        yield


async def until_restoring(client: Client, thread_id: str) -> None:
    """Wait until the thread has scheduled the activity that restores it."""
    async with asyncio.timeout(BOUND_SECONDS):
        while not (await client.handle(thread_id).describe()).raw_description.pending_activities:
            await asyncio.sleep(0.02)


async def stroll(client: Client, thread_id: str) -> None:
    await client.run("walker", "stroll", thread_id=thread_id)


async def answered(client: Client, thread_id: str) -> str:
    view = await until(client, thread_id, lambda view: view.status is RunStatus.DONE and view.result is not None)
    return view.result.response if view.result else ""


async def run_id(client: Client, thread_id: str) -> str:
    return (await client.handle(thread_id).describe()).run_id


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


async def test_a_thread_that_is_terminated_while_it_is_woken_loses_nothing(client: Client, thread_id: str) -> None:
    """Neither its conversation nor its state, nor the numbers of its events."""
    async with a_worker(client):
        await stroll(client, thread_id)
        before = [record.seq async for record in client.watch(thread_id)]
    async with a_workflow_worker(client):
        for _ in range(2):
            await client.send(thread_id, "hello?")
            await until_restoring(client, thread_id)
            assert texts(await client.transcript(thread_id)) == STROLL
            view = await client.status(thread_id)
            assert (view.status, view.doing) == (RunStatus.CREATED, "reading its earlier conversation")
            await client.handle(thread_id).terminate()
            assert texts(await client.transcript(thread_id)) == STROLL
    async with a_worker(client):
        await client.send(thread_id, "hello")
        assert await answered(client, thread_id) == "hello, hello"
        assert texts(await client.transcript(thread_id)) == [*STROLL, *HELLO]
        assert (await client.state(thread_id)).values["paces"] == 2
        await client.handle(thread_id).cancel()
        await client.result(thread_id)
        seqs = [record.seq async for record in client.watch(thread_id)]
        assert seqs == list(range(1, len(seqs) + 1))
        assert len(seqs) > len(before)


async def test_a_thread_that_is_terminated_before_it_was_woken_loses_nothing(client: Client, thread_id: str) -> None:
    async with a_worker(client):
        await stroll(client, thread_id)
    for _ in range(2):
        await client.send(thread_id, "hello?", agent_id="walker")
        await client.handle(thread_id).terminate()
    async with a_worker(client):
        assert texts(await client.transcript(thread_id)) == STROLL
        await client.send(thread_id, "hello")
        assert await answered(client, thread_id) == "hello, hello"
        assert texts(await client.transcript(thread_id)) == [*STROLL, *HELLO]
        await client.handle(thread_id).cancel()


@pytest.mark.faults
async def test_a_thread_that_is_being_woken_can_be_forked(client: Client, thread_id: str) -> None:
    async with a_worker(client):
        await stroll(client, thread_id)
    async with a_workflow_worker(client):
        await client.send(thread_id, "hello?")
        await until_restoring(client, thread_id)
        fork = await client.fork(thread_id, at=1, message="hello")
    async with a_worker(client):
        assert (await client.result(fork)).response == "hello, hello"
        assert texts(await client.transcript(fork)) == [*STROLL[:3], *HELLO]
        await client.handle(thread_id).cancel()


async def test_a_request_to_restore_an_execution_that_never_started_restores_the_one_before(
    client: Client, thread_id: str
) -> None:
    """A caller may name the newest execution without knowing whether it has started."""
    async with a_worker(client):
        await stroll(client, thread_id)
    async with a_workflow_worker(client):
        await client.send(thread_id, "hello?")
        await until_restoring(client, thread_id)
        await client.handle(thread_id).terminate()
    async with a_worker(client):
        request = {"agent_id": "walker", "input": "hello", "restore_from": await run_id(client, thread_id)}
        await client.temporal.start_workflow("AgentRun", request, id=thread_id, task_queue=client.task_queue)
        assert (await client.result(thread_id)).response == "hello, hello"
        assert texts(await client.transcript(thread_id)) == [*STROLL, *HELLO]


async def test_a_fork_that_never_started_is_not_woken(client: Client, thread_id: str) -> None:
    async with a_worker(client):
        await stroll(client, thread_id)
    async with a_workflow_worker(client):
        fork = await client.fork(thread_id, at=1, message="turn back")
        await until_restoring(client, fork)
        await client.handle(fork).terminate()
        assert texts(await client.transcript(fork)) == STROLL[:3]
        with pytest.raises(CallerError, match=f"was closed before it started: fork thread '{thread_id}' again"):
            await client.send(fork, "hello")


async def test_a_sub_agent_that_never_started_is_not_woken(client: Client, thread_id: str) -> None:
    """B-513: the new thread would not have the rules of its ancestors."""
    child = f"{thread_id}/walker-1"
    request = {"agent_id": "walker", "input": "stroll", "subagent": {"path": [thread_id], "work_id": "delegate-c1"}}
    await client.temporal.start_workflow("AgentRun", request, id=child, task_queue=client.task_queue)
    await client.handle(child).terminate()
    with pytest.raises(CallerError, match=f"was closed before it started: write to thread '{thread_id}'"):
        await client.send(child, "hello")


async def test_a_thread_that_never_started_is_new(client: Client, thread_id: str) -> None:
    """Its terminated request is not executed after all."""
    await client.start("walker", "stroll", thread_id=thread_id)
    await client.handle(thread_id).terminate()
    await client.send(thread_id, "hello")
    async with a_worker(client):
        assert await answered(client, thread_id) == "hello, hello"
        assert texts(await client.transcript(thread_id)) == HELLO
        await client.handle(thread_id).cancel()


async def test_a_thread_whose_request_was_rejected_is_new(client: Client, thread_id: str) -> None:
    async with a_worker(client):
        await start_rejected(client, thread_id, {"agent": "walker"}, "malformed_request")
        past = await run_id(client, thread_id)
        await start_rejected(
            client, thread_id, {"agent_id": "walker", "mode": "thread", "restore_from": past}, "not_restorable"
        )
        await client.send(thread_id, "hello", agent_id="walker")
        assert await answered(client, thread_id) == "hello, hello"
        assert texts(await client.transcript(thread_id)) == HELLO
        await client.handle(thread_id).cancel()


def test_an_execution_that_was_never_restored_does_not_say_whose_the_thread_is() -> None:
    """B-660"""
    start = ExecutionStart("r2", request=RunRequest(agent_id="walker", input="hi", restore_from="r1", tenant="beta"))
    assert (start.tenant, start.is_of_any_tenant) == (None, True)
    start.has_started = True
    assert (start.tenant, start.is_of_any_tenant) == ("beta", False)


async def start_rejected(client: Client, thread_id: str, request: dict[str, str], code: str) -> None:
    await client.temporal.start_workflow("AgentRun", request, id=thread_id, task_queue=client.task_queue)
    end = (await client.result(thread_id)).termination
    assert isinstance(end, Errored)
    assert end.code == code
    described = await client.handle(thread_id).describe()
    assert described.search_attributes["WakefulOutcome"] == ["error"]
    with pytest.raises(CallerError, match="is new: say which agent should answer"):
        await client.send(thread_id, "hello")
