"""Threads are read from history alone: without a worker, up to the last completed workflow task, and once."""

import asyncio
import gc
import sys
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollWorkflowTaskQueueRequest, RespondWorkflowTaskFailedRequest
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowQueryFailedError

from tests.history.conftest import Working
from tests.support.processes import ROOT
from tests.support.subagent_app import plan, written
from tests.support.waiting import BOUND_SECONDS, until_status
from wakeful import RunStatus
from wakeful.client.client import Client
from wakeful.contract import names
from wakeful.contract.errors import CallerError, InternalError, NotStarted, ThreadNotFound, WakefulError
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import ThreadMode
from wakeful.contract.views import StatusView
from wakeful.history.reader import HistoryReader

TASK_STARTED = EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED


async def suspended(client: Client, working: Working) -> str:
    """A thread that waits for a decision, and has no worker any more."""
    thread_id = client.task_queue
    async with working(client):
        await client.start("tester", "approve", thread_id=thread_id)
        await until_status(client, thread_id, RunStatus.WAITING)
    return thread_id


async def take_task(client: Client) -> bytes:
    """Start a workflow task as a worker does; the token is what completes it."""
    request = PollWorkflowTaskQueueRequest(
        namespace=client.temporal.namespace, task_queue=TaskQueue(name=client.task_queue), identity="a test"
    )
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            task = await client.temporal.workflow_service.poll_workflow_task_queue(request)
            if task.task_token:
                return task.task_token


async def newest_event(client: Client) -> int:
    history = await client.handle(client.task_queue).fetch_history()
    return history.events[-1].event_type


async def test_a_thread_is_read_without_a_worker(alone: Client, working: Working, reader: HistoryReader) -> None:
    thread_id = await suspended(alone, working)
    reading = await reader.read(thread_id)
    assert reading.status.status is RunStatus.WAITING
    assert [ticket.pending.name for ticket in reading.status.pending] == ["approve"]
    assert [message.role for message in reading.messages] == ["user", "assistant"]
    assert [record.seq for record in reading.events] == [*range(1, len(reading.events) + 1)]
    assert (reading.is_done, reading.is_restoring, reading.in_flight) == (False, False, ())
    assert reading.state.values == {}


async def test_what_no_workflow_task_has_handled_is_not_shown(
    alone: Client, working: Working, reader: HistoryReader, replays: list[str]
) -> None:
    thread_id = await suspended(alone, working)
    replays.clear()
    before = await reader.read(thread_id)
    await alone.decide(thread_id, before.status.pending[0].pending.id, "resume")
    await alone.submit(thread_id, "hello")
    assert await reader.read(thread_id) == before
    assert replays == [thread_id]
    async with working(alone):
        await until_status(alone, thread_id, RunStatus.DONE)
    replays.clear()
    assert (await reader.read(thread_id)).status.status is RunStatus.DONE
    assert replays == [thread_id]


async def test_a_workflow_task_that_is_under_way_or_has_failed_is_not_shown(
    alone: Client, working: Working, reader: HistoryReader
) -> None:
    thread_id = await suspended(alone, working)
    before = await reader.read(thread_id)
    await alone.submit(thread_id, "hello")
    token = await take_task(alone)
    assert await newest_event(alone) == TASK_STARTED
    assert await HistoryReader(alone.temporal).read(thread_id) == before
    await alone.temporal.workflow_service.respond_workflow_task_failed(
        RespondWorkflowTaskFailedRequest(
            namespace=alone.temporal.namespace,
            task_token=token,
            cause=WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE,
        )
    )
    assert await HistoryReader(alone.temporal).read(thread_id) == before
    assert await reader.read(thread_id) == before


async def test_a_terminated_thread_is_shown_as_its_last_task_left_it(
    alone: Client, working: Working, reader: HistoryReader
) -> None:
    thread_id = await suspended(alone, working)
    before = await reader.read(thread_id)
    await alone.cancel(thread_id, reason="too late")
    await alone.handle(thread_id).terminate("a test")
    assert await HistoryReader(alone.temporal).read(thread_id) == before


