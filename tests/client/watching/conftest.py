"""A provider that answers as slowly as a test wants, and a worker whose agents ask it."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.fake_provider.server import FakeProvider, fake_provider
from tests.support.subagent_app import registry as family
from tests.support.watched_app import DIGGING, registry_for
from wakeful.client.client import Client
from wakeful.contract.agents import HistoryBudget
from wakeful.worker import WorkerSettings, running_worker


@pytest.fixture(scope="session")
async def fake(temporal: TemporalClient) -> AsyncIterator[FakeProvider]:
    settings = WorkerSettings(task_queue="watching")
    async with fake_provider() as server, running_worker(temporal, registry_for(server.port), settings):
        yield server


@pytest.fixture
async def provider(fake: FakeProvider) -> FakeProvider:
    """The provider with nothing on its mind."""
    fake.forget()
    DIGGING.begin()
    return fake


@pytest.fixture
def client(temporal: TemporalClient, fake: FakeProvider) -> Client:
    return Client(temporal, task_queue="watching")


@pytest.fixture(scope="session")
async def usual_family(temporal: TemporalClient) -> AsyncIterator[Client]:
    settings = WorkerSettings(task_queue="watched-family", sweep_interval=timedelta(seconds=1))
    async with running_worker(temporal, family, settings):
        yield Client(temporal, task_queue="watched-family")


@pytest.fixture(scope="session")
async def restless_family(temporal: TemporalClient) -> AsyncIterator[Client]:
    budget = HistoryBudget(events=1)
    settings = WorkerSettings("restless-watched", history_budget=budget, sweep_interval=timedelta(seconds=1))
    async with running_worker(temporal, family, settings):
        yield Client(temporal, task_queue="restless-watched")


@pytest.fixture(params=["usual", pytest.param("restless", marks=pytest.mark.restless)])
def family_client(request: pytest.FixtureRequest) -> Client:
    client: Client = request.getfixturevalue(f"{request.param}_family")
    return client
