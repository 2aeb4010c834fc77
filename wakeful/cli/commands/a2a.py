"""`wakeful a2a`: serve agents to clients that speak the A2A protocol."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import options
from wakeful.cli.logs import LogFormat, LogFormatOption, LogLevel, LogLevelOption, log_to_stderr
from wakeful.cli.process import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeful.registry.registry import Registry

PORT = 41241

NO_AGENTS = (
    "say which agents to serve: name your registry with --app module:registry or files of agents with --agents, or "
    "each agent with --agent 'id=what it is for'"
)

a2a = typer.Typer(
    name="a2a",
    help="Serve agents over the A2A protocol.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@a2a.callback()
def commands() -> None:
    """Serve agents over the A2A protocol."""


@a2a.command()
def serve(
    app: options.RequiredAppOption = None,
    agents: options.AgentsOption = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            "--agent",
            metavar="ID[=TEXT]",
            help="Serve only this agent; without --app and --agents, with this description. Repeatable.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(metavar="HOST", help="The interface to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="0 takes a free one.")] = PORT,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="Where clients reach the server. [default: http://HOST:PORT]")
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Without a token: a name by which clients reach the server, beside that of --url. Repeatable.",
        ),
    ] = None,
    decisions: options.DecisionsOption = options.ServedDecisions.QUESTIONS,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="NAME", help="The tenant that the threads belong to.")
    ] = None,
    push_private: Annotated[
        bool,
        typer.Option("--push-private", help="Send push notifications also to addresses that are not public."),
    ] = False,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    task_queue: options.TaskQueueOption = options.TASK_QUEUE,
    log_level: LogLevelOption = LogLevel.WARNING,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Serve agents over A2A, until Ctrl-C or SIGTERM.

    The server runs no agent: your workers do. Clients need the bearer token that WAKEFUL_A2A_TOKEN holds; without one,
    the server listens on this machine only.
    """
    from wakeful.a2a import TOKEN_VARIABLE
    from wakeful.a2a import app as a2a_app
    from wakeful.cli.serving import stop_on_signals
    from wakeful.client.client import Client
    from wakeful.connection import Address, connect
    from wakeful.contract.errors import ConfigurationError
    from wakeful.http_serving import in_url, is_loopback, listen, serve_app

    served, only = _served(app, agents, agent or [])
    if not os.environ.get(TOKEN_VARIABLE) and not is_loopback(host):
        problem = f"to listen on {host!r}, which other machines reach, set {TOKEN_VARIABLE} to a token for the clients"
        raise ConfigurationError([problem])
    log_to_stderr(log_level, log_format)

    async def go() -> None:
        temporal = await connect(Address(address=address, namespace=namespace, client=client_factory))
        async with Client(temporal, task_queue=task_queue) as client:
            stop = stop_on_signals()
            bound = listen(host, port)
            where = url or f"http://{in_url(host)}:{bound.getsockname()[1]}"
            served_app = a2a_app(
                client,
                agents=served,
                only=only,
                url=where,
                allowed_hosts=allowed_host or (),
                tenant=tenant,
                decisions=decisions.value,
                push_private=push_private,
            )
            print(f"A2A on {where}, namespace {temporal.namespace!r}, task queue {task_queue!r}", flush=True)
            await serve_app(served_app, bound, until=stop)
        print("A2A server stopped", flush=True)

    run(go())


def _served(
    app: str | None, files: Sequence[Path] | None, chosen: Sequence[str]
) -> tuple[Registry | dict[str, str], list[str] | None]:
    """The agents that the options describe, and which of them are served; None for all."""
    from wakeful.contract.errors import ConfigurationError
    from wakeful.worker import load_registry

    described = {id: text for id, _, text in (each.partition("=") for each in chosen)}
    if app or files:
        return load_registry(app or None, agent_files=files or ()), list(described) or None
    if not described:
        raise ConfigurationError([NO_AGENTS])
    return described, None
