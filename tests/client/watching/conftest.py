"""A provider that answers as slowly as a test wants, and a worker whose agents call it."""

from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.fake_provider.server import FakeProvider, fake_provider
from tests.support.provider_app import DIGGING, registry_for
from wakeful.client.client import Client
from wakeful.worker import WorkerSettings, running_worker


@pytest.fixture(scope="session")
async def fake(temporal: TemporalClient) -> AsyncIterator[FakeProvider]:
    settings = WorkerSettings(task_queue="watching")
    async with fake_provider() as server, running_worker(temporal, registry_for(server.port), settings):
        yield server


@pytest.fixture
async def provider(fake: FakeProvider) -> FakeProvider:
    """The provider without an answer yet."""
    fake.forget()
    DIGGING.begin()
    return fake


@pytest.fixture
def client(temporal: TemporalClient, fake: FakeProvider) -> Client:
    return Client(temporal, task_queue="watching")
