"""`wakeful worker`: a worker for a registry. The repository's `worker.py` is this program, too."""

import asyncio
import os
import sys
from datetime import timedelta
from typing import Annotated

import typer

from wakeful.cli import options
from wakeful.cli.logs import LogFormat, LogFormatOption, LogLevel, LogLevelOption, log_to_stderr
from wakeful.cli.process import run_and_leave

EXHAUSTED = 75
"""The exit code (EX_TEMPFAIL) of a worker that has too many hung threads: start it again."""

NO_REGISTRY = (
    "a worker needs your agents: name your registry with --app module:registry or --app path/to/file.py:registry, or "
    f"files of agents with --agents. For the demo's agents, write --app {options.DEMO_APP}."
)


def worker(
    app: options.RequiredAppOption = None,
    agents: options.AgentsOption = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    task_queue: options.TaskQueueOption = options.TASK_QUEUE,
    inference_queue: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Serve only the model calls of this task queue, which the registry names."),
    ] = None,
    max_inferences_per_second: Annotated[
        float | None,
        typer.Option(
            min=0.001, metavar="N", help="With --inference-queue: Temporal's limit, for all its workers together."
        ),
    ] = None,
    new_run_patience: Annotated[
        float,
        typer.Option(
            min=0, metavar="SECONDS", help="How long other workers are tried for the unknown agent of a new run."
        ),
    ] = 120.0,
    in_flight_patience: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="The same for what a run in flight needs and this worker lacks."),
    ] = 900.0,
    max_concurrent: Annotated[int, typer.Option(min=1, metavar="N", help="Concurrent model and tool calls.")] = 100,
    max_cached: Annotated[int, typer.Option(min=0, metavar="N", help="Workflows in the sticky cache.")] = 1000,
    max_cached_mb: Annotated[int, typer.Option(min=0, metavar="MB", help="Conversations in memory.")] = 256,
    max_abandoned: Annotated[
        int, typer.Option(min=1, metavar="N", help="Hung sync tools, gates and hooks, before the worker exits with 75.")
    ] = 100,
    health: Annotated[
        int | None, typer.Option(min=1, max=65535, metavar="PORT", help="Answer health checks over HTTP on this port.")
    ] = None,
    health_host: Annotated[
        str, typer.Option(metavar="HOST", help="The interface of that port; 0.0.0.0 for probes from outside.")
    ] = "127.0.0.1",
    metrics_port: Annotated[
        int | None,
        typer.Option("--metrics", min=1, max=65535, metavar="PORT", help="Serve metrics to Prometheus on this port."),
    ] = None,
    graceful_shutdown: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="How long running model and tool calls may continue after SIGTERM, before they are cancelled.",
        ),
    ] = 20.0,
    sweep_interval: Annotated[
        float,
        typer.Option(
            min=0, metavar="SECONDS", help="How often all workers together sweep the task queue; 0: this one never."
        ),
    ] = 5.0,
    source_refresh: Annotated[
        float,
        typer.Option(
            min=0, metavar="SECONDS", help="How often agents of other services are discovered again; 0: only once."
        ),
    ] = 300.0,
    build_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The version of your code, for history. [default: Wakeful's version]"),
    ] = None,
    deployment: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Worker Versioning: the Worker Deployment that --build-id belongs to."),
    ] = None,
    log_level: LogLevelOption = LogLevel.INFO,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Run a worker for your agents, until Ctrl-C or SIGTERM.

    Before it stops, it lets running calls finish. On SIGHUP it reads the files of --agents again, for new runs.
    """
    from wakeful.cli.serving import print_reload, registry_of, stop_on_signals
    from wakeful.connection import Address, connect
    from wakeful.contract.errors import ConfigurationError, WorkerExhausted
    from wakeful.registry.reloading import reloading_on_hangup
    from wakeful.telemetry.setup import set_up
    from wakeful.worker import BUILD_ID, WorkerSettings, serve

    if deployment and not build_id:
        raise ConfigurationError(["--deployment needs --build-id: every version of your code has its own"])
    if not (app or agents):
        raise ConfigurationError([NO_REGISTRY])
    registry = registry_of(app, agents)
    log_to_stderr(log_level, log_format)
    settings = WorkerSettings(
        task_queue=task_queue,
        inference_queue=inference_queue or None,
        max_inferences_per_second=max_inferences_per_second,
        new_run_patience=timedelta(seconds=new_run_patience),
        in_flight_patience=timedelta(seconds=in_flight_patience),
        max_concurrent_activities=max_concurrent,
        max_cached_workflows=max_cached,
        max_abandoned_threads=max_abandoned,
        health_port=health,
        health_host=health_host,
        graceful_shutdown=timedelta(seconds=graceful_shutdown),
        max_cached_bytes=max_cached_mb * 2**20,
        sweep_interval=timedelta(seconds=sweep_interval) if sweep_interval else None,
        source_refresh=timedelta(seconds=source_refresh) if source_refresh else None,
        build_id=build_id or BUILD_ID,
        deployment=deployment or None,
    )

    exports = set_up(os.environ, metrics_port=metrics_port, is_worker=True)

    async def go() -> None:
        where = Address(address=address, namespace=namespace, client=client_factory)
        client = await connect(where, runtime=exports.runtime)
        stop = stop_on_signals()
        host = client.service_client.config.target_host
        queue = f"inference queue {inference_queue!r}" if inference_queue else f"task queue {task_queue!r}"
        known = ", ".join(sorted(registry.agents))
        with reloading_on_hangup(registry, print_reload):
            print(f"worker on {host}, namespace {client.namespace!r}, {queue}: {known}", flush=True)
            async with exports.running():
                await serve(client, registry, settings, until=stop)
        print("worker stopped", flush=True)

    try:
        asyncio.run(go())
    except WorkerExhausted as error:
        print(f"worker: {error}", file=sys.stderr)
        sys.exit(EXHAUSTED)


def main() -> None:
    """The program behind the repository's `worker.py`."""
    run_and_leave(lambda: typer.run(worker), name="worker")
