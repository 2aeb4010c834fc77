"""Serve agents over the A2A protocol: tasks are runs, contexts are threads, and everything is in Temporal.

`app` is an ASGI application on top of `wakeful.client`; `wakeful a2a serve` serves it. It needs `wakeful[a2a]`, which
is imported when the application is made.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from wakeful.contract.errors import ConfigurationError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from wakeful.client.client import Client
    from wakeful.contract.decisions import ClientDecisions, ClientDecisionsName
    from wakeful.registry.registry import Registry

__all__ = ["TOKEN_VARIABLE", "app"]

TOKEN_VARIABLE = "WAKEFUL_A2A_TOKEN"
"""The environment variable that holds the bearer token of the clients."""


def app(
    client: "Client",
    *,
    agents: "Registry | Mapping[str, str]",
    url: str,
    only: Collection[str] | None = None,
    token: str | None = None,
    allowed_hosts: Collection[str] = (),
    tenant: str | None = None,
    decisions: "ClientDecisions | ClientDecisionsName" = "questions",
    push_private: bool = False,
) -> "ASGIApp":
    """An ASGI application that serves agents over A2A: cards, JSON-RPC, HTTP+JSON and streams.

    Args:
        agents: a registry, or descriptions by agent id. The first one that is served answers clients that name none.
        only: the ids of those that are served; by default, all of them are.
        url: where clients reach the application, for the cards: `https://agents.example.com/a2a`.
        token: the bearer token that every request but that for a card must have; by default that of
            `WAKEFUL_A2A_TOKEN`. Without one, only this machine is served, and no web page.
        allowed_hosts: names, or `name:port`, by which clients reach a server without a token, in addition to that of
            `url` and to loopback names; requests for others are refused, as a web page makes them by DNS rebinding.
        tenant: the tenant that the threads belong to.
        decisions: what clients may decide of what their tasks wait for: `questions` for a value, but no approvals of
            calls; `all`; or `none`. Staff decide the rest.
        push_private: push notifications may be sent to addresses that are not public: of this machine, or of its
            networks.

    Raises:
        ConfigurationError: `wakeful[a2a]` is not installed, there is no agent, or an id or the url cannot be served.
    """
    from wakeful.contract.choices import member_named
    from wakeful.contract.decisions import ClientDecisions

    try:
        from wakeful.a2a.application import ServerSettings, build
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "wakeful":
            raise
        problem = f"A2A needs a package that is missing ({error.name}): pip install 'wakeful[a2a]'"
        raise ConfigurationError([problem]) from error
    settings = ServerSettings(
        url=url,
        token=token,
        allowed_hosts=tuple(allowed_hosts),
        tenant=tenant,
        decisions=member_named(ClientDecisions, decisions, parameter="decisions"),
        push_private=push_private,
    )
    return build(client, agents, only, settings)
