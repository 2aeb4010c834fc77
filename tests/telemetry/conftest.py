"""A process that is traced while a module of tests runs, with workers and clients of its own."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client as TemporalClient
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin

from tests.conftest import worker_settings
from tests.support.app import registry
from tests.support.subagent_app import registry as subagent_registry
from tests.support.telemetry import traced_process
from tests.support.traces import Spans
from wakeful import Client, Registry
from wakeful.connection import EmbeddedServer
from wakeful.contract.agents import HistoryBudget
from wakeful.worker import running_worker


@pytest.fixture(scope="module")
def exporter() -> Iterator[InMemorySpanExporter]:
    """What the process exports."""
    with traced_process() as exporter:
        yield exporter


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Spans:
    return Spans(exporter)


@pytest.fixture(scope="module")
async def traced(server: EmbeddedServer, exporter: InMemorySpanExporter) -> TemporalClient:
    """A connection that propagates traces."""
    return await TemporalClient.connect(
        server.address, data_converter=server.client.data_converter, plugins=[OpenTelemetryPlugin()]
    )


@asynccontextmanager
async def working(temporal: TemporalClient, registry: Registry, queue: str, **settings: Any) -> AsyncIterator[Client]:
    """A client, and a worker for it, on a task queue of their own."""
    async with (
        running_worker(temporal, registry, worker_settings(task_queue=queue, **settings)),
        Client(temporal, task_queue=queue) as client,
    ):
        yield client


@pytest.fixture(scope="module")
async def client(traced: TemporalClient) -> AsyncIterator[Client]:
    async with working(traced, registry, "traced") as client:
        yield client


@pytest.fixture(scope="module")
async def restless(traced: TemporalClient) -> AsyncIterator[Client]:
    """A client whose runs continue as new after every fact."""
    async with working(traced, registry, "traced-restless", history_budget=HistoryBudget(events=1)) as client:
        yield client


@pytest.fixture(scope="module")
async def planners(traced: TemporalClient) -> AsyncIterator[Client]:
    """A client whose agents follow plans, to grow any tree of sub-agents."""
    async with working(traced, subagent_registry, "traced-planners") as client:
        yield client
