"""`wakeful mcp serve`: agents as tools of other programs. It imports only what `--help` needs."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import completion, options
from wakeful.cli.logs import LogFormat, LogFormatOption, LogLevel, LogLevelOption, log_to_stderr

if TYPE_CHECKING:
    from wakeful.client.client import Client


NO_AGENTS = (
    "name your agents: your registry with --app module:registry, files with --agents, or those that your workers know "
    f"with --agent. For the demo's agents, write --app {options.DEMO_APP}."
)


def serve(
    app: Annotated[
        str | None,
        typer.Option(metavar="REGISTRY", help="Your registry: module:registry or path/to/file.py:registry."),
    ] = None,
    agents: options.AgentsOption = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            "--agent",
            metavar="AGENT",
            help="Serve only this agent. Repeatable. Without --app and --agents: one that your workers know.",
            autocompletion=completion.complete_agent,
        ),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Serve over HTTP, on this machine by default. Beyond it, $WAKEFUL_MCP_TOKEN must have a token.",
        ),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="With --http: a name by which clients reach this server. Repeatable."),
    ] = None,
    decisions: options.DecisionsOption = options.ServedDecisions.QUESTIONS,
    cancels: Annotated[bool, typer.Option(help="Cancel the run of a request that its client cancels.")] = True,
    all_threads: Annotated[
        bool,
        typer.Option("--all-threads", help="Let clients continue also threads that were not opened over MCP."),
    ] = False,
    tenant: options.TenantOption = None,
    user: options.UserOption = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    task_queue: options.TaskQueueOption = options.TASK_QUEUE,
    log_level: LogLevelOption = LogLevel.INFO,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Serve agents as MCP tools, on stdin and stdout or over HTTP.

    It needs workers that run the agents. Over stdio, it ends with its input; runs continue nevertheless.
    """
    from wakeful.cli.listening import listen
    from wakeful.cli.serving import stop_on_signals
    from wakeful.cli.session import with_client
    from wakeful.contract.errors import ConfigurationError
    from wakeful.http_serving import serve_app
    from wakeful.mcp import app as asgi_app
    from wakeful.mcp import serve_stdio
    from wakeful.mcp.transports import read_token
    from wakeful.worker import load_registry

    if not (app or agents or agent):
        raise ConfigurationError([NO_AGENTS])
    log_to_stderr(log_level, log_format)
    with contextlib.redirect_stdout(sys.stderr):  # what your modules print when they are imported
        registry = load_registry(app, agent_files=agents or ()) if app or agents else None
    token = read_token(os.environ)
    bound = None if http is None else listen(http, allowed_host or [], token=token)

    async def go(client: Client) -> None:
        if bound is None:
            await serve_stdio(
                client,
                registry=registry,
                agents=agent,
                tenant=tenant,
                user=user,
                decisions=decisions.value,
                cancels=cancels,
                all_threads=all_threads,
            )
            return
        served = asgi_app(
            client,
            registry=registry,
            agents=agent,
            token=token,
            allowed_hosts=bound.allowed_hosts,
            tenant=tenant,
            user=user,
            decisions=decisions.value,
            cancels=cancels,
            all_threads=all_threads,
        )
        stop = stop_on_signals()
        print(f"MCP server on {bound.url}", flush=True)
        await serve_app(served, bound.socket, until=stop)

    with_client(options.Cluster(address, namespace, client_factory), go, task_queue=task_queue)
