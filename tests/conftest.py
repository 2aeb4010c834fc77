"""One real Temporal server and one worker for the whole session."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.app import JOURNAL, registry
from tests.support.journal import Journal
from wakeful.client.client import Client
from wakeful.connection import EmbeddedServer, embedded_server
from wakeful.contract.agents import HistoryBudget
from wakeful.worker import WorkerSettings, running_worker


@pytest.fixture(scope="session")
async def server() -> AsyncIterator[EmbeddedServer]:
    async with embedded_server(ui=False) as server:
        yield server


@pytest.fixture(scope="session")
async def temporal(server: EmbeddedServer) -> TemporalClient:
    return server.client


@pytest.fixture(scope="session")
async def usual_client(temporal: TemporalClient) -> AsyncIterator[Client]:
    async with running_worker(temporal, registry):
        yield Client(temporal)


@pytest.fixture(scope="session")
async def restless_client(temporal: TemporalClient) -> AsyncIterator[Client]:
    """Every run continues as new after every fact, which must change nothing that anybody sees."""
    settings = WorkerSettings(task_queue="restless", history_budget=HistoryBudget(events=1))
    async with running_worker(temporal, registry, settings):
        yield Client(temporal, task_queue="restless")


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"server", "client", "temporal"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("server")