async def test_a_thread_that_no_worker_has_started_cannot_be_read(alone: Client, reader: HistoryReader) -> None:
    await alone.start("tester", "hello", thread_id=alone.task_queue)
    with pytest.raises(NotStarted, match=r"has not started: no worker has completed a workflow task of execution .*;"):
        await reader.read(alone.task_queue)
    await alone.handle(alone.task_queue).terminate("a test")
    with pytest.raises(NotStarted):
        await reader.query(alone.task_queue, names.QUERY_STATUS, StatusView)


async def test_the_execution_before_has_a_thread_that_no_worker_has_taken_over(
    alone: Client, working: Working, reader: HistoryReader
) -> None:
    thread_id = alone.task_queue
    async with working(alone):
        await alone.run("tester", "add", thread_id=thread_id)
    closed = await reader.read(thread_id)
    wakes = RunRequest(agent_id="tester", input="hello", restore_from=closed.execution.run_id)
    woken = await alone.temporal.start_workflow(names.WORKFLOW, wakes, id=thread_id, task_queue=thread_id)
    assert await reader.read(thread_id) == closed
    with pytest.raises(NotStarted):
        await reader.read(thread_id, run_id=woken.first_execution_run_id)
    await woken.terminate("a test")


async def test_a_worker_and_a_reader_reject_a_query_with_the_same_words(client: Client, thread_id: str) -> None:
    await client.run("tester", "add", thread_id=thread_id)
    reader = HistoryReader(client.temporal)
    rejected: list[tuple[str, Any]] = [
        ("weather", None),
        (names.QUERY_EVENTS, {"after": -1}),
        (names.QUERY_FORK_POINT, "x"),
    ]
    for name, argument in rejected:
        with pytest.raises(WakefulError) as read:
            await reader.query(thread_id, name, dict, argument)
        with pytest.raises(WorkflowQueryFailedError) as asked:
            await client.handle(thread_id).query(name, args=[argument])
        assert str(read.value) == f"query {name!r} of thread {thread_id!r} failed: {asked.value}"
    await reader.aclose()


async def test_threads_that_do_not_exist_and_other_workflows_are_named(
    temporal: TemporalClient, reader: HistoryReader, thread_id: str, replays: list[str]
) -> None:
    with pytest.raises(ThreadNotFound):
        await reader.read(thread_id)
    handle = await temporal.start_workflow("Order", id=f"{thread_id}-order", task_queue=thread_id)
    with pytest.raises(CallerError, match=r"is no thread but a 'Order'"):
        await reader.read(handle.id)
    await handle.terminate()
    assert replays == []


async def test_a_background_tool_is_read(usual_subagents: Client, reader: HistoryReader, thread_id: str) -> None:
    await usual_subagents.run("node", written(plan([("dig", {"where": "here"})])), thread_id=thread_id)
    (task,) = (await reader.query(thread_id, names.QUERY_STATUS, StatusView)).tasks
    assert task.thread_id is not None
    status = await reader.query(task.thread_id, names.QUERY_STATUS, dict)
    assert status == {"task_id": task.task_id, "tool": "dig", "status": "completed"}


async def test_concurrent_readers_share_a_replay(
    alone: Client, working: Working, reader: HistoryReader, replays: list[str]
) -> None:
    thread_id = await suspended(alone, working)
    replays.clear()
    readers = [asyncio.create_task(reader.read(thread_id)) for _ in range(10)]
    async with asyncio.timeout(BOUND_SECONDS):
        while not replays:
            await asyncio.sleep(0)
    readers[0].cancel()
    readings = await asyncio.gather(*readers[1:])
    assert all(reading == readings[0] for reading in readings)
    assert (readers[0].cancelled(), replays) == (True, [thread_id])


async def test_a_reader_that_comes_when_a_replay_has_just_ended_begins_another(
    alone: Client, working: Working, reader: HistoryReader
) -> None:
    """Awaiting the one that has ended would not yield to the event loop, which forgets it only in its next turn."""
    thread_id = await suspended(alone, working)
    await alone.submit(thread_id, "hello")
    described = await alone.handle(thread_id).describe()  # with a pending task: nothing that is kept is known to be new
    first = asyncio.create_task(reader._replayed_execution(described))
    async with asyncio.timeout(BOUND_SECONDS):
        while not any(replay.done() for replay in reader._replays.values()):
            await asyncio.sleep(0)
        assert await reader._replayed_execution(described) is await first
    assert reader._replays == {}


