"""A warning for those who wait for a run and have not started a worker: nothing fails, and nothing happens."""

import asyncio
import contextlib
import logging
import shlex
from collections.abc import AsyncIterator

from temporalio.client import Client
from temporalio.service import RPCError

from wakeful.history.pending_task import pending_task
from wakeful.rpc_errors import describe_execution

AFTER_SECONDS = 5.0
"""How long a workflow task waits for a worker before it is worth a warning; a busy worker takes it sooner."""

_logger = logging.getLogger("wakeful")


@contextlib.asynccontextmanager
async def warning_without_worker(temporal: Client, thread_id: str) -> AsyncIterator[None]:
    """Log once, while the body waits, that no worker takes what the thread has to do. The body continues to wait."""
    watching = asyncio.create_task(_warn(temporal, thread_id))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _warn(temporal: Client, thread_id: str) -> None:
    await asyncio.sleep(AFTER_SECONDS)
    try:
        described = await describe_execution(temporal, thread_id)
    except RPCError:  # who waits reports it
        return
    task = None if described is None else pending_task(described)
    if described is not None and task is not None and not task.is_started:
        _logger.warning(
            "no worker takes the work of thread %r: start one on its task queue %r. The run waits in history until "
            "then; `wakeful why %s` says more",
            thread_id,
            described.task_queue,
            shlex.quote(thread_id),
        )
