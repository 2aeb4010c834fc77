"""A fake provider that fails as scripted, and a worker whose agents call it, in each of the three wire formats."""

from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.fake_provider.server import FakeProvider, fake_provider
from tests.support.provider_app import WIRES, registry_for
from wakeful.client.client import Client
from wakeful.worker import WorkerSettings, running_worker

QUEUE = "inference"


@pytest.fixture(scope="session")
async def fake(temporal: TemporalClient) -> AsyncIterator[FakeProvider]:
    """The provider, with a worker that calls it."""
    async with fake_provider() as server:
        settings = WorkerSettings(task_queue=QUEUE)
        async with running_worker(temporal, registry_for(server.port), settings):
            yield server


@pytest.fixture
def provider(fake: FakeProvider) -> FakeProvider:
    """The provider with an empty script and no recorded requests."""
    fake.forget()
    return fake


@pytest.fixture
def client(temporal: TemporalClient, fake: FakeProvider) -> Client:
    return Client(temporal, task_queue=QUEUE)


@pytest.fixture(params=[WIRES[0], *(pytest.param(wire, marks=pytest.mark.integration) for wire in WIRES[1:])])
def wire(request: pytest.FixtureRequest) -> str:
    """One wire format here, the others in `make integration`: the tests of each provider cover what differs."""
    return str(request.param)
