"""What workflow history records, as types: one for each kind of event that Wakeful reads.

`decoder` makes them. Payloads stay encoded, because decoding them may run a codec.
"""

from dataclasses import dataclass
from datetime import timedelta

from temporalio.api.common.v1 import Payload
from temporalio.api.common.v1 import Payloads as RawPayloads
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.failure.v1 import Failure


@dataclass(frozen=True)
class Moment:
    """Something that history records: the id of its event, and its time in milliseconds since 1970."""

    event_id: int
    at: int


@dataclass(frozen=True)
class Started(Moment):
    workflow_type: str
    thread_id: str
    """Empty in the history of a server that did not record it."""
    input: RawPayloads
    continued_run_id: str
    """The execution that continued as this one; empty if none did."""
    original_run_id: str = ""
    """The execution that a reset undid a part of, and whose first events this one has; its own id if there was none."""


@dataclass(frozen=True)
class TaskStarted(Moment):
    pass


@dataclass(frozen=True)
class TaskCompleted(Moment):
    started: int
    """The event with which the workflow task started."""


@dataclass(frozen=True)
class TaskFailed(Moment):
    cause: WorkflowTaskFailedCause.ValueType
    failure: Failure

    @property
    def is_reset(self) -> bool:
        """A reset ends the history that it retains with a failed workflow task."""
        return self.cause == WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW


@dataclass(frozen=True)
class SignalReceived(Moment):
    signal: str
    input: RawPayloads
    sender_thread_id: str
    """Empty if a client sent it."""
    identity: str


@dataclass(frozen=True)
class SignalSent(Moment):
    signal: str
    input: RawPayloads
    thread_id: str


@dataclass(frozen=True)
class CancelSent(Moment):
    """The workflow requested that another one be cancelled."""

    thread_id: str


@dataclass(frozen=True)
class TimerStarted(Moment):
    timer_id: str
    duration: timedelta


@dataclass(frozen=True)
class AttributesUpserted(Moment):
    names: tuple[str, ...]


@dataclass(frozen=True)
class MarkerRecorded(Moment):
    """A marker that is not a local activity's."""

    name: str


@dataclass(frozen=True)
class ActivityScheduled(Moment):
    activity_id: str
    activity_type: str
    input: RawPayloads
    task: int
    """The event with which the workflow task completed that scheduled it."""
    summary: Payload | None


@dataclass(frozen=True)
class ActivityCompleted(Moment):
    scheduled: int | None
    """The event that scheduled it; None for a local activity."""
    activity_id: str
    activity_type: str
    result: RawPayloads


@dataclass(frozen=True)
class ActivityFailed(Moment):
    """It failed, timed out or was cancelled."""

    scheduled: int
    how: EventType.ValueType
    """The type of the event."""
    failure: Failure | None


@dataclass(frozen=True)
class ChildInitiated(Moment):
    workflow_type: str
    thread_id: str
    input: RawPayloads
    task: int
    """The event with which the workflow task completed that started it."""


@dataclass(frozen=True)
class ChildStarted(Moment):
    thread_id: str


@dataclass(frozen=True)
class ChildClosed(Moment):
    thread_id: str
    how: EventType.ValueType
    """The type of the event."""


@dataclass(frozen=True)
class CancelRequested(Moment):
    """Temporal's own cancellation was requested, by a client with this identity."""

    identity: str
    cause: str


@dataclass(frozen=True)
class Closed(Moment):
    """The last event of an execution."""

    how: EventType.ValueType
    """The type of the event."""
    continued_as: str = ""
    identity: str = ""
    reason: str = ""
    failure: Failure | None = None


CLOSED_FROM_OUTSIDE = frozenset(
    {EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT}
)
"""How an execution closes without a workflow task of its own."""

HistoryMoment = (
    Started
    | TaskStarted
    | TaskCompleted
    | TaskFailed
    | SignalReceived
    | SignalSent
    | CancelSent
    | TimerStarted
    | AttributesUpserted
    | MarkerRecorded
    | ActivityScheduled
    | ActivityCompleted
    | ActivityFailed
    | ChildInitiated
    | ChildStarted
    | ChildClosed
    | CancelRequested
    | Closed
)
