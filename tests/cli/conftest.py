"""Agents to chat with: their worker process, and their model, which writes as much as a test lets it."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client

from tests.support.fake_provider.server import FakeProvider, fake_provider
from tests.support.processes import worker_process
from tests.support.provider_app import PORT, QUEUE


@pytest.fixture
def address(temporal: Client) -> str:
    return temporal.service_client.config.target_host


@pytest.fixture(scope="module")
async def journal_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chat") / "journal.jsonl"


@pytest.fixture(scope="module")
async def fake(temporal: Client, journal_path: Path) -> AsyncIterator[FakeProvider]:
    """The provider, with a worker process that calls it."""
    async with fake_provider() as server:
        os.environ[PORT] = str(server.port)
        address = temporal.service_client.config.target_host
        async with worker_process(address, QUEUE, journal_path, app="tests.support.provider_app:registry"):
            yield server
        del os.environ[PORT]


@pytest.fixture
def provider(fake: FakeProvider) -> FakeProvider:
    fake.forget()
    return fake
