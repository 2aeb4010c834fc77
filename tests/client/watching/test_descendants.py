"""A thread and its sub-agents as one stream: each record once, and none before the record that caused it."""

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.resetting import reset
from tests.support.subagent_app import delegate, plan, spawn, written
from tests.support.subagent_app import registry as subagent_registry
from tests.support.waiting import until
from tests.support.watched import Watched, by_thread, check_causal_order
from wakeful.client.client import Client
from wakeful.contract.events import ChildStarted, ErrorEvent, EventRecord, RunFinish
from wakeful.contract.runs import RunStatus, ThreadMode
from wakeful.worker import WorkerSettings, running_worker

THREAD = ThreadMode.THREAD


def work(what: str) -> tuple[str, dict[str, object]]:
    return "work", {"what": what, "seconds": 0.05}


def tree() -> str:
    """A delegate that has a delegate and a background tool, beside two background sub-agents."""
    leaf = plan([work("leaf")], say="leaf")
    inner = plan([delegate(leaf), ("dig", {"where": "well", "seconds": 0.1})], [work("inner")], say="inner")
    spawned = [spawn(plan([work(f"task {n}")], [delegate(leaf)], say=f"task {n}")) for n in range(2)]
    return written(plan([*spawned, delegate(inner)], [work("root"), delegate(leaf)], say="root"))


async def each_alone(client: Client, records: list[EventRecord]) -> dict[str, list[EventRecord]]:
    """The records of every thread of the stream when it is watched alone."""
    threads = {record.thread_id for record in records}
    return {thread: [record async for record in client.watch(thread)] for thread in threads}


async def test_records_of_sub_agents_come_between_their_start_and_their_end(
    either_subagents: Client, thread_id: str
) -> None:
    client = either_subagents
    await client.start("node", tree(), thread_id=thread_id)
    live = [record async for record in client.watch(thread_id, descendants=True, live=True)]
    afterwards = [record async for record in client.watch(thread_id, descendants=True)]
    for records in (live, afterwards):
        assert check_causal_order(records) == 7
        assert by_thread(records) == await each_alone(client, records)
        assert isinstance(records[-1].event, RunFinish)
        assert records[-1].thread_id == thread_id
    depths = {len(record.path) for record in afterwards}
    assert depths == {0, 1, 2}


@pytest.mark.faults
async def test_a_stream_of_many_threads_resumes_from_the_last_number_of_each(
    either_subagents: Client, thread_id: str
) -> None:
    client = either_subagents
    await client.start("node", tree(), thread_id=thread_id)
    records: list[EventRecord] = []
    after: dict[str, int] = {}
    is_over = False
    while not is_over:
        taken, is_over = 0, True
        async for record in client.watch(thread_id, after=after, descendants=True):
            records.append(record)
            after[record.thread_id] = record.seq
            taken += 1
            if taken == 9:
                is_over = False
                break
    assert check_causal_order(records) == 7
    assert by_thread(records) == await each_alone(client, records)


async def test_a_sub_agent_that_waits_for_a_decision_blocks_no_other(either_subagents: Client, thread_id: str) -> None:
    client = either_subagents
    waiting = plan([("sign", {"what": "it"})], say="signed")
    await client.start("node", written(plan([delegate(waiting)], [work("root")])), thread_id=thread_id)
    async with Watched(client.watch(thread_id, descendants=True)) as watched:
        waiting_child = await watched.until(lambda record: bool(record.path) and isinstance(record.event, RunFinish))
        view = await until(client, waiting_child.thread_id, lambda view: bool(view.pending))
        await client.decide(waiting_child.thread_id, view.pending[0].pending.id, "resume")
        records = await watched.to_the_end()
    assert check_causal_order(records) == 1
    assert by_thread(records) == await each_alone(client, records)


async def test_a_sub_agent_that_is_terminated_ends_its_stream(either_subagents: Client, thread_id: str) -> None:
    client = either_subagents
    await client.start("node", written(plan([delegate(plan([("hold", {"seconds": 300})]))])), thread_id=thread_id)
    async with Watched(client.watch(thread_id, descendants=True)) as watched:
        started = await watched.until_type("child_started")
        assert isinstance(started.event, ChildStarted)
        child = started.event.thread_id
        await until(client, child, lambda view: view.status is RunStatus.RUNNING and view.steps > 0)
        await client.handle(child).terminate()
        records = await watched.to_the_end()
    [error] = [record for record in records if isinstance(record.event, ErrorEvent)]
    assert (error.thread_id, error.path, error.agent_id) == (child, (child,), "node")
    assert isinstance(records[-1].event, RunFinish)
    assert check_causal_order(records) == 1


@pytest.mark.faults
async def test_an_outage_of_a_whole_tree_is_reported_once(temporal: TemporalClient, thread_id: str) -> None:
    """No worker answers for any thread of it; when one is back, every record comes."""
    client, settings = Client(temporal, task_queue=thread_id), WorkerSettings(task_queue=thread_id)
    waiting = plan([("sign", {"what": "it"})], say="signed")
    async with running_worker(temporal, subagent_registry, settings):
        await client.start("node", written(plan([delegate(waiting), delegate(waiting)])), thread_id=thread_id)
        view = await until(client, thread_id, lambda view: len(view.children) == 2)
        waiting_child = [await until(client, child, lambda view: bool(view.pending)) for child in view.children]
    troubles: list[Exception] = []
    async with Watched(client.watch(thread_id, descendants=True, on_trouble=troubles.append)) as watched:
        for child in waiting_child:
            await client.decide(child.identity.thread_id, child.pending[0].pending.id, "resume")
        await watched.until_trouble(troubles)
        async with running_worker(temporal, subagent_registry, settings):
            records = await watched.to_the_end()
            assert by_thread(records) == await each_alone(client, records)
    assert check_causal_order(records) == 2
    assert len(troubles) == 1


async def test_a_reset_undoes_sub_agents_that_were_started_since(usual_subagents: Client, thread_id: str) -> None:
    client = usual_subagents
    leaf = plan([work("leaf")], say="leaf")
    await client.start("node", written(plan([work("first")], [delegate(leaf)])), thread_id=thread_id, mode=THREAD)
    async with Watched(client.watch(thread_id, descendants=True)) as watched:
        await watched.until(lambda record: not record.path and isinstance(record.event, RunFinish))
        run_id = (await client.handle(thread_id).describe()).run_id
        await reset(client, thread_id, run_id=run_id, share=0.4)
        undone = await watched.until_type("stream_reset", provisional=True)
        await until(client, thread_id, lambda view: view.status is RunStatus.DONE)
        await client.handle(thread_id).cancel()
        records = await watched.to_the_end()
    at = records.index(undone)
    children = [record.event.thread_id for record in records if isinstance(record.event, ChildStarted)]
    assert len(set(children)) == 2
    retained = [record for record in records[:at] if record.seq <= undone.seq and not record.path] + records[at + 1 :]
    assert by_thread(retained) == await each_alone(client, retained)
    assert check_causal_order(retained) == 1
