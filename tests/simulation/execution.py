"""One workflow execution on the simulated server: its history, its workflow task, and what it waits for."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from temporalio.api.common.v1 import Memo, Payload, SearchAttributes
from temporalio.api.enums.v1 import EventType, WorkflowExecutionStatus
from temporalio.api.history.v1 import HistoryEvent

from tests.simulation.chunking import TASK_COMPLETED, TASK_FAILED, TASK_SCHEDULED, TASK_STARTED, TASK_TIMED_OUT
from tests.simulation.core import last_completed_task

Fill = Callable[[Any], None]
"""Writes the attributes of an event."""

RUNNING = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_RUNNING

CORE_FLAGS = (1, 2, 3, 4)
"""What core writes into the first completed task; without the first flag, it compares neither ids nor types."""

SUGGESTED_EVENTS = 4096
SUGGESTED_BYTES = 4_000_000
"""From when on the server suggests to continue as new."""

_ENDS = frozenset(
    {
        EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED,
        EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED,
        EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT,
        EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED,
        EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED,
        EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED,
        EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED,
        EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TIMED_OUT,
        EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED,
    }
)
"""The server writes these last when it flushes buffered events."""


class TaskKind(Enum):
    NORMAL = "normal"
    TRANSIENT = "transient"
    """Another attempt: its events are written only if it completes."""
    SPECULATIVE = "speculative"
    """Only an update asked for it: it leaves no trace if the update is rejected."""


@dataclass
class WorkflowTask:
    kind: TaskKind
    scheduled_id: int
    worker: str | None = None
    """Who has started it."""
    started_id: int = 0
    unwritten: list[HistoryEvent] = field(default_factory=list)
    """The events of a transient task, which only its worker is shown."""

    @property
    def is_started(self) -> bool:
        return self.worker is not None


@dataclass
class ActivityTask:
    """An activity that has been scheduled and has not ended."""

    scheduled_id: int
    command: Any
    attempt: int = 1
    worker: str | None = None
    is_cancelled: bool = False
    heartbeat: list[Payload] = field(default_factory=list)
    failure: Any = None
    """The last attempt's."""
    not_before: int = 0
    """When the next attempt is due."""


@dataclass(frozen=True)
class ParentRef:
    workflow_id: str
    run_id: str
    initiated_id: int


