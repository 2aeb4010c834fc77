"""A worker of a test's own on the real server."""

import contextlib
from collections.abc import AsyncIterator, Callable

import pytest
from temporalio.client import Client

from wakeful import Registry
from wakeful.client.client import WakefulClient
from wakeful.worker import WorkerSettings, running_worker

Serving = Callable[[Registry], contextlib.AbstractAsyncContextManager[WakefulClient]]


@pytest.fixture
def serving(temporal: Client, thread_id: str) -> Serving:
    """Serve a registry while the body runs."""

    @contextlib.asynccontextmanager
    async def serve(registry: Registry) -> AsyncIterator[WakefulClient]:
        async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
            yield WakefulClient(temporal, task_queue=thread_id)

    return serve
