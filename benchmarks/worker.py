"""One side's worker as a process of its own, so that its CPU can be read: `python -m benchmarks.worker SIDE ADDRESS`.

It says `ready` and serves until its standard input closes, so it never outlives the benchmark. With the address of a
model provider as a third argument it is the side's streaming worker, on a task queue of its own, and may be killed;
a fourth says how many seconds its runs wait for it then.
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

from benchmarks import bare, bare_stream, our_stream, ours, peer_stream
from benchmarks.sides import BARE, BARE_SANDBOXED, OURS, streaming
from wakeful.cli.process import run_and_leave
from wakeful.connection import Address, connect
from wakeful.worker import HEARTBEAT_THROTTLE, WorkerSettings, running_worker

BARE_WORKFLOWS = [
    bare.BareRun,
    bare.BareWholeRun,
    bare_stream.BareStream,
    bare_stream.BareTelling,
    peer_stream.PeerStream,
]


@contextlib.asynccontextmanager
async def bare_worker(
    client: Client, settings: WorkerSettings, activities: list[Callable[..., Any]], *, sandboxed: bool
) -> AsyncIterator[None]:
    """A plain worker with Wakeful's settings. Unsandboxed unless asked: loops are compared here, not sandboxes."""
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
        max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        default_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
    )
    async with worker:
        yield


async def serve(side: str, address: str, provider: str | None = None, sticky: str | None = None) -> None:
    async with contextlib.AsyncExitStack() as stack:
        if side == OURS:
            client = await connect(Address(address=address))
            registry = our_stream.registry_over(provider) if provider else ours.registry
            await stack.enter_async_context(running_worker(client, registry, _settings(OURS, provider, sticky)))
        else:
            client = await Client.connect(address, data_converter=pydantic_data_converter)
            activities: list[Callable[..., Any]] = [bare.infer, bare.infer_whole, bare.pad]
            if provider:
                model, peer = bare_stream.BareModel(provider), peer_stream.PeerModel(provider)
                activities += [model.stream_answer, model.tell_answer, peer.publish_answer]
            settings = _settings(BARE, provider, sticky)
            await stack.enter_async_context(bare_worker(client, settings, activities, sandboxed=side == BARE_SANDBOXED))
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


def _settings(side: str, provider: str | None, sticky: str | None) -> WorkerSettings:
    settings = WorkerSettings(task_queue=streaming(side) if provider else side)
    return settings if sticky is None else replace(settings, sticky_timeout=timedelta(seconds=float(sticky)))


if __name__ == "__main__":
    run_and_leave(lambda: asyncio.run(serve(*sys.argv[1:])), name="benchmarks.worker")
