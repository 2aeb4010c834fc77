"""A reader whose code does not replay a history says so, and where; then a worker is asked."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import timedelta

import pytest
from temporalio import workflow
from temporalio.client import Client as TemporalClient
from temporalio.common import RawValue

from tests.history.conftest import Working
from tests.support.waiting import BOUND_SECONDS, until_status
from wakeful import RunResult, RunStatus
from wakeful.client.client import Client
from wakeful.client.read_or_ask import read_or_ask
from wakeful.contract import names
from wakeful.contract.errors import DoesNotReplay, NoAnswer
from wakeful.contract.runs import ThreadMode
from wakeful.contract.views import StatusView
from wakeful.history.kept_workflow import Keeper
from wakeful.history.reader import HistoryReader
from wakeful_workflows import AgentRun, ToolTask
from wakeful_workflows.agent_run import NO_REQUEST


@workflow.defn(name=names.WORKFLOW, sandboxed=False)
class Sleepy(AgentRun):
    """Sleeps first, which no history has."""

    @workflow.run
    async def run(self, request: RawValue = NO_REQUEST) -> RunResult:
        await workflow.sleep(3)
        return await super().run(request)


@workflow.defn(name=names.WORKFLOW, sandboxed=False)
class Faulty(AgentRun):
    """Does not know what it was started with."""

    @workflow.run
    async def run(self, request: RawValue = NO_REQUEST) -> RunResult:
        raise ValueError("no such format")


@workflow.defn(name=names.WORKFLOW, sandboxed=False)
class SlowAtFirst(AgentRun):
    """Takes longer than the SDK allows the first time, as on a machine that is busy for a while."""

    begun = 0

    @workflow.run
    async def run(self, request: RawValue = NO_REQUEST) -> RunResult:
        SlowAtFirst.begun += 1
        if SlowAtFirst.begun == 1:
            threading.Event().wait(2.5)
        return await super().run(request)


@pytest.fixture
async def other_code(temporal: TemporalClient) -> AsyncIterator[HistoryReader]:
    reader = HistoryReader(temporal, workflows=[Sleepy, ToolTask])
    yield reader
    await reader.aclose()


async def test_the_event_and_the_way_out_are_named_and_the_replay_is_not_repeated(
    client: Client, thread_id: str, other_code: HistoryReader, replays: list[str]
) -> None:
    await client.run("tester", "add", thread_id=thread_id)
    for _ in range(2):
        with pytest.raises(DoesNotReplay) as error:
            await other_code.read(thread_id)
        assert (error.value.thread_id, error.value.event_id) == (thread_id, 5)
        assert f"of thread {thread_id!r} does not replay on the code installed here, at event 5: " in str(error.value)
        assert ". Query a worker of the thread instead, or read it with the version and " in str(error.value)
    assert replays == [thread_id]


async def test_workflow_code_that_raises_is_named_and_the_replay_is_repeated(
    client: Client, thread_id: str, replays: list[str]
) -> None:
    """It may have been this machine's failure, such as a codec that was out of reach."""
    await client.run("tester", "add", thread_id=thread_id)
    reader = HistoryReader(client.temporal, workflows=[Faulty, ToolTask])
    for _ in range(2):
        with pytest.raises(DoesNotReplay, match="at event 3: no such format"):
            await reader.read(thread_id)
    assert replays == [thread_id] * 2
    await reader.aclose()


async def test_a_snapshot_in_a_format_that_is_not_known_does_not_replay(
    restless_client: Client, thread_id: str, reader: HistoryReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    await restless_client.start("tester", "add", thread_id=thread_id, mode=ThreadMode.THREAD)
    await until_status(restless_client, thread_id, RunStatus.DONE)
    await restless_client.close(thread_id)
    await restless_client.result(thread_id)

    def unpack(packed: object) -> None:
        raise ValueError("a snapshot of another version")

    with monkeypatch.context() as patched:
        patched.setattr("wakeful_workflows.agent_run.unpack", unpack)
        with pytest.raises(DoesNotReplay, match="a snapshot of another version"):
            await reader.read(thread_id)
    assert (await reader.read(thread_id)).status.status is RunStatus.DONE


async def test_a_replay_that_a_busy_machine_made_too_slow_is_repeated(
    client: Client, temporal: TemporalClient, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.run("tester", "add", thread_id=thread_id)
    keeper = Keeper()
    monkeypatch.setattr("wakeful.history.replayed_execution.Keeper", lambda: keeper)
    SlowAtFirst.begun = 0
    async with aclosing(HistoryReader(temporal, workflows=[SlowAtFirst, ToolTask])) as busy:
        read = await busy.query(thread_id, names.QUERY_STATUS, StatusView)
        assert read.status is RunStatus.DONE
        assert SlowAtFirst.begun == 2
        assert keeper.workflow is not None
        assert not keeper.workflow.is_dropped
        assert not keeper._replaced


async def test_a_replay_that_does_not_end_is_abandoned(
    client: Client, thread_id: str, reader: HistoryReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.run("tester", "add", thread_id=thread_id)
    keeper = Keeper()
    monkeypatch.setattr("wakeful.history.replayed_execution.Keeper", lambda: keeper)
    with monkeypatch.context() as patched:
        patched.setattr("wakeful.history.read_only_replayer.REPLAY_TIMEOUT_SECONDS", 0.0)
        with pytest.raises(DoesNotReplay, match="the replay did not end within 0 s"):
            await reader.read(thread_id)
    async with asyncio.timeout(BOUND_SECONDS):  # it was only slow, and evicts its workflow when it ends
        while keeper.workflow is None or not keeper.workflow.is_dropped:
            await asyncio.sleep(0.01)


async def test_a_worker_is_asked_for_what_does_not_replay_here(
    alone: Client, working: Working, other_code: HistoryReader, reader: HistoryReader, replays: list[str]
) -> None:
    thread_id = alone.task_queue
    async with working(alone):
        await alone.start("tester", "approve", thread_id=thread_id)
        await until_status(alone, thread_id, RunStatus.WAITING)
        replays.clear()
        asked = await read_or_ask(other_code, thread_id, names.QUERY_STATUS, StatusView)
        assert await read_or_ask(reader, thread_id, names.QUERY_STATUS, StatusView) == asked
    assert replays == [thread_id] * 2
    within = timedelta(seconds=1)
    assert await read_or_ask(reader, thread_id, names.QUERY_STATUS, StatusView, within=within) == asked
    with pytest.raises(NoAnswer) as error:
        await read_or_ask(other_code, thread_id, names.QUERY_STATUS, StatusView, within=within)
    for part in ("does not replay on the code installed here, at event", "No worker answered."):
        assert part in str(error.value)
