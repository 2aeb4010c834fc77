"""The remote agents that a worker talks to: one pool of connections, and the cards that it has read lately.

The package `a2a` is imported with the first call: a worker without remote agents does not load it.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from wakeful.contract.errors import ConfigurationError
from wakeful.contract.missing import Missing
from wakeful.contract.remote import Endpoint
from wakeful_activities.a2a.secrets import EndpointSecrets
from wakeful_activities.other_workers import Lacking, OtherWorkers, waited

if TYPE_CHECKING:
    import httpx
    from a2a.types.a2a_pb2 import AgentCard

    from wakeful_activities.a2a.service import RemoteService

CARD_SECONDS = 300.0
"""How long a card is used before it is read again: polls of a task need not read it each time."""
NEEDS_EXTRA = "remote agents need the package a2a-sdk: pip install 'wakeful[a2a]'"


class Services:
    """Opens remote agents. Close it when the worker has stopped."""

    def __init__(self, others: OtherWorkers) -> None:
        self._others = others
        self._http: httpx.AsyncClient | None = None
        self._cards: dict[str, tuple[float, AgentCard]] = {}

    async def open(
        self, endpoint: Endpoint, *, heartbeat: Callable[[Missing], None] = activity.heartbeat
    ) -> "RemoteService":
        """The remote agent, with the secrets that this process has.

        Raises:
            RemoteError: its card cannot be read, or does not offer what a worker speaks.
            ApplicationError: this worker lacks the package or a secret: another one may have it.
        """
        try:
            from wakeful_activities.a2a import service
        except ImportError:
            raise await self._lacking("the package a2a-sdk", NEEDS_EXTRA, heartbeat) from None
        try:
            secrets = EndpointSecrets.read(endpoint)
        except ConfigurationError as error:
            raise await self._lacking(f"the secrets of {endpoint.service}", str(error), heartbeat) from None
        if self._http is None or self._http.is_closed:
            self._http = service.new_http_client()
        read_at, card = self._cards.get(endpoint.url, (0.0, None))
        if card is None or time.monotonic() - read_at > CARD_SECONDS:
            card = await service.read_card(self._http, endpoint, secrets)
            self._cards[endpoint.url] = (time.monotonic(), card)
        return service.RemoteService(self._http, endpoint, card, secrets)

    def forget(self, endpoint: Endpoint) -> None:
        """Read the card again with the next call: the service may have moved."""
        self._cards.pop(endpoint.url, None)

    async def aclose(self) -> None:
        if self._http is not None:
            await self._http.aclose()

    async def _lacking(self, what: str, problem: str, heartbeat: Callable[[Missing], None]) -> ApplicationError:
        patience = await self._others.leave(Lacking(what, problem), heartbeat=heartbeat)
        return ApplicationError(
            f"{problem}{waited(patience)}",
            type="RemoteNotConfigured",
            non_retryable=True,
            category=ApplicationErrorCategory.BENIGN,
        )
