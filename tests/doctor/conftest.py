"""Installations to examine: a healthy one, and namespaces of their own to break."""

import asyncio
import dataclasses

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.workflowservice.v1 import UpdateNamespaceRequest
from temporalio.client import Client as TemporalClient

from tests.support.namespaces import attributes, empty_namespace
from tests.support.waiting import BOUND_SECONDS
from wakeful.connection import RETENTION, SEARCH_ATTRIBUTES, Address, ensure_search_attributes
from wakeful.doctor.examination import Installation, examine
from wakeful.doctor.report import Level, SetupCheck, SetupProblem, SetupReport


@pytest.fixture(scope="session")
async def bare(temporal: TemporalClient) -> TemporalClient:
    """A namespace that was just created: it keeps closed executions for a day, and has none of our attributes."""
    return await empty_namespace(temporal)


@pytest.fixture(scope="session")
async def mended(temporal: TemporalClient) -> TemporalClient:
    """A namespace as a worker and an operator leave it."""
    client = await empty_namespace(temporal)
    retention = Duration()
    retention.FromTimedelta(RETENTION)
    await client.workflow_service.update_namespace(
        UpdateNamespaceRequest(
            namespace=client.namespace, config=NamespaceConfig(workflow_execution_retention_ttl=retention)
        )
    )
    await ensure_search_attributes(client)
    async with asyncio.timeout(BOUND_SECONDS):
        while SEARCH_ATTRIBUTES.keys() - (await attributes(client)).keys():
            await asyncio.sleep(0.1)
    return client


@pytest.fixture(scope="session")
async def broken(temporal: TemporalClient) -> TemporalClient:
    """A namespace whose runs tests break. They break each a task queue of its own, and look for their own problem."""
    client = await empty_namespace(temporal)
    await ensure_search_attributes(client)
    return client


class Doctor:
    """Examines a namespace, and finds problems in the report."""

    def __init__(self, client: TemporalClient, **installation: object) -> None:
        address = client.service_client.config.target_host
        where = Address(address=address, namespace=client.namespace)
        self.installation = dataclasses.replace(Installation(where, environ={}), **installation)  # type: ignore[arg-type]

    async def examine(self) -> SetupReport:
        return await examine(self.installation)

    async def check(self, name: str) -> SetupCheck:
        return next(check for check in (await self.examine()).checks if check.name == name)

    async def problem(self, name: str, about: str, level: Level | None = None) -> SetupProblem:
        """The problem of a check about this object; Temporal may take a moment to show it."""
        async with asyncio.timeout(BOUND_SECONDS):
            while True:
                for problem in (await self.check(name)).problems:
                    if about in problem.about and level in (None, problem.level):
                        return problem
                await asyncio.sleep(0.2)
