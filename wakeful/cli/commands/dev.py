"""`wakeful dev`: a Temporal server, its web UI and a worker on this machine."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import options
from wakeful.cli.logs import LogFormat, LogFormatOption, LogLevel, LogLevelOption, log_to_stderr

if TYPE_CHECKING:
    from wakeful.registry.reloading import ReloadOutcome

DEMO_TEXT = "I want my money back for order 1042"


def dev(
    app: options.AppOption = None,
    agents: options.AgentsOption = None,
    db: Annotated[
        Path | None,
        typer.Option("--db", metavar="FILE", help="Keep everything in this file. [default: in memory only]"),
    ] = None,
    port: Annotated[int, typer.Option(metavar="PORT", help="Temporal's port; 0 takes a free one.")] = 7233,
    ui_port: Annotated[int, typer.Option(metavar="PORT", help="The web UI's port; 0 takes a free one.")] = 8233,
    client_factory: options.ClientOption = None,
    task_queue: options.TaskQueueOption = options.TASK_QUEUE,
    log_level: LogLevelOption = LogLevel.WARNING,
    log_format: LogFormatOption = LogFormat.TEXT,
    as_json: options.JsonOption = False,
) -> None:
    """Run a Temporal server, its web UI and a worker, until Ctrl-C.

    When a file of --agents changes, new runs use the new agents.
    """
    from wakeful.cli.serving import is_demo, print_reload, registry_of, stop_on_signals
    from wakeful.connection import Address, connect, embedded_server, factory_of
    from wakeful.registry.reloading import reloading_on_change
    from wakeful.telemetry.client_spans import propagating_plugins
    from wakeful.telemetry.setup import set_up
    from wakeful.worker import WorkerSettings, serve

    registry = registry_of(app, agents)
    log_to_stderr(log_level, log_format)
    exports = set_up(os.environ, is_worker=True)

    def on_reload(outcome: ReloadOutcome) -> None:
        if as_json:
            print(json.dumps({"outcome": type(outcome).__name__.lower(), **asdict(outcome)}), flush=True)
        else:
            print_reload(outcome)

    async def go() -> None:
        async with embedded_server(database=db, port=port or None, ui_port=ui_port or None) as server:
            stop = stop_on_signals()
            address = Address(address=server.address, namespace=server.namespace, client=client_factory)
            client = await connect(address) if factory_of(address) or propagating_plugins() else server.client
            where = {
                "address": server.address,
                "ui": server.ui,
                "task_queue": task_queue,
                "namespace": server.namespace,
            }
            if as_json:
                print(json.dumps(where), flush=True)
            else:
                text = DEMO_TEXT if is_demo(app, agents) else "hello"
                _print_start(where, database=db, example=f"{min(registry.agents, default='AGENT')} '{text}'")
            # It is the only worker: what it does not know fails at once.
            settings = WorkerSettings(
                task_queue=task_queue, new_run_patience=timedelta(), in_flight_patience=timedelta()
            )
            async with reloading_on_change(registry, on_reload), exports.running():
                await serve(client, registry, settings, until=stop)

    asyncio.run(go())


def _print_start(where: dict[str, str | None], *, database: Path | None, example: str) -> None:
    is_default = where["address"] == "127.0.0.1:7233"
    export = "" if is_default else f"export TEMPORAL_ADDRESS={where['address']}\n                      "
    queue = "" if where["task_queue"] == options.TASK_QUEUE else f" --task-queue {where['task_queue']}"
    print(
        f"Temporal    {where['address']}   (namespace {where['namespace']})\n"
        f"Web UI      {where['ui']}\n"
        f"Task queue  {where['task_queue']}\n"
        f"Stored in   {database or 'memory only: everything is lost when this stops (see --db)'}\n"
        f"\nIn another terminal:  {export}wakeful run{queue} {example}\n"
        "Ctrl-C stops everything.",
        flush=True,
    )