async def test_a_reader_awaits_at_most_two_replays_however_many_read_beside_it(
    alone: Client, working: Working, reader: HistoryReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay, begun = reader._replay, 0

    async def counting(*args: Any) -> None:
        nonlocal begun
        begun += 1
        await replay(*args)

    monkeypatch.setattr(reader, "_replay", counting)
    thread_id = await suspended(alone, working)
    await alone.submit(thread_id, "hello")
    described = await alone.handle(thread_id).describe()
    await asyncio.gather(*(reader._replayed_execution(described) for _ in range(10)))
    assert begun == 2


async def test_the_event_loop_keeps_running_during_a_replay(
    client: Client, reader: HistoryReader, thread_id: str
) -> None:
    await client.run("tester", "count", thread_id=thread_id)
    ticks = 0
    reading = asyncio.create_task(reader.read(thread_id))
    while not reading.done():
        await asyncio.sleep(0)
        ticks += 1
    assert len((await reading).messages) > 20
    assert ticks > 100
    assert asyncio.get_running_loop().is_running()


@pytest.mark.parametrize("bound", [{"max_kept": 1}, {"max_kept_bytes": 1}])
async def test_a_reader_keeps_a_bounded_number_of_executions_and_bytes(
    client: Client, thread_id: str, replays: list[str], bound: dict[str, Any]
) -> None:
    first, second = f"{thread_id}-1", f"{thread_id}-2"
    for thread in (first, second):
        await client.run("tester", "hello", thread_id=thread)
    reader = HistoryReader(client.temporal, **bound)
    one = await reader.read(first)
    (kept,) = reader._kept.values()
    assert (await reader.read(second)).execution.thread_id == second
    assert kept.workflow.is_dropped
    with pytest.raises(InternalError, match="after it was dropped"):
        await kept.query(names.QUERY_STATUS, StatusView)
    assert await reader.read(first) == one
    assert replays == [first, second, first]
    both = await asyncio.gather(*(reader.read(thread) for thread in (first, second, first, second)))
    assert [reading.execution.thread_id for reading in both] == [first, second, first, second]
    await reader.aclose()


async def first_execution(client: Client, thread_id: str) -> str:
    (started,) = [event async for event in client.handle(thread_id).fetch_history_events(page_size=1)][:1]
    return started.workflow_execution_started_event_attributes.first_execution_run_id


async def test_every_execution_of_a_chain_is_read(
    restless_client: Client, reader: HistoryReader, thread_id: str
) -> None:
    await restless_client.start("tester", "add", thread_id=thread_id, mode=ThreadMode.THREAD)
    await until_status(restless_client, thread_id, RunStatus.DONE)
    newest = await reader.read(thread_id)
    assert [record.seq for record in newest.events] == [*range(1, len(newest.events) + 1)]
    first = await first_execution(restless_client, thread_id)
    earliest = await reader.read(thread_id, run_id=first)
    assert (earliest.execution.run_id, earliest.is_done) == (first, False)
    assert 0 < len(earliest.events) < len(newest.events)
    assert newest.events[: len(earliest.events)] == earliest.events
    await restless_client.close(thread_id)


async def test_a_reader_that_is_not_closed_drops_what_it_keeps(client: Client, thread_id: str) -> None:
    await client.run("tester", "hello", thread_id=thread_id)
    reader = HistoryReader(client.temporal)
    await reader.read(thread_id)
    (kept,) = reader._kept.values()
    del reader
    gc.collect()
    assert kept.workflow.is_dropped


PROGRAM = """
import asyncio, sys
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from wakeful.history.reader import HistoryReader

async def main():
    temporal = await Client.connect(sys.argv[1], data_converter=pydantic_data_converter)
    global reader
    reader = HistoryReader(temporal)
    return (await reader.read(sys.argv[2])).status.status

print(asyncio.run(main()), end="")
"""


async def test_a_program_that_only_reads_ends_silently(alone: Client, working: Working) -> None:
    """The SDK would log to stdout, and Python would report the tasks of a workflow that was never evicted."""
    thread_id = await suspended(alone, working)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, alone.temporal.service_client.config.target_host, thread_id),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(BOUND_SECONDS):
        out, err = await process.communicate()
    assert (process.returncode, out.decode(), err.decode()) == (0, "waiting", "")
