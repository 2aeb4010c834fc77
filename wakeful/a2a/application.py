"""Compose the ASGI application: a2a-sdk's routes over our request handler, the cards, and who may use them."""

import logging
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from a2a.server.context import ServerCallContext
from a2a.server.routes import (
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
    jsonrpc_dispatcher,
)
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import BaseRoute

from wakeful.a2a import TOKEN_VARIABLE
from wakeful.a2a.access import Access
from wakeful.a2a.cards import card, served_agents
from wakeful.a2a.handler import REQUEST, WakefulRequestHandler
from wakeful.client.client import Client
from wakeful.contract.decisions import ClientDecisions
from wakeful.contract.errors import ConfigurationError
from wakeful.http_serving import BoundedBodies
from wakeful.registry.registry import Registry

if TYPE_CHECKING:
    from starlette.types import ASGIApp

CARD_CACHE = "public, max-age=300"
"""How long clients may use a card without asking for it again; then its `ETag` tells whether it has changed."""


@dataclass(frozen=True)
class ServerSettings:
    """How agents are served: the arguments of `wakeful.a2a.app`."""

    url: str
    token: str | None
    allowed_hosts: tuple[str, ...]
    tenant: str | None
    decisions: ClientDecisions
    push_private: bool


def build(
    client: Client, agents: Registry | Mapping[str, str], only: Collection[str] | None, settings: ServerSettings
) -> "ASGIApp":
    """The application that `wakeful.a2a.app` documents."""
    url = settings.url.rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError([f"the url {url!r} of the cards must start with http:// or https://"])
    token = settings.token or os.environ.get(TOKEN_VARIABLE) or None
    served = served_agents(agents, only=only)
    has_token = token is not None
    public = card(served, url=url, has_token=has_token)
    handler = WakefulRequestHandler(
        client,
        served,
        public=public,
        tenant=settings.tenant,
        decisions=settings.decisions,
        push_private=settings.push_private,
    )
    # At the level DEBUG it logs the bodies of requests, and a push config may have secrets.
    logging.getLogger(jsonrpc_dispatcher.__name__).setLevel(logging.INFO)
    builder = _ContextBuilder()
    routes: list[BaseRoute] = [*create_agent_card_routes(public, cache_control=CARD_CACHE)]
    for agent in served:
        path = f"/{agent.id}{AGENT_CARD_WELL_KNOWN_PATH}"
        routes += create_agent_card_routes(
            card([agent], url=url, has_token=has_token), card_url=path, cache_control=CARD_CACHE
        )
    routes += create_jsonrpc_routes(handler, "/", context_builder=builder)
    routes += create_rest_routes(handler, context_builder=builder)
    served_routes = Starlette(routes=routes)
    served_routes.router.redirect_slashes = False  # a path that is not one of A2A's is not found
    hosts = {*settings.allowed_hosts, urlsplit(url).netloc.rpartition("@")[2]}
    return Access(BoundedBodies(served_routes), token=token, hosts=hosts)


class _ContextBuilder(DefaultServerCallContextBuilder):
    """Gives the handler the HTTP request, to notice that its client has gone."""

    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        context.state[REQUEST] = request
        # Not for the handler, which could log it.
        context.state["headers"].pop("authorization", None)
        return context
