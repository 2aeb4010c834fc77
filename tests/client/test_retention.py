"""A thread outlives its retention: its closed executions are deleted, and nothing that it said is missing."""

import asyncio
import lzma
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.common.v1 import Payload, WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client as TemporalClient
from temporalio.client import (
    DescribeWorkflowInput,
    Interceptor,
    ListWorkflowsInput,
    OutboundInterceptor,
    SignalWorkflowInput,
    StartWorkflowInput,
    WorkflowExecutionAsyncIterator,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowHandle,
)
from temporalio.common import RawValue
from temporalio.service import RPCError

from tests.support.processes import wakeful
from tests.support.waiting import BOUND_SECONDS, until
from wakeful import Agent, ModelResponse, Registry, RunResult, RunStatus, worker
from wakeful.client.client import Client
from wakeful.client.queries import query
from wakeful.contract import ids, names
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.archive import SegmentContent, SegmentHeader, ThreadClosed
from wakeful.contract.carryover import Carryover
from wakeful.contract.context import DEFAULT_SUMMARIZER_SYSTEM_PROMPT, ContextPolicy
from wakeful.contract.errors import OtherTenant, ThreadExists, ThreadExpired
from wakeful.contract.events import EventRecord
from wakeful.contract.inference import ModelRequest
from wakeful.contract.messages import Message
from wakeful.contract.runs import ThreadMode
from wakeful.history.archive import open_archives, read_last_archive
from wakeful.worker import WorkerSettings, running_worker
from wakeful_workflows import thread_archive
from wakeful_workflows.agent_run import NO_REQUEST, AgentRun

RUNNING = WorkflowExecutionStatus.RUNNING
LONG = 35_000
SUMMARY = "<conversation-summary>"
SUMMARISED = ContextPolicy(max_context_tokens=1_000_000, autocompact_threshold=100_000)


class Counting:
    """A model that says how much of the conversation it was shown, and summarises with the first and the last words."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        if request.instructions == DEFAULT_SUMMARIZER_SYSTEM_PROMPT:
            said = re.findall(r"message \d+ ", request.messages[0].text)
            return ModelResponse(model="m", text=f"from {said[0]}to {said[-1]}")
        summaries = [message.text.splitlines()[1] for message in request.messages if SUMMARY in message.text]
        return ModelResponse(model="m", text=" ".join([f"shown {len(request.messages)}", *summaries]))


@workflow.defn(name=names.WORKFLOW, sandboxed=False)
class Sleepy(AgentRun):
    """The workflow of another release, which sleeps first."""

    @workflow.run
    async def run(self, request: RawValue = NO_REQUEST) -> RunResult:
        await workflow.sleep(0.01)
        return await super().run(request)


@pytest.fixture
def client(temporal: TemporalClient, thread_id: str) -> Client:
    return Client(temporal, task_queue=thread_id)


@asynccontextmanager
async def a_worker(client: Client) -> AsyncIterator[None]:
    """A worker with empty caches, whose threads continue as new after 40 KB."""
    agents = [Agent(id="a", model="m"), Agent(id="brief", model="m", context=SUMMARISED)]
    registry = Registry(agents=agents, models={"m": Counting()})
    budget = HistoryBudget(bytes=40_000)
    settings = WorkerSettings(task_queue=client.task_queue, history_budget=budget, sweep_interval=None)
    async with running_worker(client.temporal, registry, settings):
        yield


async def talk(client: Client, thread_id: str, first: int, last: int) -> None:
    for number in range(first, last + 1):
        await client.send(thread_id, f"message {number} " + "x" * LONG, agent_id="a")
        await answered(client, thread_id, number)


async def answered(client: Client, thread_id: str, runs: int) -> str:
    view = await until(client, thread_id, lambda view: view.runs >= runs and view.status is RunStatus.DONE)
    assert view.result is not None
    return view.result.response


async def summarised(client: Client, thread_id: str) -> None:
    """Wait until the thread has its summary."""
    async with asyncio.timeout(BOUND_SECONDS):
        while (await query(client.temporal, thread_id, names.QUERY_CARRYOVER, Carryover)).compaction is None:
            await asyncio.sleep(0.1)


async def executions(client: Client, thread_id: str) -> list[tuple[str, WorkflowExecutionStatus | None]]:
    return [(each.run_id, each.status) async for each in client.temporal.list_workflows(f"WorkflowId = '{thread_id}'")]


async def delete_closed(client: Client, thread_id: str) -> int:
    """Delete the thread's closed executions, as the server does when their retention ends."""
    async with asyncio.timeout(BOUND_SECONDS):
        while len(running := [run for run, status in await executions(client, thread_id) if status is RUNNING]) > 1:
            await asyncio.sleep(0.1)  # visibility lags behind
    closed = [run for run, _ in await executions(client, thread_id) if run not in running]
    for run_id in closed:
        execution = WorkflowExecution(workflow_id=thread_id, run_id=run_id)
        request = DeleteWorkflowExecutionRequest(namespace=client.temporal.namespace, workflow_execution=execution)
        await client.temporal.workflow_service.delete_workflow_execution(request)
    async with asyncio.timeout(BOUND_SECONDS):
        for run_id in closed:
            while await exists(client, thread_id, run_id):
                await asyncio.sleep(0.05)
    return len(closed)


