"""A thread and its sub-agents as one stream: each once, and nobody before what made them speak."""

from temporalio.client import Client as TemporalClient

from tests.support.resetting import reset
from tests.support.subagent_app import delegate, plan, spawn, written
from tests.support.subagent_app import registry as family
from tests.support.waiting import until
from tests.support.watched import Watched, by_thread, check_causes
from wakeful.client.client import Client
from wakeful.contract.events import ChildStarted, EventRecord, RunFinish
from wakeful.contract.runs import RunStatus, ThreadMode
from wakeful.worker import WorkerSettings, running_worker

THREAD = ThreadMode.THREAD


def work(what: str) -> tuple[str, dict[str, object]]:
    return "work", {"what": what, "seconds": 0.05}


def tree() -> str:
    """A delegate with a delegate and a background tool below it, beside two background sub-agents."""
    leaf = plan([work("leaf")], say="leaf")
    inner = plan([delegate(leaf), ("dig", {"where": "well", "seconds": 0.1})], [work("inner")], say="inner")
    spawned = [spawn(plan([work(f"task {n}")], [delegate(leaf)], say=f"task {n}")) for n in range(2)]
    return written(plan([*spawned, delegate(inner)], [work("root"), delegate(leaf)], say="root"))


async def each_alone(client: Client, records: list[EventRecord]) -> dict[str, list[EventRecord]]:
    """What every thread of the stream tells to whoever watches it alone."""
    threads = {record.thread_id for record in records}
    return {thread: [record async for record in client.watch(thread)] for thread in threads}


async def test_sub_agents_are_told_of_between_their_start_and_their_end(
    either_subagents: Client, thread_id: str
) -> None:
    client = either_subagents
    await client.start("node", tree(), thread_id=thread_id)
    meanwhile = [record async for record in client.watch(thread_id, below=True, live=True)]
    afterwards = [record async for record in client.watch(thread_id, below=True)]
    for records in (meanwhile, afterwards):
        assert check_causes(records) == 7
        assert by_thread(records) == await each_alone(client, records)
        assert isinstance(records[-1].event, RunFinish)
        assert records[-1].thread_id == thread_id
    depths = {len(record.path) for record in afterwards}
    assert depths == {0, 1, 2}


async def test_a_stream_of_many_threads_is_resumed_from_the_last_number_of_each(
    either_subagents: Client, thread_id: str
) -> None:
    client = either_subagents
    await client.start("node", tree(), thread_id=thread_id)
    records: list[EventRecord] = []
    after: dict[str, int] = {}
    is_over = False
    while not is_over:
        taken, is_over = 0, True
        async for record in client.watch(thread_id, after=after, below=True):
            records.append(record)
            after[record.thread_id] = record.seq
            taken += 1
            if taken == 9:
                is_over = False
                break
    assert check_causes(records) == 7
    assert by_thread(records) == await each_alone(client, records)


async def test_a_sub_agent_that_waits_for_a_decision_holds_up_nobody(either_subagents: Client, thread_id: str) -> None:
    client = either_subagents
    waiting = plan([("sign", {"what": "it"})], say="signed")
    await client.start("node", written(plan([delegate(waiting)], [work("root")])), thread_id=thread_id)
    async with Watched(client.watch(thread_id, below=True)) as watched:
        asked = await watched.until(lambda record: bool(record.path) and isinstance(record.event, RunFinish))
        view = await until(client, asked.thread_id, lambda view: bool(view.pending))
        await client.decide(asked.thread_id, view.pending[0].pending.id, "resume")
        records = await watched.to_the_end()
    assert check_causes(records) == 1
    assert by_thread(records) == await each_alone(client, records)


async def test_a_sub_agent_that_is_terminated_ends_its_part(either_subagents: Client, thread_id: str) -> None:
    client = either_subagents
    await client.start("node", written(plan([delegate(plan([("hold", {"seconds": 300})]))])), thread_id=thread_id)
    async with Watched(client.watch(thread_id, below=True)) as watched:
        started = await watched.until_type("child_started")
        assert isinstance(started.event, ChildStarted)
        child = started.event.thread_id
        await until(client, child, lambda view: view.status is RunStatus.RUNNING and view.steps > 0)
        await client.handle(child).terminate()
        records = await watched.to_the_end()
    assert isinstance(records[-1].event, RunFinish)
    assert check_causes(records) == 1


async def test_sub_agents_wait_for_a_worker_together(temporal: TemporalClient, thread_id: str) -> None:
    """Nobody answers for the whole tree: that is one trouble, and all of it is told in the end."""
    client, settings = Client(temporal, task_queue=thread_id), WorkerSettings(task_queue=thread_id)
    waiting = plan([("sign", {"what": "it"})], say="signed")
    async with running_worker(temporal, family, settings):
        await client.start("node", written(plan([delegate(waiting), delegate(waiting)])), thread_id=thread_id)
        view = await until(client, thread_id, lambda view: len(view.children) == 2)
        asked = [await until(client, child, lambda view: bool(view.pending)) for child in view.children]
    troubles: list[Exception] = []
    async with Watched(client.watch(thread_id, below=True, on_trouble=troubles.append)) as watched:
        for child in asked:
            await client.decide(child.identity.thread_id, child.pending[0].pending.id, "resume")
        await watched.until_trouble(troubles)
        async with running_worker(temporal, family, settings):
            records = await watched.to_the_end()
            assert by_thread(records) == await each_alone(client, records)
    assert check_causes(records) == 2
    assert len(troubles) == 1


async def test_a_rewind_undoes_sub_agents_that_were_started_since(usual_subagents: Client, thread_id: str) -> None:
    client = usual_subagents
    leaf = plan([work("leaf")], say="leaf")
    await client.start("node", written(plan([work("first")], [delegate(leaf)])), thread_id=thread_id, mode=THREAD)
    async with Watched(client.watch(thread_id, below=True)) as watched:
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
    kept = [record for record in records[:at] if record.seq <= undone.seq and not record.path] + records[at + 1 :]
    assert by_thread(kept) == await each_alone(client, kept)
    assert check_causes(kept) == 1
