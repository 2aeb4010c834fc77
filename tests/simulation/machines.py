"""The commands of a workflow, each with the event that it becomes, and the jobs that their ends become."""

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType, RetryState
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.bridge.proto.workflow_activation import WorkflowActivationJob

from tests.simulation.instances import NAMESPACE
from tests.simulation.releases import is_same_input

LOCAL_MARKER = "core_local_activity"

ABANDON = 2
WAIT_CANCELLATION_COMPLETED = 1


class Nondeterminism(Exception):
    """A replay issued other commands than history has: on a real worker, the run would be stuck."""


class StrictDifference(Nondeterminism):
    """The commands are the same for core, which does not compare their inputs; but an input differs."""


class Kind(Enum):
    """A command, with the type of the event that it becomes."""

    ACTIVITY = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    CANCEL_ACTIVITY = EventType.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED
    TIMER = EventType.EVENT_TYPE_TIMER_STARTED
    CANCEL_TIMER = EventType.EVENT_TYPE_TIMER_CANCELED
    CHILD = EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED
    SIGNAL = EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED
    LOCAL_ACTIVITY = EventType.EVENT_TYPE_MARKER_RECORDED
    SEARCH_ATTRIBUTES = EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES
    MEMO = EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED
    ACCEPT_UPDATE = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED
    COMPLETE_UPDATE = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED
    COMPLETE = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED
    FAIL = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED
    CANCEL = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED
    CONTINUE_AS_NEW = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW


TERMINAL = frozenset({Kind.COMPLETE, Kind.FAIL, Kind.CANCEL, Kind.CONTINUE_AS_NEW})
CANCELS = frozenset({Kind.CANCEL_ACTIVITY, Kind.CANCEL_TIMER})
"""Commands about the machine of another command."""


@dataclass
class Update:
    """An update on its way through a workflow task."""

    protocol_id: str
    request: Any
    sequencing_id: int
    is_accepted: bool = False
    is_rejected: bool = False


@dataclass(frozen=True)
class LocalResult:
    """How a local activity ended, and, from its marker, in which activation of the task."""

    result: Payload | None
    failure: Failure | None
    completed_at: Timestamp
    activation: int | None = None


@dataclass
class Machine:
    """What core knows of one command."""

    kind: Kind
    command: Any
    seq: int = 0
    event_id: int = 0
    """Of the event that recorded it; 0 before."""
    started_id: int = 0
    """Of a child: the event that its start became."""
    is_done: bool = False
    is_dropped: bool = False
    """It was cancelled in the task that issued it, so it is never sent."""
    awaits_marker: bool = False
    """A local activity in a replay: its result has not been seen yet."""
    has_result: bool = False
    """A local activity in a replay: its result was read ahead, and only its marker is still expected."""
    local: LocalResult | None = None
    update: Update | None = None

    @property
    def label(self) -> str:
        name = getattr(self.command, "activity_id", "") or getattr(self.command, "workflow_id", "")
        return f"{self.kind.name.lower()} {name or self.seq}"


@dataclass
class Queue:
    """The commands that no event has recorded yet, in order."""

    entries: list[tuple[Kind, Machine]] = field(default_factory=list)

    def add(self, kind: Kind, machine: Machine) -> None:
        self.entries.append((kind, machine))

    def pop_for(self, event: HistoryEvent) -> tuple[Kind, Machine]:
        while self.entries:
            kind, machine = self.entries.pop(0)
            if not machine.is_dropped:
                return kind, machine
        raise Nondeterminism(f"history has {named(event)}, but the workflow issued no command for it")

    def to_send(self) -> list[tuple[Kind, Machine]]:
        return [(kind, machine) for kind, machine in self.entries if not machine.is_dropped]


def named(event: HistoryEvent) -> str:
    return f"event {event.event_id} {EventType.Name(event.event_type).removeprefix('EVENT_TYPE_')}"


