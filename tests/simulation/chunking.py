"""How the SDK's core cuts a history into the chunks that workflow tasks have taken up.

A chunk is what one activation is made of. Core looks ahead to find its end, so it cuts one and the same history
differently before and after the next task is completed: this is where commands that depend on the cut break.
"""

from collections.abc import Sequence

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

TASK_SCHEDULED = EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED
TASK_STARTED = EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED
TASK_COMPLETED = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
TASK_FAILED = EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
TASK_TIMED_OUT = EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT
UPDATE_ACCEPTED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED
EXECUTION_STARTED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED

COMMAND_EVENTS = frozenset(
    {
        EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED,
        EventType.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED,
        EventType.EVENT_TYPE_MARKER_RECORDED,
        EventType.EVENT_TYPE_REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED,
        EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED,
        EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED,
        EventType.EVENT_TYPE_TIMER_CANCELED,
        EventType.EVENT_TYPE_TIMER_STARTED,
        EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES,
        EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_REJECTED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED,
    }
)
"""The events that a workflow's commands become."""

FINAL_EVENTS = frozenset(
    {
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
    }
)

_TASK_NOT_COMPLETED = frozenset(
    {
        TASK_FAILED,
        TASK_TIMED_OUT,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
    }
)


def chunk_end(history: Sequence[HistoryEvent], start: int, after_id: int) -> int:
    """The index of the last event of the chunk that begins at index `start`; events up to `after_id` are skipped."""
    saw_command = saw_start = False
    open_tasks: list[tuple[int, int]] = []
    last = start
    for index in range(start, len(history)):
        event = history[index]
        last = index
        if event.event_id <= after_id:
            continue
        saw_command |= event.event_type in COMMAND_EVENTS
        saw_start |= event.event_type == EXECUTION_STARTED
        if event.event_type in FINAL_EVENTS:
            return index
        if event.event_type != TASK_STARTED:
            continue
        following = history[index + 1 : index + 3]
        if following and following[0].event_type in _TASK_NOT_COMPLETED:
            continue
        open_tasks.append((event.event_id, index))
        if len(following) == 2 and following[0].event_type == TASK_COMPLETED:
            if following[1].event_type == TASK_SCHEDULED and not saw_command:
                continue  # core takes an empty task that another one follows at once for a heartbeat
            return _before_update(following[1], open_tasks) if following[1].event_type == UPDATE_ACCEPTED else index
        if saw_command or saw_start:
            return index
    return last


def _before_update(accepted: HistoryEvent, open_tasks: Sequence[tuple[int, int]]) -> int:
    """The chunk ends at the newest task before the one that brought the update, else at its own."""
    sequencing = accepted.workflow_execution_update_accepted_event_attributes.accepted_request_sequencing_event_id
    return next((index for id, index in reversed(open_tasks) if id < sequencing), open_tasks[-1][1])
