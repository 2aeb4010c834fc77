"""Fixtures for pytest, which loads this module wherever Wakeful is installed.

It imports nothing but pytest until a test uses a fixture.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from wakeful.authoring.profiles import ProfileStore
    from wakeful.client.client import Client
    from wakeful.registry.registry import Registry
    from wakeful.testing.runtimes import WakefulRuntime
    from wakeful.worker import WorkerSettings


@pytest.fixture(scope="session")
def wakeful_server() -> Iterator[str]:
    """The address of a Temporal server for all tests of the process, which starts when the first one needs it."""
    from wakeful.testing.servers import shared_server

    with shared_server() as address:
        yield address


@pytest.fixture
def wakeful_runtime(wakeful_server: str) -> "WakefulRuntime":
    """Runs a worker for a registry, in a namespace of its own on the server that the tests share; yields a client."""

    @contextlib.asynccontextmanager
    async def run(
        registry: "Registry",
        *,
        settings: "WorkerSettings | None" = None,
        profiles: "ProfileStore | None" = None,
        time_skipping: bool = False,
    ) -> AsyncIterator["Client"]:
        from wakeful.testing.runtimes import runtime
        from wakeful.testing.servers import fresh_namespace

        temporal = await fresh_namespace(wakeful_server)
        async with runtime(
            registry, settings=settings, profiles=profiles, time_skipping=time_skipping, temporal=temporal
        ) as client:
            yield client

    return run
