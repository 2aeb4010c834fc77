"""Gauges that no single run knows: how many are under way and suspended, and since when the oldest decision is pending.

A worker that records metrics asks the server for them now and then: two counts, and a list of the threads with pending
decisions, whose memos say since when. Every worker of a task queue finds the same numbers, so a dashboard takes the
largest.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from datetime import timedelta

from temporalio.client import Client
from temporalio.service import RPCError

from wakeful.client.pending_memos import PendingMemos
from wakeful.client.queries import OPEN_RUNS
from wakeful.contract import names
from wakeful.contract.runs import RunStatus
from wakeful.history.list_queries import quoted
from wakeful.telemetry import instruments
from wakeful.telemetry.metrics import Metrics

INTERVAL = timedelta(seconds=30)

LISTED_THREADS = 2_000
"""Of those with pending decisions. The server lists the newest threads first, so with more, an older one is missed."""

_logger = logging.getLogger("wakeful")


@contextlib.asynccontextmanager
async def measuring_runs(
    client: Client, metrics: Metrics | None, task_queue: str, *, interval: timedelta = INTERVAL
) -> AsyncIterator[None]:
    """Set the gauges while the body runs, if there are metrics."""
    if metrics is None:
        yield
        return
    task = asyncio.create_task(_measure(RunGauges(client, metrics, task_queue), interval))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _measure(gauges: "RunGauges", interval: timedelta) -> None:
    has_failed = False
    while True:
        try:
            await gauges.measure()
            has_failed = False
        except RPCError as error:  # a namespace without search attributes, or a server that is away
            if not has_failed:
                _logger.warning("runs cannot be counted for metrics", extra={"reason": error.message})
            has_failed = True
        await asyncio.sleep(interval.total_seconds())


class RunGauges:
    """The runs of one task queue."""

    def __init__(self, client: Client, metrics: Metrics, task_queue: str) -> None:
        self._client = client
        self._metrics = metrics
        self._labels = {instruments.TASK_QUEUE: task_queue}
        self._runs = f"{OPEN_RUNS} AND TaskQueue = {quoted(task_queue)}"
        self._memos = PendingMemos(client)

    async def measure(self) -> None:
        """Set the gauges.

        Raises:
            RPCError: the server does not count the runs.
        """
        waiting = await self._count(RunStatus.WAITING)
        active = waiting + await self._count(RunStatus.CREATED, RunStatus.RUNNING)
        self._metrics.record(instruments.ACTIVE, active, self._labels)
        self._metrics.record(instruments.WAITING, waiting, self._labels)
        oldest = await self._oldest_decision() if waiting else None
        age = 0.0 if oldest is None else max(0.0, time.time() - oldest / 1000)
        self._metrics.record(instruments.OLDEST_DECISION, age, self._labels)

    async def _count(self, *statuses: RunStatus) -> int:
        named = ", ".join(quoted(status) for status in statuses)
        counted = await self._client.count_workflows(f"{self._runs} AND {names.ATTRIBUTE_STATUS} IN ({named})")
        return counted.count

    async def _oldest_decision(self) -> int | None:
        """Since when it waits, in milliseconds since 1970."""
        query = f"{self._runs} AND {names.ATTRIBUTE_PENDING} IS NOT NULL"
        since: list[int] = []
        async for execution in self._client.list_workflows(query, limit=LISTED_THREADS):
            pending = await self._memos.of(execution)
            since += [call.since for call in pending.calls if call.since] if pending else []
        return min(since, default=None)
