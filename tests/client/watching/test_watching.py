"""Events of a thread, through all its executions: each once, in order, the same whenever they are read."""

import asyncio
from pathlib import Path

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.app import registry
from tests.support.folding import folded
from tests.support.resetting import reset
from tests.support.waiting import BOUND_SECONDS, until, until_status
from tests.support.watched import Watched
from wakeful import CallerError, NoAnswer, RunStatus, ThreadNotFound
from wakeful.client.client import Client
from wakeful.client.watching import watcher
from wakeful.connection import Address, connect, embedded_server
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.events import ErrorEvent, EventRecord, RunFinish, StreamReset
from wakeful.contract.runs import ThreadMode
from wakeful.contract.views import EventsPage
from wakeful.worker import WorkerSettings, running_worker


@pytest.fixture
def client(either_client: Client) -> Client:
    return either_client


async def seen(client: Client, thread_id: str, after: int = 0) -> list[EventRecord]:
    return [record async for record in client.watch(thread_id, after=after)]


async def test_a_run_that_continued_as_new_reads_afterwards_as_it_did_live(
    temporal: TemporalClient, thread_id: str
) -> None:
    settings = WorkerSettings(task_queue=thread_id, history_budget=HistoryBudget(events=40))
    client = Client(temporal, task_queue=thread_id)
    async with running_worker(temporal, registry, settings):
        await client.start("tester", "count", thread_id=thread_id)
        async with Watched(client.watch(thread_id)) as plain, Watched(client.watch(thread_id, live=True)) as live:
            meanwhile, live_records = await plain.to_the_end(), await live.to_the_end()
        afterwards, live_afterwards = (
            await seen(client, thread_id),
            [r async for r in client.watch(thread_id, live=True)],
        )
        executions = [each async for each in temporal.list_workflows(f"WorkflowId = '{thread_id}'")]
    assert len(executions) >= 3
    assert meanwhile == afterwards == live_afterwards
    assert [record.seq for record in afterwards] == list(range(1, len(afterwards) + 1))
    assert folded(live_records).answers == folded(afterwards).answers


async def test_a_watcher_can_wait_for_a_thread_that_does_not_exist_yet(client: Client, thread_id: str) -> None:
    async with Watched(client.watch(thread_id, wait=True)) as early:
        await client.run("tester", "add", thread_id=thread_id)
        assert await early.to_the_end() == await seen(client, thread_id)
    with pytest.raises(CallerError, match="thread id"):
        client.watch("", wait=True)


async def test_a_watcher_resumes_from_any_number(client: Client, thread_id: str) -> None:
    await client.run("tester", "add", thread_id=thread_id)
    records = await seen(client, thread_id)
    for number in range(len(records) + 1):
        assert await seen(client, thread_id, after=number) == records[number:]


async def test_a_thread_that_was_closed_and_woken_continues_its_numbers(client: Client, thread_id: str) -> None:
    await client.run("tester", "add", thread_id=thread_id)
    before = await seen(client, thread_id)
    await client.send(thread_id, "add")
    async with Watched(client.watch(thread_id, after=len(before))) as woken:
        await woken.until_type("run_finish")
    async with Watched(client.watch(thread_id)) as whole:
        await whole.until(lambda record: record.seq == woken.records[-1].seq)
    assert whole.records == before + woken.records
    assert [record.seq for record in whole.records] == list(range(1, len(whole.records) + 1))


@pytest.mark.parametrize("descendants", [False, True])
async def test_a_thread_that_was_terminated_before_it_started_has_only_the_error(
    usual_client: Client, thread_id: str, descendants: bool
) -> None:
    """B-702"""
    idle = Client(usual_client.temporal, task_queue=f"{thread_id}-no-worker")
    await idle.start("tester", "add", thread_id=thread_id)
    await idle.handle(thread_id).terminate(reason="by hand")
    async with asyncio.timeout(BOUND_SECONDS):
        [record] = [record async for record in usual_client.watch(thread_id, descendants=descendants)]
    assert (record.seq, record.thread_id, record.provisional) == (0, thread_id, True)
    error = f"thread {thread_id!r} was terminated in Temporal: by hand"
    assert record.event == ErrorEvent(message=error, code="terminated")


