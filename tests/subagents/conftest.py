"""Trees of agents on the real server; tests run as usual, and, by `make restless`, continuing as new all the time."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.subagent_app import registry
from wakeful.client.client import Client
from wakeful.contract.agents import HistoryBudget
from wakeful.worker import WorkerSettings, running_worker

SWEEP = timedelta(seconds=1)


@pytest.fixture(scope="session")
async def usual_family(temporal: TemporalClient) -> AsyncIterator[Client]:
    settings = WorkerSettings(task_queue="family", sweep_interval=SWEEP)
    async with running_worker(temporal, registry, settings):
        yield Client(temporal, task_queue="family")


@pytest.fixture(scope="session")
async def restless_family(temporal: TemporalClient) -> AsyncIterator[Client]:
    settings = WorkerSettings(
        task_queue="restless-family", history_budget=HistoryBudget(events=1), sweep_interval=SWEEP
    )
    async with running_worker(temporal, registry, settings):
        yield Client(temporal, task_queue="restless-family")


@pytest.fixture(params=["usual", pytest.param("restless", marks=pytest.mark.restless)])
def client(request: pytest.FixtureRequest) -> Client:
    client: Client = request.getfixturevalue(f"{request.param}_family")
    return client
