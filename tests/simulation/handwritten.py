"""Histories that are written by hand for a small workflow, to show one rule of core each."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.workflow import ActivityHandle

from tests.simulation.execution import CORE_FLAGS

RUN_ID = "5b0c9f0e-2d0a-4b6e-9d57-0a8a3e4f7c11"
NEW_RUN_ID = "0e5a1c3f-8a46-4a1c-bf0c-6c7d2c9b5a22"
WORKFLOW_ID = "small"


@workflow.defn(sandboxed=False)
class Small:
    """Waits; one signal makes it schedule an activity, the other and the update make it do nothing."""

    def __init__(self) -> None:
        self._wanted: list[str] = []

    @workflow.run
    async def run(self) -> None:
        started: list[ActivityHandle[Any]] = []
        while True:
            await workflow.wait_condition(lambda: bool(self._wanted))
            id, patience = self._wanted.pop(), timedelta(seconds=9)
            started.append(workflow.start_activity("act", activity_id=id, start_to_close_timeout=patience))

    @workflow.signal
    async def schedule(self) -> None:
        self._wanted.append("act-1")

    @workflow.signal
    async def note(self) -> None:
        """Nothing."""

    @workflow.update
    async def ask(self) -> None:
        """Nothing."""


class Written:
    """A history that grows: each method appends events."""

    def __init__(self) -> None:
        self.events: list[HistoryEvent] = []
        self._scheduled = self._accepted = self._activity = 0
        started = self._add("WORKFLOW_EXECUTION_STARTED")
        started.workflow_type.name, started.workflow_id, started.attempt = "Small", WORKFLOW_ID, 1
        started.original_execution_run_id = started.first_execution_run_id = RUN_ID
        started.workflow_task_timeout.seconds = 10
        started.task_queue.name = "small"

    def _add(self, name: str) -> Any:
        event = HistoryEvent(event_id=len(self.events) + 1, event_type=EventType.Value(f"EVENT_TYPE_{name}"))
        event.event_time.FromSeconds(1000 + len(self.events))
        self.events.append(event)
        attributes = getattr(event, f"{name.lower()}_event_attributes")
        attributes.SetInParent()
        return attributes

    def scheduled(self) -> "Written":
        self._add("WORKFLOW_TASK_SCHEDULED")
        self._scheduled = len(self.events)
        return self

    def started(self) -> "Written":
        self._add("WORKFLOW_TASK_STARTED").scheduled_event_id = self._scheduled
        return self

    def completed(self) -> "Written":
        is_first = not any(event.HasField("workflow_task_completed_event_attributes") for event in self.events)
        completed = self._ended("WORKFLOW_TASK_COMPLETED")
        completed.sdk_metadata.core_used_flags.extend(CORE_FLAGS if is_first else ())
        return self

    def timed_out(self) -> "Written":
        self._ended("WORKFLOW_TASK_TIMED_OUT")
        return self

    def reset(self) -> "Written":
        failed = self._ended("WORKFLOW_TASK_FAILED")
        failed.cause = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW
        failed.base_run_id, failed.new_run_id = RUN_ID, NEW_RUN_ID
        return self

    def _ended(self, name: str) -> Any:
        ended = self._add(name)
        ended.scheduled_event_id, ended.started_event_id = self._scheduled, len(self.events) - 1
        return ended

    def task(self) -> "Written":
        """A workflow task from its beginning to its end."""
        return self.scheduled().started().completed()

    def signal(self, name: str) -> "Written":
        self._add("WORKFLOW_EXECUTION_SIGNALED").signal_name = name
        return self

    def activity(self) -> "Written":
        scheduled = self._add("ACTIVITY_TASK_SCHEDULED")
        scheduled.activity_id, scheduled.activity_type.name = "act-1", "act"
        self._activity = len(self.events)
        return self

    def activity_completed(self) -> "Written":
        self._add("ACTIVITY_TASK_STARTED").scheduled_event_id = self._activity
        completed = self._add("ACTIVITY_TASK_COMPLETED")
        completed.scheduled_event_id, completed.started_event_id = self._activity, len(self.events) - 1
        return self

    def update(self, sequencing_id: int) -> "Written":
        """An update that was accepted and completed at once."""
        accepted = self._add("WORKFLOW_EXECUTION_UPDATE_ACCEPTED")
        accepted.protocol_instance_id = accepted.accepted_request.meta.update_id = "one"
        accepted.accepted_request.input.name = "ask"
        accepted.accepted_request_message_id = "one/request"
        accepted.accepted_request_sequencing_event_id = sequencing_id
        accepted_id = len(self.events)
        completed = self._add("WORKFLOW_EXECUTION_UPDATE_COMPLETED")
        completed.meta.update_id, completed.accepted_event_id = "one", accepted_id
        completed.outcome.success.SetInParent()
        return self


def without(history: Sequence[HistoryEvent], index: int) -> list[HistoryEvent]:
    """The history without one event; the ids of later events, and references to them, move up."""
    gone = history[index].event_id
    kept = []
    for event in (*history[:index], *history[index + 1 :]):
        copy = HistoryEvent()
        copy.CopyFrom(event)
        _shift(copy, gone)
        kept.append(copy)
    return kept


def _shift(event: HistoryEvent, gone: int) -> None:
    if event.event_id > gone:
        event.event_id -= 1
    attributes = getattr(event, str(event.WhichOneof("attributes")))
    for field, value in attributes.ListFields():
        if field.name.endswith("event_id") and isinstance(value, int) and value > gone:
            setattr(attributes, field.name, value - 1)