async def exists(client: Client, thread_id: str, run_id: str) -> bool:
    try:
        await client.handle(thread_id, run_id=run_id).describe()
    except RPCError:
        return False
    return True


async def test_a_closed_thread_wakes_from_what_it_archived_as_its_last_act(client: Client, thread_id: str) -> None:
    async with a_worker(client):
        await talk(client, thread_id, 1, 12)
        before = await client.transcript(thread_id)
        await client.close(thread_id)
        await client.result(thread_id)
        ended = [record async for record in client.watch(thread_id)]
        await client.send(thread_id, "again")
        assert await answered(client, thread_id, 13) == "shown 25"
        assert (await client.transcript(thread_id))[:24] == before
        await client.close(thread_id)
        await client.result(thread_id)
        records = [record async for record in client.watch(thread_id)]
    assert records[: len(ended)] == ended
    assert [record.seq for record in records] == list(range(1, len(records) + 1))


@pytest.mark.faults  # the server takes half a minute to delete an execution
async def test_a_thread_that_was_closed_and_deleted_does_not_start_over_by_itself(
    client: Client, thread_id: str
) -> None:
    async with a_worker(client):
        await talk(client, thread_id, 1, 1)
        await client.close(thread_id)
        await client.result(thread_id)
        with pytest.raises(ThreadExists, match=r"use send\(\) to continue it, or start it over with again=True"):
            await client.start("a", "hello", thread_id=thread_id)
        await delete_closed(client, thread_id)
        for forgetful in (client.send(thread_id, "hello", agent_id="a"), client.start("a", "hi", thread_id=thread_id)):
            with pytest.raises(ThreadExpired, match="because its retention has ended"):
                await forgetful
        result = await client.run("a", "anew", thread_id=thread_id, again=True)
        assert result.response == "shown 1"
        assert [message.text for message in await client.transcript(thread_id)] == ["anew", "shown 1"]
    assert [archive.id async for archive in open_archives(client.temporal, thread_id)] == []


class Recording(OutboundInterceptor):
    """Records what a client asks the server."""

    def __init__(self, next: OutboundInterceptor, calls: list[str]) -> None:
        super().__init__(next)
        self._calls = calls

    async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:
        self._calls.append(f"start {input.id}")
        return await super().start_workflow(input)

    async def signal_workflow(self, input: SignalWorkflowInput) -> None:
        self._calls.append(f"signal {input.id}")
        await super().signal_workflow(input)

    async def describe_workflow(self, input: DescribeWorkflowInput) -> WorkflowExecutionDescription:
        self._calls.append(f"describe {input.id}")
        return await super().describe_workflow(input)

    def list_workflows(self, input: ListWorkflowsInput) -> WorkflowExecutionAsyncIterator:
        self._calls.append("list")
        return super().list_workflows(input)