async def test_a_thread_that_was_started_over_is_watched_from_its_new_start(client: Client, thread_id: str) -> None:
    await client.run("tester", "count", thread_id=thread_id)
    last = (await seen(client, thread_id))[-1].seq
    await client.run("tester", "add", thread_id=thread_id, again=True)
    restarted = await seen(client, thread_id)
    assert len(restarted) < last
    again = await seen(client, thread_id, after=last)
    assert (again[0].seq, again[0].event, again[1:]) == (0, StreamReset(reason="rewound"), restarted)


async def test_another_workflow_is_not_a_thread(client: Client, thread_id: str) -> None:
    handle = await client.temporal.start_workflow("Else", id=thread_id, task_queue=f"{thread_id}-no-worker")
    with pytest.raises(ThreadNotFound):
        await seen(client, thread_id)
    await handle.terminate()


async def test_many_watchers_add_nothing_to_history(client: Client, thread_id: str) -> None:
    alone, watched = f"{thread_id}-alone", f"{thread_id}-watched"
    for thread in (alone, watched):
        await client.start("tester", "approve", thread_id=thread)
    watches = [client.watch(watched, live=number % 2 == 0) for number in range(8)]
    tasks = [asyncio.create_task(_gather(watch)) for watch in watches]
    for thread in (alone, watched):
        view = await until_status(client, thread, RunStatus.WAITING)
        await client.decide(thread, view.pending[0].pending.id, "resume", result="yes")
        await client.result(thread)
    lists = await asyncio.gather(*tasks)
    assert all(records == lists[0] for records in lists)
    lengths = [(await client.handle(thread).describe()).history_length for thread in (alone, watched)]
    assert lengths[0] == lengths[1]


async def _gather(watch: object) -> list[EventRecord]:
    return [record async for record in watch]  # type: ignore[attr-defined]


async def test_a_thread_that_does_not_exist_is_an_error_at_once(client: Client) -> None:
    with pytest.raises(ThreadNotFound, match="no thread 'unheard-of'"):
        await seen(client, "unheard-of")


async def test_a_thread_that_is_terminated_ends_its_stream_with_an_error(client: Client, thread_id: str) -> None:
    """B-702: no `run_finish` can follow, and no number is used for it."""
    await client.start("tester", "approve", thread_id=thread_id)
    await until_status(client, thread_id, RunStatus.WAITING)
    async with Watched(client.watch(thread_id)) as watched:
        paused = await watched.until_type("run_finish")
        await client.handle(thread_id).terminate(reason="by hand")
        records = await watched.to_the_end()
    error = f"thread {thread_id!r} was terminated in Temporal: by hand"
    assert records[-1] == paused.model_copy(
        update={"at": records[-1].at, "provisional": True, "event": ErrorEvent(message=error, code="terminated")}
    )
    assert await seen(client, thread_id) == records
    assert await seen(client, thread_id, after=paused.seq) == records[-1:]


@pytest.mark.faults
async def test_a_watcher_reports_an_outage_of_the_workers_once(temporal: TemporalClient, thread_id: str) -> None:
    client, settings = Client(temporal, task_queue=thread_id), WorkerSettings(task_queue=thread_id)
    async with running_worker(temporal, registry, settings):
        await client.start("tester", "approve", thread_id=thread_id)
        view = await until_status(client, thread_id, RunStatus.WAITING)
    troubles: list[Exception] = []
    async with Watched(client.watch(thread_id, on_trouble=troubles.append)) as watched:
        await client.decide(thread_id, view.pending[0].pending.id, "resume", result="yes")
        await watched.until_trouble(troubles)
        async with running_worker(temporal, registry, settings):
            records = await watched.to_the_end()
            assert records == await seen(client, thread_id)
    assert [type(trouble) for trouble in troubles] == [NoAnswer]


