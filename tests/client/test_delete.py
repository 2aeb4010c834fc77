"""Delete a thread: the server has nothing of it any more, nothing starts it again, and other threads do not change."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.processes import wakeful
from tests.support.subagent_app import delegate, holding, plan, spawn, written
from tests.support.subagents import until_open
from tests.support.waiting import BOUND_SECONDS, until
from wakeful import Agent, CallerError, ModelResponse, Registry, RunStatus, SqliteProfileStore, ThreadNotFound
from wakeful.authoring.profiles import thread_owner
from wakeful.client.client import Client
from wakeful.connection import EmbeddedServer
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.inference import ModelRequest
from wakeful.contract.messages import Message, Role, TextBlock
from wakeful.contract.runs import ThreadMode
from wakeful.history.archive import ArchiveWriter
from wakeful.storage import DirectoryStore, external_storage
from wakeful.worker import WorkerSettings, running_worker

LONG = 30_000


class Counting:
    """A model that says how much of the conversation it was shown."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse(model="m", text=f"shown {len(request.messages)}")


@asynccontextmanager
async def archiving_worker(client: Client) -> AsyncIterator[None]:
    """A worker whose threads continue as new after 100 KB."""
    settings = WorkerSettings(task_queue=client.task_queue, history_budget=HistoryBudget(bytes=100_000))
    registry = Registry(agents=[Agent(id="a", model="m")], models={"m": Counting()})
    async with running_worker(client.temporal, registry, settings):
        yield


async def talk(client: Client, thread_id: str, *, runs: int) -> None:
    for number in range(1, runs + 1):
        await client.send(thread_id, f"message {number} " + "x" * LONG, agent_id="a")
        await answered(client, thread_id, runs=number)


async def answered(client: Client, thread_id: str, *, runs: int) -> str:
    view = await until(client, thread_id, lambda view: view.runs >= runs and view.status is RunStatus.DONE)
    assert view.result is not None
    return view.result.response


async def left(client: Client, thread_id: str) -> list[str]:
    """The ids of the workflows that the server still lists for a thread."""
    query = f"WorkflowId = '{thread_id}' OR WorkflowId STARTS_WITH '{thread_id}/' OR RootWorkflowId = '{thread_id}'"
    return sorted({execution.id async for execution in client.temporal.list_workflows(query)})


@pytest.mark.faults  # the server takes its time to delete executions
async def test_everything_of_a_thread_is_deleted_and_its_fork_is_not(
    temporal: TemporalClient, thread_id: str, tmp_path: Path
) -> None:
    """B-645."""
    stored = external_storage(DirectoryStore(tmp_path), threshold=20_000)
    config = temporal.config(active_config=True)
    config["data_converter"] = replace(temporal.data_converter, external_storage=stored)
    client = Client(TemporalClient(**config), task_queue=thread_id)
    neighbour = f"{thread_id}/neighbour"
    async with archiving_worker(client):
        await talk(client, thread_id, runs=20)
        fork = await client.fork(thread_id, at=18, message="instead")
        assert (await client.result(fork)).response == "shown 37"
        await client.send(neighbour, "a thread of its own", agent_id="a")
        await answered(client, neighbour, runs=1)
    receipt = await client.delete(thread_id)  # without a worker
    assert (receipt.found, receipt.threads, receipt.remaining) == (True, (thread_id,), ())
    assert receipt.archives
    assert receipt.executions > 1 + len(receipt.archives)
    assert receipt.payloads > 20
    assert await left(client, thread_id) == [neighbour]
    with pytest.raises(ThreadNotFound):
        await client.status(thread_id)
    again = await client.delete(thread_id)
    assert again.model_dump(exclude_defaults=True) == {"thread_id": thread_id, "found": False}
    async with archiving_worker(client):
        await client.send(fork, "still there?", agent_id="a")
        assert await answered(client, fork, runs=20) == "shown 39"
        assert len(await client.transcript(fork)) == 40
        for other in (fork, neighbour):
            assert (await client.delete(other)).remaining == ()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.faults  # the server takes its time to delete executions