class RecordingClient(Interceptor):
    """Has the calls of a client recorded."""

    def __init__(self) -> None:
        self.calls = list[str]()

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        return Recording(next, self.calls)


async def test_one_call_finds_whether_a_thread_was_closed_and_only_new_threads_need_it(
    temporal: TemporalClient, thread_id: str
) -> None:
    recorder = RecordingClient()
    config = temporal.config()
    config["interceptors"] = [recorder]
    client = Client(TemporalClient(**config), task_queue=thread_id)
    last = f"{thread_id}/archive/last"
    started = await client.start("a", "hello")
    assert recorder.calls == [f"start {started}"]
    recorder.calls.clear()
    await client.send(thread_id, "hello", agent_id="a")
    assert recorder.calls == [f"describe {thread_id}", f"describe {last}", f"start {thread_id}"]
    recorder.calls.clear()
    await client.send(thread_id, "and again")
    assert recorder.calls == [f"describe {thread_id}", f"signal {thread_id}", f"describe {thread_id}"]
    recorder.calls.clear()
    await client.start("a", "hello", thread_id=f"{thread_id}-2")
    assert recorder.calls == [f"describe {thread_id}-2/archive/last", f"start {thread_id}-2"]


async def test_a_thread_of_which_only_the_last_archive_is_left_has_expired(client: Client, thread_id: str) -> None:
    header = SegmentHeader(thread_id=thread_id, first_message=0, messages=0, first_event=0, events=0)
    content = lzma.compress(SegmentContent(carryover=Carryover(tenant="acme")).model_dump_json().encode())
    last = await client.temporal.start_workflow(
        names.WORKFLOW_ARCHIVE, args=[header, content], id=ids.last_archive_id(thread_id), task_queue=client.task_queue
    )
    for forgetful in (client.send(thread_id, "hello", agent_id="a"), client.start("a", "hi", thread_id=thread_id)):
        with pytest.raises(ThreadExpired, match="because its retention has ended"):
            await forgetful
    with pytest.raises(OtherTenant):
        await client.start("a", "anew", thread_id=thread_id, again=True)
    await client.start("a", "anew", thread_id=thread_id, again=True, tenant="acme")
    assert (await last.describe()).status is WorkflowExecutionStatus.TERMINATED


async def test_a_thread_that_is_closed_and_woken_again_and_again_has_one_archive(
    client: Client, thread_id: str
) -> None:
    """What a wake restored is part of the next last archive, until there is enough for a segment."""
    async with a_worker(client):
        for number in range(1, 5):
            await client.send(thread_id, f"message {number}", agent_id="a")
            await answered(client, thread_id, number)
            await client.close(thread_id)
            await client.result(thread_id)
        kept = (await read_last_archive(client.temporal, thread_id)).carryover
        seen = [message.text for message in await client.transcript(thread_id)]
        records = [record.seq async for record in client.watch(thread_id)]
    assert seen == [text for number in range(1, 5) for text in (f"message {number}", f"shown {2 * number - 1}")]
    assert records == list(range(1, len(records) + 1))
    assert kept is not None
    assert kept.segments == ()
    assert [archive.id async for archive in open_archives(client.temporal, thread_id)] == [f"{thread_id}/archive/last"]


