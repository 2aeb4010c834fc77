"""A connection that counts the calls which a client makes through it."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import Message
from temporalio.client import Client
from temporalio.service import ServiceClient


class CountingService(ServiceClient):
    """Passes every call on, and counts it by name. The polls of a worker do not go through it."""

    def __init__(self, service: ServiceClient) -> None:
        super().__init__(service.config)
        self._service = service
        self.calls: Counter[str] = Counter()

    @property
    def worker_service_client(self) -> Any:
        return self._service.worker_service_client

    def update_rpc_metadata(self, metadata: Mapping[str, str | bytes]) -> None:
        self._service.update_rpc_metadata(metadata)

    def update_api_key(self, api_key: str | None) -> None:
        self._service.update_api_key(api_key)

    async def _rpc_call(self, rpc: str, req: Message, resp_type: type[Any], **options: Any) -> Any:
        self.calls[rpc] += 1
        return await self._service._rpc_call(rpc, req, resp_type, **options)


def counting_client(client: Client) -> tuple[Client, Counter[str]]:
    """The same client on a connection that counts, and what it has counted."""
    service = CountingService(client.service_client)
    return Client(service, namespace=client.namespace, data_converter=client.data_converter), service.calls
