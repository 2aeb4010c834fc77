"""A workflow task that is pending: what it will handle is in history, and no reader of completed tasks shows it yet."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import time

from temporalio.api.enums.v1 import PendingWorkflowTaskState
from temporalio.client import WorkflowExecutionDescription as Description

NEW_SECONDS = 10.0
"""How old a task may be that is waited for. The clocks of two machines may differ by some of it."""

FIRST_PAUSE_SECONDS = 0.01
MAX_PAUSE_SECONDS = 0.1


@dataclass(frozen=True)
class PendingTask:
    """The pending workflow task of an execution."""

    since: int
    """When it was scheduled, in milliseconds since 1970."""
    is_started: bool
    """A worker has taken it."""

    @property
    def is_new(self) -> bool:
        return time() * 1000 - self.since < NEW_SECONDS * 1000


def pending_task(described: Description) -> PendingTask | None:
    """The execution's pending workflow task, if there is one."""
    if not described.raw_description.HasField("pending_workflow_task"):
        return None
    task = described.raw_description.pending_workflow_task
    is_started = task.state == PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_STARTED
    # A workflow task that is attempted again, or whose worker heartbeats, keeps the time of its first attempt.
    since = task.original_scheduled_time if task.HasField("original_scheduled_time") else task.scheduled_time
    return PendingTask(since.ToMilliseconds(), is_started)


async def wait_for_new_task(
    described: Description, describe: Callable[[], Awaitable[Description]], *, seconds: float
) -> Description:
    """The execution, once a workflow task that was just scheduled has been completed; no longer than this.

    Whatever had arrived before the first description has been handled then. Events that arrive while a worker has a
    task are not part of that task, but of the next.
    """
    first = task = pending_task(described)
    completed, pause = 0, FIRST_PAUSE_SECONDS
    wanted = 2 if first is not None and first.is_started else 1
    deadline = asyncio.get_running_loop().time() + seconds
    while task is not None and task.is_new and completed < wanted:
        if asyncio.get_running_loop().time() + pause > deadline:
            break
        await asyncio.sleep(pause)
        pause = min(2 * pause, MAX_PAUSE_SECONDS)
        described = await describe()
        before, task = task, pending_task(described)
        completed += task is not None and task.since != before.since
    return described
