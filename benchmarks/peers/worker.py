"""One plugin's worker, in a process of its own: `python -m benchmarks.peers.worker MODULE ADDRESS [sandboxed]`.

It prints `ready` and serves until its standard input closes, so it never outlives the benchmark.
"""

import asyncio
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from temporalio.client import Client
from temporalio.worker import Plugin, UnsandboxedWorkflowRunner, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from wakeful.cli.process import run_and_leave
from wakeful.worker import WorkerSettings

SANDBOXED = "sandboxed"


def plain_worker(
    client: Client,
    task_queue: str,
    *,
    workflows: Sequence[type],
    activities: Sequence[Callable[..., Any]] = (),
    plugins: Sequence[Plugin] = (),
) -> Worker:
    """A worker with the baseline's settings. It reads from the command line whether to use the SDK's sandbox."""
    settings = WorkerSettings(task_queue=task_queue)
    return Worker(
        client,
        task_queue=task_queue,
        workflows=workflows,
        activities=activities,
        plugins=plugins,
        workflow_runner=SandboxedWorkflowRunner() if SANDBOXED in sys.argv else UnsandboxedWorkflowRunner(),
        max_concurrent_activities=settings.max_concurrent_activities,
        max_cached_workflows=settings.max_cached_workflows,
        graceful_shutdown_timeout=settings.graceful_shutdown,
        sticky_queue_schedule_to_start_timeout=settings.sticky_timeout,
    )


def call_id(done: int) -> str:
    """The id of the tool call after `done` steps, as long as OpenAI's and Anthropic's are."""
    return f"call_{done + 1:024}"


async def serve(module: str, address: str) -> None:
    async with await importlib.import_module(module).worker(address, module):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    run_and_leave(lambda: asyncio.run(serve(sys.argv[1], sys.argv[2])), name="benchmarks.peers.worker")
