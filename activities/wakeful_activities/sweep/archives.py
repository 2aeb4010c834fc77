"""The part of the sweep for archives whose thread is gone: it was terminated or deleted, and could not release them.

A thread that closes by itself releases its archives. At most once an hour, a worker lists the archives that are open,
and releases those whose thread can no longer be woken.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from wakeful.contract import ids, names
from wakeful.contract.archive import ThreadClosed
from wakeful.history.list_queries import quoted
from wakeful_activities.archive import WAKE_TIME, retention

INTERVAL = timedelta(hours=1)


class ArchiveSweep:
    """Finds archives without a thread."""

    def __init__(self, client: Client, task_queue: str, *, now: Callable[[], datetime]) -> None:
        self._client = client
        self._now = now
        self._query = (
            f"WorkflowType = '{names.WORKFLOW_ARCHIVE}' AND TaskQueue = {quoted(task_queue)}"
            " AND ExecutionStatus = 'Running'"
        )
        self._next = now() + INTERVAL

    async def sweep(self) -> None:
        """Do one round, if it is due.

        Raises:
            RPCError: the server refused a request, or is unreachable.
        """
        if self._now() < self._next:
            return
        self._next = self._now() + INTERVAL
        keep = await retention(self._client) + WAKE_TIME
        can_be_woken = dict[str, bool]()
        async for archive in self._client.list_workflows(self._query):
            thread_id = ids.archived_thread_id(archive.id)
            if thread_id not in can_be_woken:
                can_be_woken[thread_id] = self._can_be_woken(await self._describe(thread_id), keep)
            if not can_be_woken[thread_id]:
                await self._release(archive)

    def _can_be_woken(self, thread: WorkflowExecution | None, keep: timedelta) -> bool:
        if thread is None:
            return False
        if thread.status is WorkflowExecutionStatus.RUNNING or thread.close_time is None:
            return True
        return self._now() < thread.close_time + keep

    async def _release(self, archive: WorkflowExecution) -> None:
        try:
            handle = self._client.get_workflow_handle(archive.id, run_id=archive.run_id)
            await handle.signal(names.SIGNAL_THREAD_CLOSED, ThreadClosed(keep_seconds=0))
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:  # else it has just completed
                raise

    async def _describe(self, thread_id: str) -> WorkflowExecution | None:
        try:
            return await self._client.get_workflow_handle(thread_id).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return None
