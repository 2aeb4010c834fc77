"""What Temporal's answers mean, part by part: pending activities and tasks, task queues, failures, ends."""

from datetime import datetime

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import JsonValue
from temporalio.api.enums.v1 import (
    PendingActivityState,
    PendingWorkflowTaskState,
    TaskQueueKind,
    TaskQueueType,
    TimeoutType,
    VersioningBehavior,
    WorkerVersioningMode,
)
from temporalio.api.failure.v1 import Failure as TemporalFailure
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, DescribeWorkflowExecutionResponse
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError

from wakeful.client.diagnosis.evidence import (
    Activity,
    ActivityState,
    Closing,
    Failure,
    Pause,
    Poller,
    Queue,
    QueueKind,
    Task,
)
from wakeful.client.queries import QUERY_TIMEOUT
from wakeful.contract.streaming import StreamCheckpoint

_STATES = {
    PendingActivityState.PENDING_ACTIVITY_STATE_STARTED: ActivityState.STARTED,
    PendingActivityState.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED: ActivityState.STOPPING,
    PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED: ActivityState.PAUSED,
    PendingActivityState.PENDING_ACTIVITY_STATE_PAUSE_REQUESTED: ActivityState.STARTED,
}
_CLOSINGS = {
    WorkflowExecutionStatus.COMPLETED: Closing.COMPLETED,
    WorkflowExecutionStatus.FAILED: Closing.FAILED,
    WorkflowExecutionStatus.CANCELED: Closing.CANCELLED,
    WorkflowExecutionStatus.TERMINATED: Closing.TERMINATED,
    WorkflowExecutionStatus.TIMED_OUT: Closing.TIMED_OUT,
}
_TYPES = {
    QueueKind.WORKFLOW: TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    QueueKind.ACTIVITY: TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
}
_VERSIONED = WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED


def closing(status: WorkflowExecutionStatus | None) -> Closing | None:
    """None of an execution that is open."""
    return _CLOSINGS.get(status) if status is not None else None


def task(described: DescribeWorkflowExecutionResponse) -> Task | None:
    """The workflow task that is pending, if one is."""
    if not described.HasField("pending_workflow_task"):
        return None
    pending = described.pending_workflow_task
    since = moment(pending.original_scheduled_time) or moment(pending.scheduled_time)
    is_started = pending.state == PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_STARTED
    return Task(since, pending.attempt, is_started)


def pinned(described: DescribeWorkflowExecutionResponse) -> str | None:
    """The version of a Worker Deployment that the execution is bound to."""
    info = described.workflow_execution_info.versioning_info
    if info.versioning_override.pinned.version.build_id:
        by_hand = info.versioning_override.pinned.version
        return _version(by_hand.deployment_name, by_hand.build_id)
    if info.behavior != VersioningBehavior.VERSIONING_BEHAVIOR_PINNED or not info.deployment_version.build_id:
        return None
    return _version(info.deployment_version.deployment_name, info.deployment_version.build_id)


async def activity(temporal: Client, pending: PendingActivityInfo) -> Activity:
    """A pending activity, with what its newest heartbeat says, if that can be read."""
    options = pending.activity_options
    state = ActivityState.PAUSED if pending.paused else _STATES.get(pending.state, ActivityState.SCHEDULED)
    has_failed = pending.HasField("last_failure")
    return Activity(
        id=pending.activity_id,
        kind=pending.activity_type.name,
        state=state,
        queue=options.task_queue.name,
        attempt=pending.attempt,
        most_attempts=pending.maximum_attempts,
        scheduled_at=moment(pending.scheduled_time),
        started_at=moment(pending.last_started_time) if state is not ActivityState.SCHEDULED else None,
        heartbeat_at=moment(pending.last_heartbeat_time) if state is not ActivityState.SCHEDULED else None,
        next_at=moment(pending.next_attempt_schedule_time) if state is ActivityState.SCHEDULED else None,
        timeout=length(options.start_to_close_timeout),
        heartbeat_timeout=length(options.heartbeat_timeout),
        failure=failure(pending.last_failure, at=pending.last_attempt_complete_time) if has_failed else None,
        worker=pending.last_worker_identity,
        pause=_pause(pending) if pending.paused else None,
        reported=await _reported(temporal, pending),
    )