async def test_descendants_are_terminated_and_deleted_and_nothing_starts_again(
    usual_subagents: Client, thread_id: str
) -> None:
    """While a worker with its sweep is running, in the middle of everything."""
    client = usual_subagents
    below = plan([delegate(plan([holding()])), ("linger", {"seconds": 300})])
    await client.start(
        "node", written(plan([spawn(below), delegate(below), ("dig", {"where": "here"})])), thread_id=thread_id
    )
    await until_open(client, thread_id, 7)
    existed = await left(client, thread_id)
    (child,) = [id for id in existed if id.startswith(f"{thread_id}/") and id.count("/") == 1 and "linger" not in id][
        :1
    ]
    with pytest.raises(CallerError, match=f"is a sub-agent of thread '{thread_id}'"):
        await client.delete(child)
    receipt = await client.delete(thread_id)
    assert sorted(receipt.threads) == existed
    assert receipt.remaining == ()
    async with asyncio.timeout(BOUND_SECONDS):  # two rounds of the sweep
        await client.run("node", written(plan([("work", {"what": "wait", "seconds": 2.5})])))
    assert await left(client, thread_id) == []


@pytest.mark.faults  # the server takes its time to delete executions
async def test_a_task_of_a_closed_thread_does_not_wake_it_after_the_deletion(
    usual_subagents: Client, thread_id: str
) -> None:
    client = usual_subagents
    task = plan([("work", {"what": "something", "seconds": 1.0})])
    await client.start("node", written(plan([spawn(task)])), thread_id=thread_id)
    await until_open(client, thread_id, 2)
    await client.handle(thread_id).terminate()
    assert (await client.delete(thread_id)).remaining == ()
    await client.run("node", written(plan([("work", {"what": "wait", "seconds": 2.0})])))
    assert await left(client, thread_id) == []


async def test_profiles_are_deleted_on_request(client: Client, thread_id: str) -> None:
    store = SqliteProfileStore()
    await client.run("tester", "add", thread_id=thread_id)
    await store.write(thread_owner(thread_id), "tone", "friendly")
    await store.write(thread_owner("another"), "tone", "stern")
    assert (await client.delete(thread_id)).profiles == 0
    assert (await client.delete(thread_id, profiles=store)).model_dump(exclude_defaults=True) == {
        "thread_id": thread_id,
        "found": True,
        "profiles": 1,
    }
    assert [entry.value for entry in await store.list(thread_owner("another"))] == ["stern"]
    await store.aclose()


async def test_a_thread_can_start_again_under_its_id(client: Client, thread_id: str) -> None:
    await client.run("tester", "add", thread_id=thread_id)
    await client.delete(thread_id)
    await client.run("tester", "hello", thread_id=thread_id)
    assert (await client.transcript(thread_id))[0].text == "hello"


async def test_an_archive_that_is_written_after_the_deletion_does_not_stay(client: Client, thread_id: str) -> None:
    """An activity that was running when its thread was deleted may write one."""
    writer = ArchiveWriter(client.temporal, thread_id, task_queue=client.task_queue)
    said = Message(id="m1", role=Role.USER, content=(TextBlock(text="too late"),))
    with pytest.raises(ThreadNotFound):
        await writer.write((), [said], (), number=1)
    async with asyncio.timeout(BOUND_SECONDS):
        while await left(client, thread_id):
            await asyncio.sleep(0.1)


async def test_the_command_says_what_it_deletes_and_asks(
    client: Client, server: EmbeddedServer, thread_id: str
) -> None:
    await client.start("tester", "hello", thread_id=thread_id, mode=ThreadMode.THREAD)
    asked = await wakeful("delete", thread_id, address=server.address)
    assert (asked.code, asked.out) == (1, "")
    assert asked.err.splitlines() == [
        f"thread {thread_id} will be deleted: 1 execution, 1 of them open",
        "  with       payloads stored outside history",
        "wakeful: nothing is deleted: without a terminal to ask at, confirm with --yes",
    ]
    done = await wakeful("delete", "--query", f"WorkflowId = '{thread_id}'", "--yes", address=server.address)
    assert (done.code, done.out) == (0, f"thread {thread_id} is deleted: 1 execution, 1 thread\n")
    again = await wakeful("delete", thread_id, "--yes", "--json", address=server.address)
    assert (again.code, again.out) == (1, f'{{"thread_id":"{thread_id}","found":false}}\n')
    wrong = await wakeful("delete", "--query", "Nonsense = 1", "--yes", address=server.address)
    assert (wrong.code, "is not a list filter" in wrong.err) == (1, True)
