"""`wakeful dev`: a Temporal server, its web UI and a worker on this machine, until Ctrl-C."""

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from wakeful.cli import options
from wakeful.cli.commands.worker import stop_on_signals
from wakeful.connection import embedded_server
from wakeful.registry.reloading import ReloadOutcome, reloading_on_change
from wakeful.worker import WorkerSettings, serve

DEMO_TEXT = "I want my money back for order 1042"


def dev(
    app: options.AppOption = None,
    agents: options.AgentsOption = None,
    db: Annotated[
        Path | None, typer.Option("--db", help="Keep everything in this file; without it, in memory only.")
    ] = None,
    port: Annotated[int, typer.Option(help="Temporal's port; 0 takes a free one.")] = 7233,
    ui_port: Annotated[int, typer.Option(help="The web UI's port; 0 takes a free one.")] = 8233,
    task_queue: options.TaskQueueOption = options.TASK_QUEUE,
    as_json: options.JsonOption = False,
) -> None:
    """Start a Temporal server, its web UI and a worker for your agents; Ctrl-C stops them.

    The files of --agents are read again whenever they change, for runs that begin from then on.
    """
    registry = options.registry_of(app, agents)

    def tell(outcome: ReloadOutcome) -> None:
        if as_json:
            print(json.dumps({"outcome": type(outcome).__name__.lower(), **asdict(outcome)}), flush=True)
        else:
            options.tell_reload(outcome)

    async def go() -> None:
        async with embedded_server(database=db, port=port or None, ui_port=ui_port or None) as server:
            stop = stop_on_signals()
            where = {
                "address": server.address,
                "ui": server.ui,
                "task_queue": task_queue,
                "namespace": server.namespace,
            }
            if as_json:
                print(json.dumps(where), flush=True)
            else:
                text = DEMO_TEXT if options.is_demo(app, agents) else "hello"
                _say(where, kept=db, words=f"{min(registry.agents, default='AGENT')} '{text}'")
            async with reloading_on_change(registry, tell):
                await serve(server.client, registry, WorkerSettings(task_queue=task_queue), until=stop)

    asyncio.run(go())


def _say(where: dict[str, str | None], *, kept: Path | None, words: str) -> None:
    address = "" if where["address"] == "127.0.0.1:7233" else f" --address {where['address']}"
    if where["task_queue"] != options.TASK_QUEUE:
        address += f" --task-queue {where['task_queue']}"
    print(
        f"Temporal    {where['address']}   (namespace {where['namespace']})\n"
        f"Web UI      {where['ui']}\n"
        f"Task queue  {where['task_queue']}\n"
        f"Kept in     {kept or 'memory only: everything is gone when this stops (see --db)'}\n"
        f"\nIn another terminal:  wakeful run{address} {words}\n"
        "Ctrl-C stops everything.",
        flush=True,
    )
