"""`runtime`: a Temporal server, a worker and a client, while the body of a test runs."""

import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Protocol

from temporalio.client import Client as TemporalClient
from temporalio.testing import TimeSkipper

from wakeful.authoring.profiles import ProfileStore
from wakeful.client.client import Client
from wakeful.connection import embedded_server
from wakeful.contract.runs import RunResult
from wakeful.profile_stores.sqlite import SqliteProfileStore
from wakeful.registry.registry import Registry
from wakeful.testing.unexpected_calls import UnexpectedCalls
from wakeful.worker import WorkerSettings, running_worker


@contextlib.asynccontextmanager
async def runtime(
    registry: Registry,
    *,
    settings: WorkerSettings | None = None,
    profiles: ProfileStore | None = None,
    time_skipping: bool = False,
    temporal: TemporalClient | None = None,
) -> AsyncIterator[Client]:
    """A Temporal server of its own and a worker for `registry`, while the body runs.

    Args:
        settings: of the worker; by default, what it does not know fails at once, because there is no other worker.
        profiles: the profile store; in memory by default.
        time_skipping: a thread that waits for nothing but time waits no longer: for the deadline of a decision, until
            it expires, for the next attempt of a model call. Each thread has a clock of its own.
        temporal: a client of a server that runs already, instead of a server of its own.

    Raises:
        UnexpectedModelCall: a scripted or recorded model of the registry was called in a way that the test did not
            provide for. `client.result` and `client.run` raise it, or, for other runs, the end of the body.
    """
    settings = settings or WorkerSettings(new_run_patience=timedelta(), in_flight_patience=timedelta())
    async with contextlib.AsyncExitStack() as stack:
        if temporal is None:
            temporal = (await stack.enter_async_context(embedded_server(ui=False, time_skipping=True))).client
        if time_skipping:
            temporal = TimeSkipper(temporal).client
        if profiles is None:
            profiles = await stack.enter_async_context(contextlib.aclosing(SqliteProfileStore()))
        unexpected = stack.enter_context(UnexpectedCalls(registry))
        await stack.enter_async_context(running_worker(temporal, registry, settings, profiles=profiles))
        client = _CheckedClient(temporal, task_queue=settings.task_queue, unexpected=unexpected)
        yield await stack.enter_async_context(client)


class WakefulRuntime(Protocol):
    """The type of the pytest fixture `wakeful_runtime`: `runtime`, on the server that tests share."""

    def __call__(
        self,
        registry: Registry,
        *,
        settings: WorkerSettings | None = None,
        profiles: ProfileStore | None = None,
        time_skipping: bool = False,
    ) -> contextlib.AbstractAsyncContextManager[Client]: ...


class _CheckedClient(Client):
    """A client that raises the unexpected model call which has ended a run, instead of returning its result."""

    def __init__(self, temporal: TemporalClient, *, task_queue: str, unexpected: UnexpectedCalls) -> None:
        super().__init__(temporal, task_queue=task_queue)
        self._unexpected = unexpected

    async def result(self, thread_id: str) -> RunResult:
        result = await super().result(thread_id)
        self._unexpected.raise_cause(result)
        return result