def check_command(kind: Kind, machine: Machine, event: HistoryEvent, *, strict: bool) -> None:
    """Raise unless the event is what the command becomes; with `strict`, inputs have to be equal, too."""
    if kind.value != event.event_type:
        raise Nondeterminism(f"the workflow issued {machine.label} ({kind.name}) where history has {named(event)}")
    command = machine.command
    match kind:
        case Kind.ACTIVITY:
            scheduled = event.activity_task_scheduled_event_attributes
            recorded = (scheduled.activity_id, scheduled.activity_type.name)
            _same(recorded, (command.activity_id, command.activity_type), "activity", event)
            _same_payloads(strict, scheduled.input.payloads, command.arguments, machine, event)
        case Kind.CHILD:
            child = event.start_child_workflow_execution_initiated_event_attributes
            recorded = (child.workflow_id, child.workflow_type.name)
            _same(recorded, (command.workflow_id, command.workflow_type), "child", event)
            _same_payloads(strict, child.input.payloads, command.input, machine, event)
        case Kind.TIMER:
            timer = event.timer_started_event_attributes
            _same((timer.timer_id,), (str(machine.seq),), "timer", event)
            if strict and timer.start_to_fire_timeout != command.start_to_fire_timeout:
                raise StrictDifference(f"the duration of timer {machine.seq} differs from {named(event)}")
        case Kind.SIGNAL if strict:
            sent = event.signal_external_workflow_execution_initiated_event_attributes
            _same_payloads(strict, sent.input.payloads, command.args, machine, event)
        case Kind.COMPLETE if strict:
            completed = event.workflow_execution_completed_event_attributes
            _same_payloads(strict, completed.result.payloads, [command.result], machine, event)
        case Kind.CONTINUE_AS_NEW if strict:
            continued = event.workflow_execution_continued_as_new_event_attributes
            _same_payloads(strict, continued.input.payloads, command.arguments, machine, event)
        case _:
            pass


def _same(recorded: tuple[str, ...], issued: tuple[str, ...], what: str, event: HistoryEvent) -> None:
    if recorded != issued:
        raise Nondeterminism(f"the workflow issued {what} {issued} where {named(event)} has {recorded}")


def _same_payloads(strict: bool, recorded: Any, issued: Any, machine: Machine, event: HistoryEvent) -> None:
    before, after = ([each.data for each in payloads] for payloads in (recorded, issued))
    if strict and not (len(before) == len(after) and all(map(is_same_input, before, after))):
        shown = _difference(b"\n".join(before), b"\n".join(after))
        raise StrictDifference(f"the input of {machine.label} differs from {named(event)}: {shown}")


def _difference(before: bytes, after: bytes) -> str:
    """The first place where two payloads differ, with some text around it."""
    at = next((index for index, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), 0)
    start = max(0, at - 60)
    return f"history …{before[start : at + 60]!r}, replay …{after[start : at + 60]!r}"


ACTIVITY_ENDS = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: "activity_task_completed_event_attributes",
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED: "activity_task_failed_event_attributes",
    EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT: "activity_task_timed_out_event_attributes",
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED: "activity_task_canceled_event_attributes",
}
CHILD_ENDS = {
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED: "child_workflow_execution_completed_event_attributes",
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED: "child_workflow_execution_failed_event_attributes",
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED: "child_workflow_execution_canceled_event_attributes",
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TIMED_OUT: "child_workflow_execution_timed_out_event_attributes",
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED: "child_workflow_execution_terminated_event_attributes",
}


def attributes(event: HistoryEvent) -> Any:
    return getattr(event, str(event.WhichOneof("attributes")))


def activity_end_job(machine: Machine, event: HistoryEvent) -> WorkflowActivationJob:
    job = WorkflowActivationJob()
    resolved, ended = job.resolve_activity, attributes(event)
    resolved.seq = machine.seq
    match event.event_type:
        case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            resolved.result.completed.SetInParent()
            if ended.result.payloads:
                resolved.result.completed.result.CopyFrom(ended.result.payloads[0])
            return job
        case EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
            failure = _activity_cancelled(machine, resolved.result.cancelled.failure)
            failure.cause.canceled_failure_info.details.CopyFrom(ended.details)
        case EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED:
            failure = resolved.result.failed.failure
            failure.message = "Activity task failed"
            failure.cause.CopyFrom(ended.failure)
            _describe_activity(machine, failure, ended.retry_state)
        case _:
            failure = resolved.result.failed.failure
            failure.message = "Activity task timed out"
            failure.cause.CopyFrom(ended.failure)
            _describe_activity(machine, failure, ended.retry_state)
    failure.activity_failure_info.started_event_id = ended.started_event_id
    return job


def _activity_cancelled(machine: Machine, failure: Failure) -> Failure:
    failure.message = "Activity cancelled"
    failure.cause.canceled_failure_info.SetInParent()
    _describe_activity(machine, failure, RetryState.RETRY_STATE_CANCEL_REQUESTED)
    return failure


def _describe_activity(machine: Machine, failure: Failure, retry_state: RetryState.ValueType) -> None:
    info = failure.activity_failure_info
    info.scheduled_event_id, info.retry_state = machine.event_id, retry_state
    info.activity_id, info.activity_type.name = machine.command.activity_id, machine.command.activity_type


def activity_cancelled_job(machine: Machine) -> WorkflowActivationJob:
    """An activity that is cancelled before it was sent, or that the workflow does not wait for."""
    job = WorkflowActivationJob()
    job.resolve_activity.seq = machine.seq
    _activity_cancelled(machine, job.resolve_activity.result.cancelled.failure)
    return job


