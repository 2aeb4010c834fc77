"""The part of a history that the workflow has handled: everything up to the commands of its last completed task."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from wakeful.history.decoder import attributes_of

_COMMANDS_WITHOUT_TASK = frozenset(
    {
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED,
    }
)
"""Events of a workflow task that do not name it."""


@dataclass(frozen=True)
class CompletedPart:
    """The first events of a history, and which of them completed the last workflow task."""

    events: Sequence[HistoryEvent]
    completed: int


def last_completed_task(events: Sequence[HistoryEvent]) -> int | None:
    """The id of the event that completed the last workflow task; None if none has been completed."""
    is_completed = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    return next((event.event_id for event in reversed(events) if event.event_type == is_completed), None)


def completed_part(events: Sequence[HistoryEvent]) -> CompletedPart | None:
    """What the last completed workflow task has handled; None if no task has been completed.

    What follows may have arrived, but no workflow code has handled it: it is cut off, even if a worker is handling it.
    """
    completed = last_completed_task(events)
    if completed is None:
        return None
    commands = takewhile(lambda event: _is_command_of(event, completed), events[completed:])
    return CompletedPart([*events[:completed], *commands], completed)


def _is_command_of(event: HistoryEvent, completed: int) -> bool:
    task = getattr(attributes_of(event), "workflow_task_completed_event_id", None)
    return task == completed or event.event_type in _COMMANDS_WITHOUT_TASK