async def test_an_archive_looks_for_its_thread_by_itself_and_never_decodes_what_it_holds(
    client: Client, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that was terminated or deleted sends no signal."""
    monkeypatch.setattr(thread_archive, "CHECK_SECONDS", 0.1)
    header = SegmentHeader(thread_id=f"{thread_id}-gone", first_message=0, messages=0, first_event=0, events=0)
    content = RawValue(Payload(metadata={"encoding": b"unknown"}))
    archive_id = ids.archive_id(header.thread_id, 1, "a")
    async with a_worker(client):
        handle = await client.temporal.start_workflow(
            names.WORKFLOW_ARCHIVE, args=[header, content], id=archive_id, task_queue=client.task_queue
        )
        async with asyncio.timeout(BOUND_SECONDS):
            await handle.result()


async def test_the_archive_of_a_thread_that_is_gone_completes(client: Client, thread_id: str) -> None:
    header = SegmentHeader(thread_id=thread_id, first_message=0, messages=0, first_event=0, events=0)
    archive_id = ids.archive_id(thread_id, 1, "a")
    async with a_worker(client):
        handle = await client.temporal.start_workflow(
            names.WORKFLOW_ARCHIVE, args=[header, b""], id=archive_id, task_queue=client.task_queue
        )
        await handle.signal(names.SIGNAL_THREAD_CLOSED, ThreadClosed(keep_seconds=0))
        async with asyncio.timeout(BOUND_SECONDS):
            await handle.result()


async def test_a_release_that_does_not_replay_a_closed_thread_wakes_it_with_its_conversation(
    client: Client, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what is missing, and does not lose the message that woke the thread."""
    with monkeypatch.context() as earlier_release:
        earlier_release.setattr(worker, "AgentRun", Sleepy)
        async with a_worker(client):
            await client.run("a", "one", thread_id=thread_id, tenant="acme")
    async with a_worker(client):
        await client.send(thread_id, "two", agent_id="a", message_id="m2", tenant="acme")
        assert await answered(client, thread_id, 2) == "shown 2"
        messages = await client.transcript(thread_id)
        (missing,) = (await client.status(thread_id)).refusals
    assert [message.text for message in messages] == ["one", "two", "shown 2"]
    assert missing.signal == "restore_thread"
    assert "only the conversation was restored" in missing.reason


@pytest.mark.faults  # the server takes half a minute to delete an execution
async def test_an_open_thread_does_not_need_its_closed_executions(client: Client, thread_id: str) -> None:
    """Two megabytes in some twenty executions: every reader gets everything, from the first message on."""
    async with a_worker(client):
        await talk(client, thread_id, 1, 60)
        seen = await client.transcript(thread_id)
    assert sum(len(message.text) for message in seen) > 2_000_000
    assert await delete_closed(client, thread_id) >= 20
    address = client.temporal.service_client.config.target_host
    shown = await wakeful("show", thread_id, "--json", address=address)
    assert [Message.model_validate_json(line) for line in shown.out.splitlines()] == seen
    async with a_worker(client):
        await client.send(thread_id, "still there?")
        assert await answered(client, thread_id, 61) == "shown 121"
        assert (await client.transcript(thread_id))[:120] == seen
        fork = await client.fork(thread_id, at=3, message="instead", mode=ThreadMode.THREAD)
        assert await answered(client, fork, 1) == "shown 7"
        await client.send(thread_id, "in short?", agent_id="brief")
        assert await answered(client, thread_id, 62) == "shown 123"
    async with a_worker(client):
        await summarised(client, thread_id)
        await client.send(thread_id, "and now?")
        assert (await answered(client, thread_id, 63)).endswith("from message 1 to message 60")
        await client.close(thread_id)
        await client.result(thread_id)
    watched = await wakeful("watch", thread_id, "--json", address=address)
    records = [EventRecord.model_validate_json(line) for line in watched.out.splitlines()]
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert sum(record.event.event_type == "run_start" for record in records) == 63
    await delete_closed(client, thread_id)
    async with a_worker(client):
        await client.send(fork, "and without the origin?")
        assert await answered(client, fork, 2) == "shown 9"
        assert (await client.transcript(fork))[:6] == seen[:6]
        await client.close(fork)
        await client.result(fork)
