"""A reader, a worker that comes and goes, and the number of replays."""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pytest
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowHistory
from temporalio.worker import WorkflowRunner

from tests.support.app import registry
from wakeful.client.client import Client
from wakeful.history.read_only_replayer import ReadOnlyReplayer
from wakeful.history.reader import HistoryReader
from wakeful.worker import WorkerSettings, running_worker

Working = Callable[[Client], AbstractAsyncContextManager[None]]


@pytest.fixture
def alone(temporal: TemporalClient, thread_id: str) -> Client:
    """A client on a task queue of the test's own: no worker runs there unless the test starts one."""
    return Client(temporal, task_queue=thread_id)


@pytest.fixture
def working() -> Working:
    """Runs a worker for a client."""

    @contextlib.asynccontextmanager
    async def working(client: Client) -> AsyncIterator[None]:
        async with running_worker(client.temporal, registry, WorkerSettings(task_queue=client.task_queue)):
            yield

    return working


@pytest.fixture
async def reader(temporal: TemporalClient) -> AsyncIterator[HistoryReader]:
    reader = HistoryReader(temporal)
    yield reader
    await reader.aclose()


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that were replayed, in order."""
    replayed: list[str] = []
    replay = ReadOnlyReplayer.failure

    async def counting(
        self: ReadOnlyReplayer, history: WorkflowHistory, *, runner: WorkflowRunner | None = None
    ) -> Exception | None:
        replayed.append(history.workflow_id)
        return await replay(self, history, runner=runner)

    monkeypatch.setattr(ReadOnlyReplayer, "failure", counting)
    return replayed
