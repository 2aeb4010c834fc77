"""Every command that reads prints the same whether or not a worker runs, for open and closed threads."""

import asyncio
import re
from collections.abc import Callable

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.processes import Ran, wakeful
from tests.support.subagent_app import delegate, plan, registry, written
from tests.support.waiting import BOUND_SECONDS, until
from wakeful.client.client import Client
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.runs import RunStatus, ThreadMode
from wakeful.worker import WorkerSettings, running_worker

SIGNS = delegate(plan([("sign", {"what": "land"})]))


pytestmark = pytest.mark.integration  # each command is a process that imports the workflows


async def threads_of_every_kind(client: Client, thread_id: str) -> tuple[str, str]:
    """One that waits for a sub-agent's decision, in its second run and fourth execution or later, and a closed one."""
    closed = f"{thread_id}-closed"
    await client.run("node", written(plan([("work", {"what": "dig"})], [("work", {"what": "dig"})])), thread_id=closed)
    await client.send(thread_id, written(plan([("work", {"what": "dig"})])), agent_id="node")
    await until(client, thread_id, lambda view: view.runs == 1 and view.status is RunStatus.DONE)
    await client.send(thread_id, written(plan([("work", {"what": "fill"}), SIGNS])))
    async with asyncio.timeout(BOUND_SECONDS):
        while not [entry async for entry in client.inbox(thread_id=thread_id)]:
            await asyncio.sleep(0.05)
    return thread_id, closed


def without_times(text: str) -> str:
    """What is printed, without what depends on when it is."""
    text = re.sub(r'"(age|at)":[\d.]+', r'"\1":0', text)
    return re.sub(r" +", " ", re.sub(r"\b\d+[hms](\d\d[ms])?\b", "0s", text))


@pytest.fixture
def settings(thread_id: str) -> WorkerSettings:
    """A worker that continues runs as new every few steps."""
    return WorkerSettings(task_queue=thread_id, history_budget=HistoryBudget(events=30), sweep_interval=None)


COMMANDS: list[Callable[[str, str], list[str]]] = [
    lambda waits, _closed: ["status", waits],
    lambda waits, _closed: ["status", waits, "--json"],
    lambda _waits, closed: ["status", closed],
    lambda waits, _closed: ["show", waits],
    lambda _waits, closed: ["show", closed],
    lambda waits, _closed: ["tree", waits],
    lambda _waits, closed: ["tree", closed],
    lambda waits, closed: ["diff", waits, closed],
    lambda waits, _closed: ["inbox", "--thread", waits],
    lambda waits, _closed: ["undelivered", waits],
    lambda _waits, closed: ["why", closed],
    lambda _waits, closed: ["watch", closed, "--json"],
    lambda waits, _closed: ["replay", waits],
]


async def run_all(waits: str, closed: str, address: str) -> dict[str, Ran]:
    """What each command prints, by its command line."""
    lines = [command(waits, closed) for command in COMMANDS]
    ran = await asyncio.gather(*(wakeful(*line, address=address) for line in lines))
    return {" ".join(line): each for line, each in zip(lines, ran, strict=True)}


async def test_every_reading_command_prints_the_same_without_a_worker(
    temporal: TemporalClient, address: str, thread_id: str, settings: WorkerSettings
) -> None:
    async with Client(temporal, task_queue=thread_id) as client:
        async with running_worker(temporal, registry, settings):
            waits, closed = await threads_of_every_kind(client, thread_id)
            asked = await run_all(waits, closed, address)
        assert [ran for ran in asked.values() if ran.code or not ran.out + ran.err] == []
        alone = await run_all(waits, closed, address)
        assert {line: without_times(ran.out) for line, ran in alone.items()} == {
            line: without_times(ran.out) for line, ran in asked.items()
        }
        await client.handle(waits).terminate()


async def test_a_thread_is_forked_and_woken_while_no_worker_runs(
    temporal: TemporalClient, address: str, thread_id: str, settings: WorkerSettings
) -> None:
    async with Client(temporal, task_queue=thread_id) as client:
        async with running_worker(temporal, registry, settings):
            answer = (
                await client.run("node", written(plan([("work", {"what": "dig"})])), thread_id=thread_id)
            ).response
        fork = ["fork", thread_id, "--at", "1", "--as", f"{thread_id}-fork", "--detach"]
        assert (await wakeful(*fork, address=address)).out == f"{thread_id}-fork\n"
        again = written(plan(say="again"))
        sent = await wakeful("send", thread_id, again, "--task-queue", thread_id, address=address)
        assert sent.code == 0, sent.err
        async with running_worker(temporal, registry, settings):
            assert (await client.result(f"{thread_id}-fork")).response == answer
            await until(client, thread_id, lambda view: view.runs == 2 and view.status is RunStatus.DONE)
            await client.close(thread_id)
            await client.result(thread_id)


async def test_status_says_that_what_was_sent_waits_for_a_worker(
    temporal: TemporalClient, address: str, thread_id: str, settings: WorkerSettings
) -> None:
    async with Client(temporal, task_queue=thread_id) as client:
        async with running_worker(temporal, registry, settings):
            await client.start("node", written(plan()), thread_id=thread_id, mode=ThreadMode.THREAD)
            await until(client, thread_id, lambda view: view.status is RunStatus.DONE)
            handled = (await wakeful("status", thread_id, address=address)).out
        assert "worker " not in handled
        assert (await wakeful("status", thread_id, address=address)).out == handled
        await client.send(thread_id, "hello")
        lines = (await wakeful("status", thread_id, address=address)).out.splitlines()
        (worker,) = [line for line in lines if line.startswith("worker ")]
        assert re.fullmatch(r"worker   none has handled what arrived .* ago \(.*\): wakeful why " + thread_id, worker)
        (sent,) = [line for line in lines if line.startswith("sent ")]
        assert re.fullmatch(r"sent     a message by .*, sent .* ago \(.*\): no worker has handled it yet", sent)
        assert [line for line in lines if line not in (worker, sent)] == handled.splitlines()
        await client.handle(thread_id).terminate()
