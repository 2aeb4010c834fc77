"""Namespaces of a test's own, on the shared server."""

import asyncio
import uuid

from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from tests.support.waiting import BOUND_SECONDS


async def empty_namespace(temporal: Client) -> Client:
    """A namespace without a run, that knows none of our search attributes."""
    name = f"empty-{uuid.uuid4().hex[:8]}"
    await temporal.workflow_service.register_namespace(
        RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=Duration(seconds=86_400))
    )
    client = await Client.connect(
        temporal.service_client.config.target_host, namespace=name, data_converter=temporal.data_converter
    )
    async with asyncio.timeout(BOUND_SECONDS):
        while True:  # the server's services hear of a new namespace one after another
            try:
                await client.count_workflows()
                await attributes(client)
                return client
            except RPCError:
                await asyncio.sleep(0.1)


async def attributes(client: Client) -> dict[str, int]:
    """Those of our search attributes that a namespace knows, with their types."""
    asked = ListSearchAttributesRequest(namespace=client.namespace)
    known = await client.operator_service.list_search_attributes(asked)
    return {name: kind for name, kind in known.custom_attributes.items() if name.startswith("Wakeful")}


async def register(client: Client, **kinds: IndexedValueType.ValueType) -> None:
    await client.operator_service.add_search_attributes(
        AddSearchAttributesRequest(namespace=client.namespace, search_attributes=kinds)
    )
    await until_known(client, **kinds)


async def until_known(client: Client, **kinds: IndexedValueType.ValueType) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        while not kinds.items() <= (await attributes(client)).items():
            await asyncio.sleep(0.1)
