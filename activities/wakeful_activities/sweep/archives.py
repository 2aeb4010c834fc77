"""The part of the sweep for archives whose thread is gone: it was terminated or deleted, and could not release them.

A thread that closes by itself releases its archives. At most once an hour, a worker lists the archives that are open,
and releases those whose thread can no longer be woken.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from temporalio.client import Client, WorkflowExecution

from wakeful.contract import ids, names
from wakeful.contract.archive import ThreadClosed
from wakeful.history.list_queries import quoted
from wakeful_activities.archive import archived_thread, ignoring_closed

INTERVAL = timedelta(hours=1)
FIRST_INTERVAL = timedelta(minutes=5)
"""Workers may be replaced often."""


class ArchiveSweep:
    """Finds archives without a thread."""

    def __init__(self, client: Client, task_queue: str, *, now: Callable[[], datetime]) -> None:
        self._client = client
        self._now = now
        self._query = (
            f"WorkflowType = '{names.WORKFLOW_ARCHIVE}' AND TaskQueue = {quoted(task_queue)}"
            " AND ExecutionStatus = 'Running'"
        )
        self._next = now() + FIRST_INTERVAL

    async def sweep(self) -> None:
        """Do one round, if it is due.

        Raises:
            RPCError: the server refused a request, or is unreachable.
        """
        if self._now() < self._next:
            return
        self._next = self._now() + INTERVAL
        is_needed = dict[str, bool]()
        async for archive in self._client.list_workflows(self._query):
            thread_id = ids.archived_thread_id(archive.id)
            if not thread_id:
                continue  # visibility stores cut long ids
            if thread_id not in is_needed:
                thread = await archived_thread(self._client, thread_id, now=self._now())
                is_needed[thread_id] = thread.is_open or thread.keep_seconds > 0
            if not is_needed[thread_id]:
                await self._release(archive)

    async def _release(self, archive: WorkflowExecution) -> None:
        handle = self._client.get_workflow_handle(archive.id, run_id=archive.run_id)
        with ignoring_closed():
            await handle.signal(names.SIGNAL_THREAD_CLOSED, ThreadClosed(keep_seconds=0))
