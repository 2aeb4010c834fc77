"""Read the statuses of many threads at once, with a bound on how long the silent ones may take.

It knows nothing of what the answers are for: the inbox, the tree and the sweep do.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from temporalio.client import Client, WorkflowExecution

from wakeful.client.queries import QUERY_TIMEOUT, query
from wakeful.client.thread_reader import ThreadReader
from wakeful.contract import names
from wakeful.contract.errors import CannotDecode, DoesNotReplay, NoAnswer, NotStarted, ThreadNotFound, WakefulError
from wakeful.contract.views import StatusView

MAX_CONCURRENT_READS = 16


@dataclass(frozen=True)
class Unanswered:
    """The status of a thread is not known, and why."""

    reason: str
    undecodable: bool = False
    """This program does not have the thread's payload codec."""


class Statuses:
    """One round of statuses. Once a query on a task queue has timed out, no more workers of that queue are asked.

    Args:
        reader: reads histories, and workers are asked only for those that do not replay; without it, they are asked
            for all.
    """

    def __init__(self, temporal: Client, *, reader: ThreadReader | None = None) -> None:
        self._temporal = temporal
        self._reader = reader
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_READS)
        self._answering: set[str] = set()
        self._silent: set[str] = set()
        """Task queues on which a query was answered, and on which one timed out."""

    async def of(self, executions: Iterable[WorkflowExecution]) -> list[StatusView | Unanswered | None]:
        """The status of each execution, in their order; None for one that the server has deleted."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._status(execution)) for execution in executions]
        return [task.result() for task in tasks]

    async def _status(self, execution: WorkflowExecution) -> StatusView | Unanswered | None:
        async with self._slots:
            try:
                return await self._read(execution)
            except ThreadNotFound:
                return None
            except WakefulError as error:
                return Unanswered(str(error), undecodable=isinstance(error, CannotDecode))
            except Exception as error:  # whatever is wrong with one thread, such as its codec, the others are listed
                return Unanswered(f"it cannot be read: {type(error).__name__}: {error}")

    async def _read(self, execution: WorkflowExecution) -> StatusView | Unanswered:
        if self._reader is None:
            return await self._ask(execution)
        try:
            return await self._reader.history.query(execution.id, names.QUERY_STATUS, StatusView)
        except DoesNotReplay as error:
            return await self._ask_instead(execution, error)

    async def _ask_instead(self, execution: WorkflowExecution, error: DoesNotReplay) -> StatusView | Unanswered:
        try:
            return await self._ask(execution)
        except WakefulError as silence:
            return Unanswered(f"{silence}, and its history does not replay here, at event {error.event_id}")

    async def _ask(self, execution: WorkflowExecution) -> StatusView:
        queue = execution.task_queue
        silence = NoAnswer(f"no worker answers on task queue {queue!r}")
        if queue in self._silent - self._answering:
            raise silence
        try:
            view = await query(self._temporal, execution.id, names.QUERY_STATUS, StatusView, within=QUERY_TIMEOUT)
        except NotStarted:
            raise
        except NoAnswer as error:
            self._silent.add(queue)
            raise silence from error
        self._answering.add(queue)
        return view