@pytest.mark.faults
async def test_a_watcher_survives_a_restart_of_the_server(tmp_path: Path, thread_id: str) -> None:
    database = tmp_path / "wakeful.db"
    troubles: list[Exception] = []
    async with embedded_server(database=database, ui=False) as server:
        host = server.client.service_client.config.target_host
        watching = Client(await connect(Address(host)))
        client = Client(server.client)
        async with running_worker(server.client, registry):
            await client.start("tester", "approve", thread_id=thread_id)
            view = await until_status(client, thread_id, RunStatus.WAITING)
            watched = Watched(watching.watch(thread_id, live=True, on_trouble=troubles.append))
            await watched.__aenter__()
            await watched.until_type("run_finish")
    await watched.until_trouble(troubles)
    async with embedded_server(database=database, ui=False, port=int(host.rpartition(":")[2])) as server:
        client = Client(server.client)
        async with running_worker(server.client, registry):
            await client.decide(thread_id, view.pending[0].pending.id, "resume", result="yes")
            records = await watched.to_the_end()
            assert records == await seen(client, thread_id)
        await watched.__aexit__(None, None, None)
    assert len(troubles) == 1


def check_rewound(records: list[EventRecord], stored: list[EventRecord]) -> None:
    """A reader who drops what is undone has what is recorded."""
    retained: list[EventRecord] = []
    for record in records:
        if isinstance(record.event, StreamReset) and record.provisional:
            retained = [each for each in retained if each.seq <= record.seq]
        else:
            retained.append(record)
    assert retained == stored


@pytest.mark.parametrize("share", [0.1, 0.9])
async def test_a_watcher_follows_a_thread_that_is_reset(client: Client, thread_id: str, share: float) -> None:
    """It yields which events are retained, and then those that replace the others."""
    await client.start("tester", "approve", thread_id=thread_id, mode=ThreadMode.THREAD)
    await until_status(client, thread_id, RunStatus.WAITING)
    await client.send(thread_id, "count", on_busy="interrupt")
    view = await until(client, thread_id, lambda view: view.status is RunStatus.DONE and view.runs == 2)
    assert view.result is not None
    newest = (await client.events(thread_id, after=0)).last
    run_id = (await client.handle(thread_id).describe()).run_id
    before = await until_quiet(client, thread_id)
    async with Watched(client.watch(thread_id)) as watched:
        await watched.until(lambda record: record.seq == before)
        await reset(client, thread_id, run_id=run_id, share=share)
        await watched.until_type("stream_reset", provisional=True)
        await until(client, thread_id, lambda view: view.status is RunStatus.DONE)
        await client.handle(thread_id).cancel()
        records = await watched.to_the_end()
    assert newest <= before
    check_rewound(records, await seen(client, thread_id))
    beyond = await seen(client, thread_id, after=10_000)
    forgotten = beyond[0]
    assert (forgotten.provisional, forgotten.event) == (True, StreamReset(reason="rewound"))
    assert [record.seq for record in beyond[1:]] == list(range(forgotten.seq + 1, beyond[-1].seq + 1))


async def until_quiet(client: Client, thread_id: str) -> int:
    """The number of the thread's newest event."""
    number = 0
    async for record in client.watch(thread_id):
        number = record.seq
        if isinstance(record.event, RunFinish) and record.run_id.endswith(".2"):
            break
    return number


async def test_a_worker_that_has_the_run_as_it_was_earlier_undoes_nothing(
    usual_client: Client, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()

    async def earlier(*_args: object, after: int, **_how: object) -> EventsPage:
        asked.append(after)
        if not after:
            raise NoAnswer("no worker has it yet")
        return EventsPage(events=(), last=max(0, after - 1), done=False)

    monkeypatch.setattr(watcher, "ask_for_events", earlier)
    await usual_client.start("tester", "count", thread_id=thread_id)
    async with Watched(usual_client.watch(thread_id)) as watched:
        records = await watched.to_the_end()
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert any(asked)
