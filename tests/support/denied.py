"""A company's own client, whose key may not send signals, and may not describe the namespace."""

from typing import Any, NoReturn

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

FACTORY = "tests.support.denied:connect"
DENIED = frozenset({"signal_workflow_execution", "describe_namespace"})


class Refusing:
    """Temporal's service as such a key sees it."""

    def __init__(self, service: Any) -> None:
        self._service = service

    def __getattr__(self, name: str) -> Any:
        return refuse if name in DENIED else getattr(self._service, name)


async def refuse(*_args: object, **_kwargs: object) -> NoReturn:
    raise RPCError("Request unauthorized.", RPCStatusCode.PERMISSION_DENIED, b"")


async def connect(address: str, namespace: str = "default") -> Client:
    client = await Client.connect(address, namespace=namespace)
    client.service_client.workflow_service = Refusing(client.service_client.workflow_service)  # type: ignore[assignment]  # as a proxy would
    return client
