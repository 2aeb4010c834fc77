"""Where a history is cut: after the commands of its last completed workflow task."""

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from wakeful.history.completed_part import CompletedPart, completed_part

FIRST_TASK = ["WORKFLOW_EXECUTION_STARTED", "WORKFLOW_TASK_SCHEDULED", "WORKFLOW_TASK_STARTED"]
TASK = ["WORKFLOW_TASK_SCHEDULED", "WORKFLOW_TASK_STARTED"]
DONE = "WORKFLOW_TASK_COMPLETED"


def history(*types: str) -> list[HistoryEvent]:
    """Events of these types; a command names the workflow task before it."""
    events: list[HistoryEvent] = []
    completed = 0
    for number, type in enumerate(types, start=1):
        event = HistoryEvent(event_id=number, event_type=EventType.Value(f"EVENT_TYPE_{type}"))
        attributes = getattr(event, f"{type.lower()}_event_attributes")
        attributes.SetInParent()
        if hasattr(attributes, "workflow_task_completed_event_id"):
            attributes.workflow_task_completed_event_id = completed
        completed = number if type == DONE else completed
        events.append(event)
    return events


def handled(*types: str) -> int:
    """How many of these events the workflow has handled or recorded."""
    part = completed_part(history(*types))
    assert part is not None
    return len(part.events)


@pytest.mark.parametrize("types", [[], FIRST_TASK[:1], FIRST_TASK, [*FIRST_TASK, "WORKFLOW_TASK_TIMED_OUT", *TASK]])
def test_nothing_is_handled_before_a_task_is_completed(types: list[str]) -> None:
    assert completed_part(history(*types)) is None


def test_the_commands_of_the_last_task_are_kept() -> None:
    events = history(*FIRST_TASK, DONE, "ACTIVITY_TASK_SCHEDULED", "TIMER_STARTED")
    assert completed_part(events) == CompletedPart(events, 4)


@pytest.mark.parametrize(
    "later",
    [
        ["ACTIVITY_TASK_STARTED", "ACTIVITY_TASK_COMPLETED"],
        ["WORKFLOW_EXECUTION_SIGNALED", *TASK],
        ["WORKFLOW_EXECUTION_SIGNALED", *TASK, "WORKFLOW_TASK_FAILED", *TASK],
        ["WORKFLOW_EXECUTION_SIGNALED", *TASK, "WORKFLOW_TASK_TIMED_OUT"],
        ["TIMER_FIRED", "WORKFLOW_TASK_SCHEDULED", "WORKFLOW_EXECUTION_TERMINATED"],
        ["WORKFLOW_EXECUTION_TIMED_OUT"],
    ],
)
def test_what_no_completed_task_has_handled_is_cut_off(later: list[str]) -> None:
    assert handled(*FIRST_TASK, DONE, "ACTIVITY_TASK_SCHEDULED", *later) == 5


@pytest.mark.parametrize("end", ["WORKFLOW_EXECUTION_COMPLETED", "WORKFLOW_EXECUTION_CONTINUED_AS_NEW"])
def test_the_end_that_the_workflow_itself_has_decided_is_kept(end: str) -> None:
    assert handled(*FIRST_TASK, DONE, "MARKER_RECORDED", end) == 6


def test_what_a_command_causes_at_once_belongs_to_the_next_task() -> None:
    """The server itself cancels an activity that has not started."""
    commands = ["ACTIVITY_TASK_CANCEL_REQUESTED", "ACTIVITY_TASK_CANCEL_REQUESTED"]
    assert handled(*FIRST_TASK, DONE, *commands, "ACTIVITY_TASK_CANCELED", "ACTIVITY_TASK_CANCELED") == 6


def test_accepted_and_completed_updates_belong_to_the_last_task() -> None:
    updates = ["WORKFLOW_EXECUTION_UPDATE_ACCEPTED", "WORKFLOW_EXECUTION_UPDATE_COMPLETED"]
    assert handled(*FIRST_TASK, DONE, *updates, "WORKFLOW_EXECUTION_SIGNALED") == 6


def test_events_that_the_sdk_does_not_know_are_no_commands() -> None:
    events = [*history(*FIRST_TASK, DONE), HistoryEvent(event_id=5, event_type=EventType.ValueType(999))]
    assert completed_part(events) == CompletedPart(events[:4], 4)