def _pause(pending: PendingActivityInfo) -> Pause:
    info = pending.pause_info
    return Pause(moment(info.pause_time), info.manual.identity, info.manual.reason or info.rule.reason)


async def _reported(temporal: Client, pending: PendingActivityInfo) -> JsonValue:
    if not pending.heartbeat_details.payloads:
        return None
    try:
        decoded = await temporal.data_converter.decode(pending.heartbeat_details.payloads)
    except Exception:  # a tool may heartbeat whatever it likes, and a codec may be missing here
        return None
    value: JsonValue = decoded[0] if decoded else None
    return value


def failure(failed: TemporalFailure, *, at: Timestamp | None = None) -> Failure:
    """What went wrong, by the name that whoever raised it gave it; for a timeout, which one."""
    when = moment(at) if at is not None else None
    match failed.WhichOneof("failure_info"):
        case "application_failure_info":
            return Failure(failed.message, failed.application_failure_info.type, when)
        case "timeout_failure_info":
            kind = TimeoutType.Name(failed.timeout_failure_info.timeout_type).removeprefix("TIMEOUT_TYPE_").lower()
            said = "its worker was lost" if kind == "heartbeat" else f"it ran into its {kind} timeout"
            return Failure(said, f"{kind} timeout", when)
        case "activity_failure_info" | "child_workflow_execution_failure_info" if failed.HasField("cause"):
            return failure(failed.cause, at=at)
        case _:
            return Failure(failed.message, "", when)


async def read_queue(temporal: Client, name: str, kind: QueueKind) -> Queue | str:
    """Who polls a task queue and what waits in it; or why that cannot be read."""
    request = DescribeTaskQueueRequest(
        namespace=temporal.namespace,
        task_queue=TaskQueue(name=name, kind=TaskQueueKind.TASK_QUEUE_KIND_NORMAL),
        task_queue_type=_TYPES[kind],
        report_stats=True,
    )
    try:
        answer = await temporal.workflow_service.describe_task_queue(request, timeout=QUERY_TIMEOUT)
    except RPCError as error:
        return f"task queue {name!r}: Temporal does not say who polls it ({error.message})"
    versioning = answer.versioning_info
    versions = {
        _version(version.deployment_name, version.build_id)
        for version in (versioning.current_deployment_version, versioning.ramping_deployment_version)
        if version.build_id
    }
    return Queue(
        name,
        kind,
        pollers=tuple(_poller(poller) for poller in answer.pollers),
        backlog=answer.stats.approximate_backlog_count,
        backlog_age=length(answer.stats.approximate_backlog_age),
        versions=tuple(sorted(versions)),
    )


def _poller(info: PollerInfo) -> Poller:
    options = info.deployment_options
    is_versioned = options.worker_versioning_mode == _VERSIONED
    version = _version(options.deployment_name, options.build_id) if is_versioned else ""
    return Poller(info.identity, moment(info.last_access_time) or 0, version)


def _version(deployment: str, build: str) -> str:
    return f"{deployment}.{build}"


def size(checkpoint: StreamCheckpoint) -> int:
    """How much of an answer has come, in characters."""
    calls = sum(len(call.name) + len(call.arguments) for call in checkpoint.calls)
    return len(checkpoint.text) + len(checkpoint.reasoning) + calls


def moment(at: Timestamp) -> int | None:
    """Milliseconds since 1970; None if it was not set."""
    return int(at.ToMilliseconds()) if at.seconds > 0 else None


def millis(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def length(duration: Duration) -> float:
    """In seconds."""
    return duration.seconds + duration.nanos / 1e9
