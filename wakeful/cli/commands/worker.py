"""`wakeful worker`: run a worker for a registry until it is told to stop."""

import asyncio
import logging
import signal
from typing import Annotated

import typer

from wakeful.cli import options
from wakeful.cli.process import run_and_leave
from wakeful.connection import connect
from wakeful.contract.errors import ConfigurationError
from wakeful.registry.reloading import reloading_on_hangup
from wakeful.worker import BUILD_ID, WorkerSettings, serve


def worker(
    app: options.AppOption = None,
    agents: options.AgentsOption = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    task_queue: options.TaskQueueOption = options.TASK_QUEUE,
    max_concurrent: Annotated[int, typer.Option(min=1, help="Model and tool calls at a time.")] = 100,
    max_cached: Annotated[int, typer.Option(min=0, help="Runs kept in memory.")] = 1000,
    cached_threads: Annotated[int, typer.Option(min=1, help="Conversations kept in memory.")] = 512,
    build_id: Annotated[
        str | None, typer.Option(help=f"What history says of the code that did a task. [default: {BUILD_ID}]")
    ] = None,
    deployment: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The Worker Deployment that --build-id is a version of: Worker Versioning."),
    ] = None,
) -> None:
    """Run a worker for your agents until Ctrl-C or SIGTERM; tools in flight may finish first.

    SIGHUP makes it read the files of --agents again, for runs that begin from then on.
    """
    if deployment and not build_id:
        raise ConfigurationError(["--deployment needs --build-id: every version of your code has one of its own"])
    registry = options.registry_of(app, agents)
    settings = WorkerSettings(
        task_queue=task_queue,
        max_concurrent_activities=max_concurrent,
        max_cached_workflows=max_cached,
        cached_threads=cached_threads,
        build_id=build_id or BUILD_ID,
        deployment=deployment or None,
    )

    async def go() -> None:
        client = await connect(options.where(address, namespace))
        stop = stop_on_signals()
        host = client.service_client.config.target_host
        known = ", ".join(sorted(registry.agents))
        with reloading_on_hangup(registry, options.tell_reload):
            print(f"worker on {host}, namespace {client.namespace!r}, task queue {task_queue!r}: {known}", flush=True)
            await serve(client, registry, settings, until=stop)
        print("worker stopped", flush=True)

    asyncio.run(go())


def main() -> None:
    """The program behind the repository's `worker.py`."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    run_and_leave(lambda: typer.run(worker), name="worker")


def stop_on_signals() -> asyncio.Event:
    """An event that Ctrl-C and SIGTERM set; a second signal ends the process as usual."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def told(signum: signal.Signals) -> None:
        loop.remove_signal_handler(signum)
        stop.set()

    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, told, signum)
    return stop
