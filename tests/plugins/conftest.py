"""A worker of a test's own on the real server."""

import contextlib
from collections.abc import AsyncIterator, Callable

import pytest
from temporalio.client import Client as TemporalClient

from wakeful import Registry
from wakeful.client.client import Client
from wakeful.worker import WorkerSettings, running_worker

Serving = Callable[[Registry], contextlib.AbstractAsyncContextManager[Client]]


@pytest.fixture
def serving(temporal: TemporalClient, thread_id: str) -> Serving:
    """Serve a registry while the body runs."""

    @contextlib.asynccontextmanager
    async def serve(registry: Registry) -> AsyncIterator[Client]:
        async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
            yield Client(temporal, task_queue=thread_id)

    return serve
