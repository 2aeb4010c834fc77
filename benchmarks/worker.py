"""One side's worker as a process of its own, so that its CPU can be read: `python -m benchmarks.worker SIDE ADDRESS`.

It says `ready` and serves until its standard input closes, so it never outlives the benchmark.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from benchmarks import bare, ours
from benchmarks.sides import BARE, BARE_SANDBOXED, OURS
from wakeful.cli.exits import run_and_leave
from wakeful.connection import Address, connect
from wakeful.worker import WorkerSettings, running_worker

BARE_WORKFLOWS = [bare.BareRun, bare.BareWholeRun]


@contextlib.asynccontextmanager
async def bare_worker(client: Client, *, sandboxed: bool) -> AsyncIterator[None]:
    """A plain worker with Wakeful's settings. Unsandboxed unless asked: loops are compared here, not sandboxes."""
    settings = WorkerSettings(task_queue=BARE)
    worker = Worker(
        client,
        task_queue=settings.task_queue,
        workflows=BARE_WORKFLOWS,
        activities=[bare.infer, bare.infer_whole, bare.pad],
        workflow_runner=SandboxedWorkflowRunner() if sandboxed else UnsandboxedWorkflowRunner(),
        max_concurrent_activities=settings.max_concurrent_activities,
        max_cached_workflows=settings.max_cached_workflows,
        graceful_shutdown_timeout=settings.graceful_shutdown,
        sticky_queue_schedule_to_start_timeout=settings.sticky_timeout,
    )
    async with worker:
        yield


async def serve(side: str, address: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        if side == OURS:
            client = await connect(Address(address=address))
            await stack.enter_async_context(running_worker(client, ours.registry, WorkerSettings(task_queue=OURS)))
        else:
            client = await Client.connect(address, data_converter=pydantic_data_converter)
            await stack.enter_async_context(bare_worker(client, sandboxed=side == BARE_SANDBOXED))
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    run_and_leave(lambda: asyncio.run(serve(*sys.argv[1:])), name="benchmarks.worker")
