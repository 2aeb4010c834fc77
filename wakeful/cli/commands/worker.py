"""`wakeful worker`: a worker for a registry. The repository's `worker.py` is this program, too."""

import asyncio
from typing import Annotated

import typer

from wakeful.cli import options
from wakeful.cli.process import run_and_leave


def worker(
    app: options.AppOption = None,
    agents: options.AgentsOption = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    task_queue: options.TaskQueueOption = options.TASK_QUEUE,
    max_concurrent: Annotated[int, typer.Option(min=1, metavar="N", help="Concurrent model and tool calls.")] = 100,
    max_cached: Annotated[int, typer.Option(min=0, metavar="N", help="Workflows in the sticky cache.")] = 1000,
    cached_threads: Annotated[int, typer.Option(min=1, metavar="N", help="Conversations in memory.")] = 512,
    build_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The version of your code, for history. [default: Wakeful's version]"),
    ] = None,
    deployment: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Worker Versioning: the Worker Deployment that --build-id belongs to."),
    ] = None,
) -> None:
    """Run a worker for your agents, until Ctrl-C or SIGTERM.

    It finishes running tools before it stops. On SIGHUP it reads the files of --agents again, for new runs.
    """
    from wakeful.cli.serving import print_reload, registry_of, stop_on_signals
    from wakeful.connection import Address, connect
    from wakeful.contract.errors import ConfigurationError
    from wakeful.registry.reloading import reloading_on_hangup
    from wakeful.worker import BUILD_ID, WorkerSettings, serve

    if deployment and not build_id:
        raise ConfigurationError(["--deployment needs --build-id: every version of your code has its own"])
    registry = registry_of(app, agents)
    settings = WorkerSettings(
        task_queue=task_queue,
        max_concurrent_activities=max_concurrent,
        max_cached_workflows=max_cached,
        cached_threads=cached_threads,
        build_id=build_id or BUILD_ID,
        deployment=deployment or None,
    )

    async def go() -> None:
        client = await connect(Address(address=address, namespace=namespace))
        stop = stop_on_signals()
        host = client.service_client.config.target_host
        known = ", ".join(sorted(registry.agents))
        with reloading_on_hangup(registry, print_reload):
            print(f"worker on {host}, namespace {client.namespace!r}, task queue {task_queue!r}: {known}", flush=True)
            await serve(client, registry, settings, until=stop)
        print("worker stopped", flush=True)

    asyncio.run(go())


def main() -> None:
    """The program behind the repository's `worker.py`."""
    import logging

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    run_and_leave(lambda: typer.run(worker), name="worker")