@dataclass
class Execution:
    """What the server stores about one execution."""

    workflow_id: str
    run_id: str
    workflow_type: str
    clock: Callable[[], int]
    parent: ParentRef | None = None
    history: list[HistoryEvent] = field(default_factory=list)
    size: int = 0
    buffered: list[tuple["EventType.ValueType", Fill]] = field(default_factory=list)
    task: WorkflowTask | None = None
    attempts: int = 1
    """Of the workflow task."""
    sticky: str | None = None
    """The worker that has the run in its cache, as far as the server knows."""
    timers: dict[int, int] = field(default_factory=dict)
    """When each is due, by the id of its TimerStarted."""
    activities: dict[int, ActivityTask] = field(default_factory=dict)
    children: dict[int, str] = field(default_factory=dict)
    """The workflow ids of the children that have not closed, by the event that initiated each."""
    updates: list[Any] = field(default_factory=list)
    rejected_updates: list[str] = field(default_factory=list)
    attributes: SearchAttributes = field(default_factory=SearchAttributes)
    memo: Memo = field(default_factory=Memo)
    status: WorkflowExecutionStatus.ValueType = RUNNING
    started_at: int = 0
    closed_at: int = 0
    failures: int = 0
    """Workflow tasks that failed in a row."""
    resets: int = 0
    """How often the thread was reset before."""

    @property
    def is_open(self) -> bool:
        return self.status == RUNNING

    @property
    def previous_started(self) -> int:
        return last_completed_task(self.history)

    @property
    def has_lost_task(self) -> bool:
        """Whether a workflow task has failed or timed out since the last one that was completed."""
        return any(event.event_type in (TASK_FAILED, TASK_TIMED_OUT) for event in self.history[self.previous_started :])

    def write(self, kind: "EventType.ValueType", fill: Fill | None = None) -> HistoryEvent:
        """Append an event."""
        event = self._event(kind, len(self.history) + 1, fill)
        self.copy(event)
        return event

    def happen(self, kind: "EventType.ValueType", fill: Fill) -> bool:
        """Something from outside; it is buffered while a workflow task is under way. False if it is closed."""
        if not self.is_open:
            return False
        if self.task is not None and self.task.is_started:
            self.buffered.append((kind, fill))
            return True
        if self.task is not None and self.task.kind is TaskKind.SPECULATIVE:
            self.task.kind = TaskKind.NORMAL  # it is written before what happens now
            self._write_scheduled(self.task)
        self.write(kind, fill)
        self.schedule_task()
        return True

    def schedule_task(self, kind: TaskKind = TaskKind.NORMAL) -> None:
        if self.task is not None or not self.is_open:
            return
        if kind is TaskKind.NORMAL and self.attempts > 1:
            kind = TaskKind.TRANSIENT
        self.task = WorkflowTask(kind, scheduled_id=len(self.history) + 1)
        if kind is TaskKind.NORMAL:
            self._write_scheduled(self.task)

    def start_task(self, worker: str) -> list[HistoryEvent]:
        """Hand the task to a worker: the history that it is shown."""
        task = self.task
        assert task is not None
        if task.kind is not TaskKind.NORMAL and task.scheduled_id != len(self.history) + 1:
            task.kind, self.attempts = TaskKind.NORMAL, 1  # new events came since it was scheduled
            self._write_scheduled(task)
        task.worker = worker
        if task.kind is TaskKind.NORMAL:
            event = self._event(TASK_STARTED, len(self.history) + 1, self._started_fill(task))
            self.copy(event)
            task.started_id = event.event_id
            return self.history
        scheduled = self._event(TASK_SCHEDULED, len(self.history) + 1, None)
        task.scheduled_id = scheduled.event_id
        started = self._event(TASK_STARTED, scheduled.event_id + 1, self._started_fill(task))
        task.started_id = started.event_id
        task.unwritten = [scheduled, started]
        return [*self.history, *task.unwritten]

    def complete_task(self, flags: Iterable[int] = ()) -> None:
        task = self.task
        assert task is not None
        for event in task.unwritten:
            self.copy(event)
        self.task, self.attempts, self.failures = None, 1, 0
        self.sticky = task.worker

        def fill(completed: Any) -> None:
            completed.scheduled_event_id, completed.started_event_id = task.scheduled_id, task.started_id
            completed.sdk_metadata.lang_used_flags.extend(sorted(flags))
            completed.sdk_metadata.core_used_flags.extend([] if self.previous_started else CORE_FLAGS)

        self.write(TASK_COMPLETED, fill)

    def lose_task(self, *, timed_out: bool, cause: int = 0, new_run_id: str = "") -> None:
        """The task fails or times out, and is scheduled again."""
        task = self.task
        assert task is not None
        self.task, self.sticky = None, None
        if task.kind is TaskKind.NORMAL:

            def fill(lost: Any) -> None:
                lost.scheduled_event_id, lost.started_event_id = task.scheduled_id, task.started_id
                if not timed_out:
                    lost.cause, lost.new_run_id = cause, new_run_id

            self.write(TASK_TIMED_OUT if timed_out else TASK_FAILED, fill)
        self.attempts += 1
        if self.flush():
            self.attempts = 1
        self.schedule_task()

    def drop_speculative_task(self) -> None:
        assert self.task is not None
        self.sticky, self.task = self.task.worker, None

    def flush(self) -> bool:
        """Write what happened during the task; whether there was anything."""
        buffered, self.buffered = self.buffered, []
        for kind, fill in sorted(buffered, key=lambda entry: entry[0] in _ENDS):
            self.write(kind, fill)
        return bool(buffered)

    def close(self, status: WorkflowExecutionStatus.ValueType) -> None:
        self.status, self.closed_at = status, self.clock()
        self.task = None
        self.activities.clear()
        self.timers.clear()
        self.buffered.clear()

    def _write_scheduled(self, task: WorkflowTask) -> None:
        task.scheduled_id = self.write(TASK_SCHEDULED).event_id

    def _started_fill(self, task: WorkflowTask) -> Fill:
        def fill(started: Any) -> None:
            started.scheduled_event_id = task.scheduled_id
            started.history_size_bytes = self.size
            started.suggest_continue_as_new = len(self.history) >= SUGGESTED_EVENTS or self.size >= SUGGESTED_BYTES

        return fill

    def _event(self, kind: "EventType.ValueType", id: int, fill: Fill | None) -> HistoryEvent:
        event = HistoryEvent(event_id=id, event_type=kind)
        event.event_time.FromMilliseconds(self.clock())
        attributes = getattr(event, EventType.Name(kind).removeprefix("EVENT_TYPE_").lower() + "_event_attributes")
        attributes.SetInParent()
        if fill is not None:
            fill(attributes)
        return event

    def copy(self, event: HistoryEvent) -> None:
        """Append an event as it is."""
        self.history.append(event)
        self.size += event.ByteSize()
