"""One real Temporal server for the whole session, and workers that tests share.

A *restless* worker continues every run as new after every fact, which must change nothing that a caller sees; `make
restless` runs the tests on it.

The fixtures import what they need: the process that only distributes the tests, and those of the pure tests, would
import Temporal's SDK and all of Wakeful for nothing.
"""

import contextlib
import gc
import os
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from temporalio.client import Client as TemporalClient

    from tests.support.journal import Journal
    from wakeful.client.client import Client
    from wakeful.connection import EmbeddedServer
    from wakeful.registry.registry import Registry
    from wakeful.worker import WorkerSettings

SWEEP = timedelta(seconds=1)

os.environ.setdefault("GOGC", "400")  # Temporal's server collects garbage less often: less CPU, for 150 MB more

gc.disable()  # while the tests are collected: what is imported stays


def worker_settings(**settings: Any) -> "WorkerSettings":
    """Of a worker without others beside it: what it does not know fails at once."""
    from wakeful.worker import WorkerSettings

    return WorkerSettings(new_run_patience=timedelta(), in_flight_patience=timedelta(), **settings)


@pytest.fixture(scope="session")
async def server() -> "AsyncIterator[EmbeddedServer]":
    from wakeful.connection import embedded_server

    async with embedded_server(ui=False) as server:
        yield server


@pytest.fixture(scope="session")
async def temporal(server: "EmbeddedServer") -> "TemporalClient":
    return server.client


@contextlib.asynccontextmanager
async def served(temporal: "TemporalClient", registry: "Registry", **settings: Any) -> "AsyncIterator[Client]":
    """A client, and a worker that drives its runs."""
    from wakeful.client.client import Client
    from wakeful.worker import running_worker

    chosen = worker_settings(**settings)
    async with running_worker(temporal, registry, chosen), Client(temporal, task_queue=chosen.task_queue) as client:
        yield client


@pytest.fixture(scope="session")
async def usual_client(temporal: "TemporalClient") -> "AsyncIterator[Client]":
    from tests.support.app import registry

    async with served(temporal, registry) as client:
        yield client


@pytest.fixture(scope="session")
async def restless_client(temporal: "TemporalClient") -> "AsyncIterator[Client]":
    from tests.support.app import registry
    from wakeful.contract.agents import HistoryBudget

    async with served(temporal, registry, task_queue="restless", history_budget=HistoryBudget(events=1)) as client:
        yield client


@pytest.fixture(params=["usual", pytest.param("restless", marks=pytest.mark.restless)])
def either_client(request: pytest.FixtureRequest) -> "Client":
    """The client of the usual worker, or of the restless one."""
    client: Client = request.getfixturevalue(f"{request.param}_client")
    return client


@pytest.fixture(scope="session")
async def usual_subagents(temporal: "TemporalClient") -> "AsyncIterator[Client]":
    """A client whose agents follow plans, to grow any tree of sub-agents."""
    from tests.support.subagent_app import registry

    async with served(temporal, registry, task_queue="subagents", sweep_interval=SWEEP) as client:
        yield client


@pytest.fixture(scope="session")
async def restless_subagents(temporal: "TemporalClient") -> "AsyncIterator[Client]":
    from tests.support.subagent_app import registry
    from wakeful.contract.agents import HistoryBudget

    queue, budget = "restless-subagents", HistoryBudget(events=1)
    async with served(temporal, registry, task_queue=queue, history_budget=budget, sweep_interval=SWEEP) as client:
        yield client


@pytest.fixture(params=["usual", pytest.param("restless", marks=pytest.mark.restless)])
def either_subagents(request: pytest.FixtureRequest) -> "Client":
    client: Client = request.getfixturevalue(f"{request.param}_subagents")
    return client


@pytest.fixture
def client(usual_client: "Client") -> "Client":
    """A client whose runs are driven by the session's worker."""
    return usual_client


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Journal":
    """What the tools of a test wrote down."""
    from tests.support.app import JOURNAL
    from tests.support.journal import Journal

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
    gc.enable()
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
