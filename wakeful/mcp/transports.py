"""The two ways to reach the server: streamable HTTP as an ASGI app, and stdin and stdout."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from wakeful.client.client import Client
from wakeful.contract.choices import member_named
from wakeful.contract.decisions import ClientDecisions, ClientDecisionsName
from wakeful.contract.errors import ConfigurationError
from wakeful.http_serving import BoundedBodies, Refusal, has_token, is_loopback, refusal_of_page, refuse
from wakeful.mcp.served import Served
from wakeful.registry.registry import Registry

if TYPE_CHECKING:
    from mcp.server import Server
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/mcp"
TOKEN_VARIABLE = "WAKEFUL_MCP_TOKEN"

NO_TOKEN = Refusal(403, f"this server has no token, and serves only its own machine: set {TOKEN_VARIABLE}")
WRONG_TOKEN = Refusal(401, "the bearer token is missing or wrong")
NEEDS_EXTRA = "the MCP server needs the package 'mcp': install it with `pip install 'wakeful[mcp]'`"


def app(
    client: Client,
    *,
    registry: Registry | None = None,
    agents: Sequence[str] | None = None,
    token: str | None = None,
    allowed_hosts: Sequence[str] = (),
    path: str = PATH,
    tenant: str | None = None,
    user: str | None = None,
    decisions: ClientDecisions | ClientDecisionsName = "questions",
    cancels: bool = True,
    all_threads: bool = False,
) -> Starlette:
    """An ASGI app that serves agents as MCP tools over streamable HTTP.

    Run its lifespan: a server such as uvicorn does, an app that mounts this one has to.

    Args:
        registry: has the agents, with their descriptions and output types.
        agents: the ids of the agents to serve; all of the registry's by default. Without a registry, those of agents
            that your workers know.
        token: the bearer token that every request must have; by default, what the variable `WAKEFUL_MCP_TOKEN` has.
            Without one, the server answers only programs of its own machine.
        allowed_hosts: names, or `name:port`, by which clients may reach the server in addition to this machine's
            loopback names; requests for others are refused, as a web page makes them by DNS rebinding.
        tenant: the tenant that the threads belong to; those of others are refused. Without one, the server has the
            threads that belong to no tenant.
        user: the user for whom the runs act; threads that were opened for others are refused.
        decisions: which of the decisions that runs wait for clients may make: `none`, `questions` that tools ask, or
            `all`, which adds the approvals that permission rules, gates and hooks ask for.
        cancels: a client that cancels its request cancels the run.
        all_threads: clients may also continue threads of the same agents, tenant and user that were not opened over
            MCP.

    Raises:
        ConfigurationError: no agent is named, one is not in the registry, or the package `mcp` is not installed.
    """
    decides = member_named(ClientDecisions, decisions, parameter="decisions")
    served = Served(client, registry, agents, tenant, user, decides, cancels, all_threads)
    server = _build(served)
    from mcp.server.transport_security import TransportSecuritySettings

    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # `_Access` checks hosts and origins
    asgi = server.streamable_http_app(streamable_http_path=path, transport_security=unchecked)
    asgi.add_middleware(BoundedBodies)
    asgi.add_middleware(_Access, token=token or read_token(os.environ), hosts=allowed_hosts)
    return asgi


def read_token(environ: Mapping[str, str]) -> str | None:
    """The bearer token that clients must have."""
    return environ.get(TOKEN_VARIABLE, "").strip() or None


async def serve_stdio(
    client: Client,
    *,
    registry: Registry | None = None,
    agents: Sequence[str] | None = None,
    tenant: str | None = None,
    user: str | None = None,
    decisions: ClientDecisions | ClientDecisionsName = "questions",
    cancels: bool = True,
    all_threads: bool = False,
) -> None:
    """Serve agents as MCP tools on stdin and stdout, until stdin ends; the arguments are those of `app`.

    Meanwhile, what this process prints goes to stderr: stdout has nothing but the protocol.
    """
    decides = member_named(ClientDecisions, decisions, parameter="decisions")
    server = _build(Served(client, registry, agents, tenant, user, decides, cancels, all_threads))
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _build(served: Served) -> Server[None]:
    try:
        from wakeful.mcp.server import build_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise ConfigurationError([NEEDS_EXTRA]) from error
    return build_server(served)


class _Access:
    """Refuses what a web page may have sent, and requests without the token; if the server has none, other machines."""

    def __init__(self, app: ASGIApp, *, token: str | None, hosts: Collection[str]) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await refuse(send, refusal, unread=receive)

    def _refusal(self, scope: Scope) -> Refusal | None:
        if self._token is not None and not has_token(scope["headers"], self._token):
            return WRONG_TOKEN
        if self._token is None and not is_loopback((scope.get("client") or ("",))[0]):
            return NO_TOKEN
        return refusal_of_page(scope["headers"], self._hosts)
