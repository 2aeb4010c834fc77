"""The two ways to reach the server: streamable HTTP as an ASGI app, and stdin and stdout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wakeful.client.client import Client
from wakeful.contract.errors import ConfigurationError
from wakeful.http_serving import has_token
from wakeful.mcp.served import Served
from wakeful.registry.registry import Registry

if TYPE_CHECKING:
    from mcp.server import Server
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/mcp"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Hosts by which this machine's own clients reach a server on it."""

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
    decisions: bool = True,
    cancels: bool = True,
) -> Starlette:
    """An ASGI app that serves agents as MCP tools over streamable HTTP.

    Run its lifespan: a server such as uvicorn does, an app that mounts this one has to.

    Args:
        registry: has the agents, with their descriptions and output types.
        agents: the ids of the agents to serve; all of the registry's by default. Without a registry, those of agents
            that your workers know.
        token: the bearer token that every request must have.
        allowed_hosts: names, or `name:port`, by which clients may reach the server in addition to this machine's
            loopback names; requests for others are refused, as a web page makes them by DNS rebinding.
        tenant: the tenant that the threads belong to; those of others are refused.
        user: the user for whom the runs act.
        decisions: clients may approve, deny and answer what a run waits for.
        cancels: a client that cancels its request cancels the run.

    Raises:
        ConfigurationError: no agent is named, one is not in the registry, or the package `mcp` is not installed.
    """
    served = Served(client, registry, agents, tenant=tenant, user=user, decisions=decisions, cancels=cancels)
    server = _build(served)
    from mcp.server.transport_security import TransportSecuritySettings

    hosts = [pattern for host in (*LOOPBACK, *allowed_hosts) for pattern in _patterns(host)]
    origins = [f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")]
    security = TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)
    asgi = server.streamable_http_app(streamable_http_path=path, transport_security=security)
    if token is not None:
        asgi.add_middleware(_Bearer, token=token)
    return asgi


async def serve_stdio(
    client: Client,
    *,
    registry: Registry | None = None,
    agents: Sequence[str] | None = None,
    tenant: str | None = None,
    user: str | None = None,
    decisions: bool = True,
    cancels: bool = True,
) -> None:
    """Serve agents as MCP tools on stdin and stdout, until stdin ends; the arguments are those of `app`.

    Meanwhile, what this process prints goes to stderr: stdout has nothing but the protocol.
    """
    server = _build(Served(client, registry, agents, tenant=tenant, user=user, decisions=decisions, cancels=cancels))
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


def _patterns(host: str) -> tuple[str, ...]:
    """How a request names a host: with its port, or without one if that is the usual one."""
    has_port = ":" in host.rpartition("]")[2]
    return (host,) if has_port else (host, f"{host}:*")


class _Bearer:
    """Refuses requests without the token."""

    def __init__(self, app: ASGIApp, *, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or has_token(scope["headers"], self._token):
            await self._app(scope, receive, send)
            return
        headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b"this server needs its bearer token\n"})