def local_end_job(machine: Machine, ended: LocalResult) -> WorkflowActivationJob:
    job = WorkflowActivationJob()
    job.resolve_activity.seq, job.resolve_activity.is_local = machine.seq, True
    result = job.resolve_activity.result
    if ended.failure is None:
        result.completed.SetInParent()
        if ended.result is not None:
            result.completed.result.CopyFrom(ended.result)
    elif ended.failure.HasField("canceled_failure_info"):
        failure = result.cancelled.failure
        failure.message = "Local Activity cancelled"
        failure.cause.CopyFrom(ended.failure)
        failure.activity_failure_info.activity_id = machine.command.activity_id
        failure.activity_failure_info.activity_type.name = machine.command.activity_type
        failure.activity_failure_info.retry_state = RetryState.RETRY_STATE_CANCEL_REQUESTED
    else:  # as it was raised: core wraps a cancellation and a timeout only
        result.failed.failure.CopyFrom(ended.failure)
    return job


def local_cancel() -> LocalResult:
    """How a local activity ends that is cancelled: at once, without waiting for it."""
    failure = Failure(message="Activity cancelled", source="CoreSDK")
    failure.canceled_failure_info.SetInParent()
    return LocalResult(None, failure, Timestamp())


def child_end_job(machine: Machine, event: HistoryEvent) -> WorkflowActivationJob:
    job = WorkflowActivationJob()
    resolved, ended = job.resolve_child_workflow_execution, attributes(event)
    resolved.seq = machine.seq
    if event.event_type == EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED:
        resolved.result.completed.SetInParent()
        if ended.result.payloads:
            resolved.result.completed.result.CopyFrom(ended.result.payloads[0])
        return job
    is_cancelled = event.event_type == EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED
    failure = resolved.result.cancelled.failure if is_cancelled else resolved.result.failed.failure
    failure.message = f"Child Workflow execution {_CHILD_END_WORDS[event.event_type]}"
    _describe_child(machine, failure, ended)
    match event.event_type:
        case EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED:
            failure.cause.CopyFrom(ended.failure)
        case EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED:
            failure.cause.message = "Terminated"
            failure.cause.terminated_failure_info.SetInParent()
        case EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TIMED_OUT:
            failure.cause.timeout_failure_info.SetInParent()
        case _:
            failure.cause.canceled_failure_info.SetInParent()
    return job


_CHILD_END_WORDS = {
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED: "failed",
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED: "cancelled",
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TIMED_OUT: "timed out",
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED: "terminated",
}


def _describe_child(machine: Machine, failure: Failure, ended: Any) -> None:
    info = failure.child_workflow_execution_failure_info
    info.namespace, info.workflow_type.name = NAMESPACE, machine.command.workflow_type
    info.workflow_execution.workflow_id = machine.command.workflow_id
    info.workflow_execution.run_id = ended.workflow_execution.run_id
    info.initiated_event_id, info.started_event_id = machine.event_id, machine.started_id
    info.retry_state = getattr(ended, "retry_state", RetryState.RETRY_STATE_NON_RETRYABLE_FAILURE)


def read_marker(event: HistoryEvent) -> tuple[int, LocalResult]:
    """The sequence number and the result of the local activity that a marker records."""
    marker = event.marker_recorded_event_attributes
    data = json.loads(marker.details["data"].payloads[0].data)
    result = marker.details["result"].payloads[0] if "result" in marker.details else None
    failure = marker.failure if marker.HasField("failure") else None
    at = data.get("complete_time") or {"seconds": 0, "nanos": 0}
    completed_at = Timestamp(seconds=at["seconds"], nanos=at["nanos"])
    return data["seq"], LocalResult(result, failure, completed_at, data.get("activation_index"))


def write_marker(event: HistoryEvent, machine: Machine) -> None:
    ended = machine.local
    assert ended is not None
    has_ended = ended.completed_at.seconds > 0  # a cancel does not wait for the end
    at = {"seconds": ended.completed_at.seconds, "nanos": ended.completed_at.nanos} if has_ended else None
    data = {
        "seq": machine.seq,
        "activity_id": machine.command.activity_id,
        "activity_type": machine.command.activity_type,
        "activation_index": ended.activation,
        "attempt": 1,
        "backoff": None,
        "complete_time": at,
        "original_schedule_time": at,
    }
    marker = event.marker_recorded_event_attributes
    marker.marker_name = LOCAL_MARKER
    written = Payload(metadata={"encoding": b"json/plain"}, data=json.dumps(data).encode())
    marker.details["data"].payloads.append(written)
    if ended.failure is not None:
        marker.failure.CopyFrom(ended.failure)
    elif ended.result is not None:
        marker.details["result"].payloads.append(ended.result)


def copied(into: Message, value: Message | None) -> None:
    if value is not None:
        into.CopyFrom(value)
