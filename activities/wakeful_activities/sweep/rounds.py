"""When a worker sweeps: about as often as there are workers, so that the fleet makes one round per interval.

There is no leader: every worker sweeps its whole task queue, so what a worker that dies has not done, the next round of
another one does. `orphans.py` says what a round does.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from wakeful.client.thread_reader import ThreadReader
from wakeful.contract.errors import WakefulError
from wakeful.rpc_errors import RETRYABLE
from wakeful_activities.sweep.orphans import OrphanSweep

FULL_INTERVAL = timedelta(hours=1)
"""How often the fleet looks at every open child: no list shows that a parent was deleted."""

POLLING = timedelta(seconds=70)
"""Workers that have polled since then count: a long poll takes a minute, and the server remembers one for five."""

QUICK_ROUNDS = 12
"""Rounds in which a worker does not wait for the others, because it has found something: a parent may never answer."""

_logger = logging.getLogger("wakeful")


@contextlib.asynccontextmanager
async def sweeping(
    reader: ThreadReader, task_queue: str, interval: timedelta | None, *, jitter: Callable[[], float] = random.random
) -> AsyncIterator[None]:
    """Sweep while the body runs, so that all workers of the queue together do about every `interval`; None: never."""
    if interval is None:
        yield
        return
    task = asyncio.create_task(Rounds(reader, task_queue, interval, jitter=jitter).run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class Rounds:
    """The rounds of one worker, and how many workers share them."""

    def __init__(self, reader: ThreadReader, task_queue: str, interval: timedelta, jitter: Callable[[], float]) -> None:
        self._client = reader.temporal
        self._task_queue = task_queue
        self._sweep = OrphanSweep(reader, task_queue)
        self._interval = interval.total_seconds()
        self._full = max(FULL_INTERVAL.total_seconds(), self._interval)
        self._jitter = jitter
        self._quick = 0

    async def run(self) -> None:
        loop, workers, failures = asyncio.get_running_loop(), 1, 0
        # At random, so that a fleet which restarts does not look at everything at once.
        next_full = loop.time() + self._full * self._jitter()
        while True:
            await asyncio.sleep(self.pause(workers=workers, has_unfinished=self._sweep.has_unfinished))
            try:
                workers = await count_workers(self._client, self._task_queue)
                await self._sweep.sweep()
                if loop.time() >= next_full:
                    next_full = loop.time() + self._full * workers * (0.5 + self._jitter())
                    await self._sweep.sweep_all()
                failures = 0
            except Exception as error:  # a failed sweep must not stop the worker; logged once, until a sweep succeeds
                failures += 1
                # One call in a while fails because the server closes the connection.
                if failures == (2 if isinstance(error, RPCError) and error.status in RETRYABLE else 1):
                    _logger.warning("orphan sweep failed", extra={"reason": str(error)}, exc_info=_unexpected(error))

    def pause(self, *, workers: int, has_unfinished: bool = False) -> float:
        """Seconds until the next round. What this worker has found, it does not leave to the others."""
        self._quick = self._quick + 1 if has_unfinished else 0
        shared_by = 1 if 0 < self._quick <= QUICK_ROUNDS else workers
        # Jitter: the workers of a task queue should not all find the same orphan at the same time.
        return self._interval * shared_by * (0.5 + self._jitter())


async def count_workers(client: Client, task_queue: str) -> int:
    """How many workers poll a task queue, this one included.

    Raises:
        RPCError: the server refused the request, or is unreachable.
    """
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=task_queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    described = await client.workflow_service.describe_task_queue(request)
    since = datetime.now(UTC) - POLLING
    polled = {poller.identity: poller.last_access_time.ToDatetime(UTC) for poller in described.pollers}
    return max(1, sum(at > since for at in polled.values()))


def _unexpected(error: Exception) -> Exception | None:
    """The error, if its traceback is worth logging."""
    return None if isinstance(error, RPCError | WakefulError) else error
