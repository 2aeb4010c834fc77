"""One real Temporal server for the whole session, and workers that tests share.

A *restless* worker continues every run as new after every fact, which must change nothing that a caller sees; `make
restless` runs the tests on it.
"""

import gc
import os
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from temporalio.client import Client as TemporalClient

from tests.support.app import JOURNAL, registry
from tests.support.journal import Journal
from tests.support.subagent_app import registry as subagent_registry
from wakeful.client.client import Client
from wakeful.connection import EmbeddedServer, embedded_server
from wakeful.contract.agents import HistoryBudget
from wakeful.worker import WorkerSettings, running_worker

SWEEP = timedelta(seconds=1)

os.environ.setdefault("GOGC", "400")  # Temporal's server collects garbage less often: less CPU, for 150 MB more


def worker_settings(**settings: Any) -> WorkerSettings:
    """Of a worker without others beside it: what it does not know fails at once."""
    return WorkerSettings(new_run_patience=timedelta(), in_flight_patience=timedelta(), **settings)


@pytest.fixture(scope="session")
async def server() -> AsyncIterator[EmbeddedServer]:
    async with embedded_server(ui=False) as server:
        yield server


@pytest.fixture(scope="session")
async def temporal(server: EmbeddedServer) -> TemporalClient:
    return server.client


@pytest.fixture(scope="session")
async def usual_client(temporal: TemporalClient) -> AsyncIterator[Client]:
    async with running_worker(temporal, registry, worker_settings()), Client(temporal) as client:
        yield client


@pytest.fixture(scope="session")
async def restless_client(temporal: TemporalClient) -> AsyncIterator[Client]:
    settings = worker_settings(task_queue="restless", history_budget=HistoryBudget(events=1))
    async with running_worker(temporal, registry, settings), Client(temporal, task_queue="restless") as client:
        yield client


@pytest.fixture(params=["usual", pytest.param("restless", marks=pytest.mark.restless)])
def either_client(request: pytest.FixtureRequest) -> Client:
    """The client of the usual worker, or of the restless one."""
    client: Client = request.getfixturevalue(f"{request.param}_client")
    return client


@pytest.fixture(scope="session")
async def usual_subagents(temporal: TemporalClient) -> AsyncIterator[Client]:
    """A client whose agents follow plans, to grow any tree of sub-agents."""
    settings = worker_settings(task_queue="subagents", sweep_interval=SWEEP)
    async with (
        running_worker(temporal, subagent_registry, settings),
        Client(temporal, task_queue="subagents") as client,
    ):
        yield client


@pytest.fixture(scope="session")
async def restless_subagents(temporal: TemporalClient) -> AsyncIterator[Client]:
    queue, budget = "restless-subagents", HistoryBudget(events=1)
    settings = worker_settings(task_queue=queue, history_budget=budget, sweep_interval=SWEEP)
    async with running_worker(temporal, subagent_registry, settings), Client(temporal, task_queue=queue) as client:
        yield client


@pytest.fixture(params=["usual", pytest.param("restless", marks=pytest.mark.restless)])
def either_subagents(request: pytest.FixtureRequest) -> Client:
    client: Client = request.getfixturevalue(f"{request.param}_subagents")
    return client


@pytest.fixture
def client(usual_client: Client) -> Client:
    """A client whose runs are driven by the session's worker."""
    return usual_client


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """What the tools of a test wrote down."""
    path = tmp_path / "journal.jsonl"
    monkeypatch.setenv(JOURNAL, str(path))
    return Journal(path)


@pytest.fixture
def thread_id(request: pytest.FixtureRequest) -> str:
    """A thread of the test's own, named after it."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", request.node.name)[:100]


settings.register_profile("wakeful", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("wakeful")  # a busy machine generates examples slowly

NEEDS_SERVER = frozenset({"server", "client", "temporal", "either_client", "either_subagents"})


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # what is imported now stays: later collections need not look at it


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if NEEDS_SERVER & set(getattr(item, "fixturenames", ())):
            item.add_marker("server")
        if item.get_closest_marker("restless") and "client" in item.path.parts:
            item.add_marker(
                "faults"
            )  # readers of long chains take long; workflows and sub-agents are in `make restless`
