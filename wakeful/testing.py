"""Test your agents: a real Temporal server, a worker and a client in one `async with`.

    async with runtime(registry) as client:
        result = await client.run("assistant", "hello")

With a `ScriptedModel` such a test needs no network and no API key, and runs the same code as production.
"""

import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta

from wakeful.authoring.profiles import ProfileStore
from wakeful.authoring.scripted import ScriptedModel, Turn, call, say
from wakeful.client.client import Client
from wakeful.connection import embedded_server
from wakeful.profile_stores.sqlite import SqliteProfileStore
from wakeful.registry.registry import Registry
from wakeful.worker import WorkerSettings, running_worker

__all__ = ["ScriptedModel", "Turn", "call", "embedded_server", "running_worker", "runtime", "say"]


@contextlib.asynccontextmanager
async def runtime(
    registry: Registry, *, settings: WorkerSettings | None = None, profiles: ProfileStore | None = None
) -> AsyncIterator[Client]:
    """A Temporal server of its own and a worker for `registry`, while the body runs.

    Args:
        settings: of the worker; by default, what it does not know fails at once, because there is no other worker.
        profiles: the profile store; in memory by default.
    """
    settings = settings or WorkerSettings(new_run_patience=timedelta(), in_flight_patience=timedelta())
    async with (
        contextlib.aclosing(SqliteProfileStore()) as in_memory,
        embedded_server(ui=False) as server,
        running_worker(server.client, registry, settings, profiles=profiles or in_memory),
        Client(server.client, task_queue=settings.task_queue) as client,
    ):
        yield client
