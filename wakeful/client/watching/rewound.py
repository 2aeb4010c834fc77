"""Find out what a rewind has left of a thread's events: Temporal's reset opens a new execution with a part of the old.

It only reads. `branching` is who rewinds, and anybody may reset a thread in Temporal's own tools.
"""

from dataclasses import dataclass

from temporalio.api.enums.v1 import WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.watching.reading import read_events


@dataclass(frozen=True)
class Reset:
    """A moment at which a thread was reset, and the execution of it that begins with what is left."""

    run_id: str
    at: int


async def first_reset(temporal: Client, thread_id: str, *, since: int) -> Reset | None:
    """The first reset from this time on, as the executions tell that the thread consists of now.

    Raises:
        RPCError: Temporal did not answer.
    """
    found: Reset | None = None
    run_id: str | None = (await temporal.get_workflow_handle(thread_id).describe()).run_id
    while run_id:
        try:
            history = await temporal.get_workflow_handle(thread_id, run_id=run_id).fetch_history()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                break  # so old that the server has deleted it
            raise
        resets = [reset for event in history.events if _is_reset(event) and (reset := _at(event)) >= since]
        if resets:
            found = Reset(run_id, resets[0])
        first = history.events[0]
        before = first.workflow_execution_started_event_attributes.continued_execution_run_id
        run_id = before if _at(first) >= since else None
    return found


def _is_reset(event: HistoryEvent) -> bool:
    cause = event.workflow_task_failed_event_attributes.cause
    return cause == WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW


def _at(event: HistoryEvent) -> int:
    return event.event_time.ToMilliseconds()


async def last_standing(temporal: Client, thread_id: str, reset: Reset) -> int:
    """The number of the last event that a reset has left: those that came since are later than it.

    An event has the time at which its workflow task was started, and those of the past keep theirs.

    Raises:
        WakefulError: the thread did not answer.
    """
    page = await read_events(temporal, thread_id, after=0, run_id=reset.run_id)
    standing = page.earlier.through if page.earlier else 0
    while True:
        page = await read_events(temporal, thread_id, after=standing, run_id=reset.run_id)
        kept = [record.seq for record in page.events if record.at < reset.at]
        standing = max(kept, default=standing)
        if len(kept) < len(page.events) or not page.more:
            return standing
