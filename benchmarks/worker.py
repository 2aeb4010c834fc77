"""One side's worker, in a process of its own: `python -m benchmarks.worker SIDE ADDRESS [PROVIDER [STICKY [QUEUE]]]`.

It prints `ready` and serves until its standard input closes, so it never outlives the benchmark. With the address of a
model provider it is the side's streaming worker, on a task queue of its own. STICKY is its sticky
timeout in seconds; an empty argument means the default.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from benchmarks import bare, bare_stream, wakeful_agent, wakeful_stream, workflow_stream
from benchmarks.workload import BARE, BARE_SANDBOXED, WAKEFUL, streaming_queue
from wakeful.cli.process import run_and_leave
from wakeful.connection import Address, connect
from wakeful.worker import WorkerSettings, running_worker

BARE_WORKFLOWS = [
    bare.BareRun,
    bare.BareWholeRun,
    bare_stream.BareStream,
    bare_stream.BareHeartbeatStream,
    workflow_stream.WorkflowStreamRun,
]


@contextlib.asynccontextmanager
async def bare_worker(
    client: Client, settings: WorkerSettings, activities: list[Callable[..., Any]], *, sandboxed: bool
) -> AsyncIterator[None]:
    """A plain worker with Wakeful's settings. Unsandboxed by default: the benchmark compares loops, not sandboxes."""
    worker = Worker(
        client,
        task_queue=settings.task_queue,
        workflows=BARE_WORKFLOWS,
        activities=activities,
        workflow_runner=SandboxedWorkflowRunner() if sandboxed else UnsandboxedWorkflowRunner(),
        max_concurrent_activities=settings.max_concurrent_activities,
        max_cached_workflows=settings.max_cached_workflows,
        graceful_shutdown_timeout=settings.graceful_shutdown,
        sticky_queue_schedule_to_start_timeout=settings.sticky_timeout,
        max_heartbeat_throttle_interval=settings.live_heartbeat_interval,
        default_heartbeat_throttle_interval=settings.live_heartbeat_interval,
    )
    async with worker:
        yield


async def serve(
    side: str, address: str, provider: str | None = None, sticky: str | None = None, queue: str | None = None
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        if side == WAKEFUL:
            client = await connect(Address(address=address))
            registry = wakeful_stream.registry_for(provider) if provider else wakeful_agent.registry
            await stack.enter_async_context(
                running_worker(client, registry, _settings(WAKEFUL, provider, sticky, queue))
            )
        else:
            client = await Client.connect(address, data_converter=pydantic_data_converter)
            activities: list[Callable[..., Any]] = [bare.infer, bare.infer_whole, bare.pad]
            if provider:
                model, publisher = bare_stream.BareModel(provider), workflow_stream.PublishingModel(provider)
                activities += [model.stream_answer, model.heartbeat_answer, publisher.publish_answer]
            settings = _settings(BARE, provider, sticky, queue)
            await stack.enter_async_context(bare_worker(client, settings, activities, sandboxed=side == BARE_SANDBOXED))
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


def _settings(side: str, provider: str | None, sticky: str | None, queue: str | None) -> WorkerSettings:
    settings = WorkerSettings(task_queue=queue or (streaming_queue(side) if provider else side))
    return settings if not sticky else replace(settings, sticky_timeout=timedelta(seconds=float(sticky)))


if __name__ == "__main__":
    run_and_leave(lambda: asyncio.run(serve(*sys.argv[1:])), name="benchmarks.worker")
