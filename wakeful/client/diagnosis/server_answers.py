"""Temporal's answers as evidence: pending activities and workflow tasks, task queues, failures, close statuses."""

import contextlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import JsonValue, ValidationError
from temporalio.api.common.v1 import Payload
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
from temporalio.api.taskqueue.v1 import PollerInfo
from temporalio.api.taskqueue.v1 import TaskQueue as TaskQueueName
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, DescribeWorkflowExecutionResponse
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.converter import DataConverter
from temporalio.service import RPCError

from wakeful.client.diagnosis.evidence import (
    Activity,
    ActivityState,
    CloseStatus,
    Failure,
    Pause,
    Poller,
    QueueKind,
    TaskQueue,
    WorkflowTask,
)
from wakeful.client.queries import QUERY_TIMEOUT
from wakeful.contract.error_text import error_text
from wakeful.contract.missing import NOT_ON_THIS_WORKER, TIMEOUTS, Missing
from wakeful.contract.names import REMOTE_TASK_PENDING
from wakeful.contract.remote import RemoteProgress
from wakeful.contract.streaming import Outage, StreamCheckpoint

D = TypeVar("D", Outage, Missing, RemoteProgress)

_STATES = {
    PendingActivityState.PENDING_ACTIVITY_STATE_STARTED: ActivityState.STARTED,
    PendingActivityState.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED: ActivityState.CANCELLING,
    PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED: ActivityState.PAUSED,
    PendingActivityState.PENDING_ACTIVITY_STATE_PAUSE_REQUESTED: ActivityState.STARTED,
}
_CLOSE_STATUSES = {
    WorkflowExecutionStatus.COMPLETED: CloseStatus.COMPLETED,
    WorkflowExecutionStatus.FAILED: CloseStatus.FAILED,
    WorkflowExecutionStatus.CANCELED: CloseStatus.CANCELLED,
    WorkflowExecutionStatus.TERMINATED: CloseStatus.TERMINATED,
    WorkflowExecutionStatus.TIMED_OUT: CloseStatus.TIMED_OUT,
}
_TYPES = {
    QueueKind.WORKFLOW: TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    QueueKind.ACTIVITY: TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
}
_VERSIONED = WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED


def close_status(status: WorkflowExecutionStatus | None) -> CloseStatus | None:
    """None for an open execution."""
    return _CLOSE_STATUSES.get(status) if status is not None else None


def workflow_task(described: DescribeWorkflowExecutionResponse) -> WorkflowTask | None:
    """The pending workflow task, if there is one."""
    if not described.HasField("pending_workflow_task"):
        return None
    pending = described.pending_workflow_task
    since = millis(pending.original_scheduled_time) or millis(pending.scheduled_time)
    is_started = pending.state == PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_STARTED
    return WorkflowTask(since, pending.attempt, is_started)


def pinned(described: DescribeWorkflowExecutionResponse) -> str | None:
    """The version of a Worker Deployment that the execution is pinned to."""
    info = described.workflow_execution_info.versioning_info
    if info.versioning_override.pinned.version.build_id:
        override = info.versioning_override.pinned.version
        return _version(override.deployment_name, override.build_id)
    if info.behavior != VersioningBehavior.VERSIONING_BEHAVIOR_PINNED or not info.deployment_version.build_id:
        return None
    return _version(info.deployment_version.deployment_name, info.deployment_version.build_id)


async def activity(temporal: Client, pending: PendingActivityInfo) -> Activity:
    """A pending activity, with the details of its newest heartbeat, if they can be decoded."""
    options = pending.activity_options
    state = ActivityState.PAUSED if pending.paused else _STATES.get(pending.state, ActivityState.SCHEDULED)
    has_failed, converter = pending.HasField("last_failure"), temporal.data_converter
    heartbeat, *more = await _heartbeat(temporal, pending) or [None]
    return Activity(
        id=pending.activity_id,
        type=pending.activity_type.name,
        state=state,
        queue=options.task_queue.name,
        attempt=pending.attempt,
        max_attempts=pending.maximum_attempts,
        scheduled_at=millis(pending.scheduled_time),
        started_at=millis(pending.last_started_time) if state is not ActivityState.SCHEDULED else None,
        heartbeat_at=millis(pending.last_heartbeat_time) if state is not ActivityState.SCHEDULED else None,
        next_attempt_at=millis(pending.next_attempt_schedule_time) if state is ActivityState.SCHEDULED else None,
        timeout=_seconds(options.start_to_close_timeout),
        heartbeat_timeout=_seconds(options.heartbeat_timeout),
        queue_timeout=_seconds(options.schedule_to_start_timeout),
        failure=await failure(converter, pending.last_failure, at=pending.last_attempt_complete_time)
        if has_failed and pending.last_failure.application_failure_info.type != REMOTE_TASK_PENDING
        else None,
        worker=pending.last_worker_identity,
        pause=_pause(pending) if pending.paused else None,
        heartbeat=heartbeat,
        outage=_first(more, Outage),
        remote=_first(more, RemoteProgress),
        missing=_missing(pending, [heartbeat, *more]),
        may_repeat=pending.maximum_attempts != 1 and TIMEOUTS[1] not in options.retry_policy.non_retryable_error_types,
    )


def _pause(pending: PendingActivityInfo) -> Pause:
    info = pending.pause_info
    return Pause(millis(info.pause_time), info.manual.identity, info.manual.reason or info.rule.reason)


async def _heartbeat(temporal: Client, pending: PendingActivityInfo) -> list[JsonValue]:
    return await _decoded(temporal.data_converter, pending.heartbeat_details.payloads)


async def _decoded(converter: DataConverter, payloads: Sequence[Payload]) -> list[Any]:
    try:
        return await converter.decode(payloads)
    except Exception:  # a tool may heartbeat anything, and this client may not have the codec
        return []


def _missing(pending: PendingActivityInfo, details: Sequence[JsonValue]) -> Missing | None:
    """What the last attempt did not find, if that is why it failed."""
    is_missing = pending.last_failure.application_failure_info.type == NOT_ON_THIS_WORKER
    return _first(details, Missing) if is_missing else None


def _first(details: Sequence[JsonValue], kind: type[D]) -> D | None:
    for each in details:
        with contextlib.suppress(ValidationError):  # of a tool, or of another version
            return kind.model_validate(each)
    return None


async def failure(converter: DataConverter, failed: TemporalFailure, *, at: Timestamp | None = None) -> Failure:
    """A failure with the type that was raised; for a timeout, which one."""
    when = millis(at) if at is not None else None
    match failed.WhichOneof("failure_info"):
        case "application_failure_info":
            info = failed.application_failure_info
            text = error_text(await _decoded(converter, info.details.payloads))
            return Failure(text or failed.message, info.type, when)
        case "timeout_failure_info":
            kind = TimeoutType.Name(failed.timeout_failure_info.timeout_type).removeprefix("TIMEOUT_TYPE_").lower()
            message = "its worker was lost" if kind == "heartbeat" else f"it hit its {kind.replace('_', '-')} timeout"
            return Failure(message, f"{kind} timeout", when)
        case "activity_failure_info" | "child_workflow_execution_failure_info" if failed.HasField("cause"):
            return await failure(converter, failed.cause, at=at)
        case _:
            return Failure(failed.message, "", when)


async def read_queue(temporal: Client, name: str, kind: QueueKind) -> TaskQueue | str:
    """The pollers and the backlog of a task queue, or why they could not be read."""
    try:
        return await describe_queue(temporal, name, kind)
    except RPCError as error:
        return f"task queue {name!r}: its pollers could not be read ({error.message})"


async def describe_queue(
    temporal: Client, name: str, kind: QueueKind, *, within: timedelta = QUERY_TIMEOUT
) -> TaskQueue:
    """The pollers and the backlog of a task queue.

    Raises:
        RPCError: the server refused the call, or is unreachable.
    """
    request = DescribeTaskQueueRequest(
        namespace=temporal.namespace,
        task_queue=TaskQueueName(name=name, kind=TaskQueueKind.TASK_QUEUE_KIND_NORMAL),
        task_queue_type=_TYPES[kind],
        report_stats=True,
    )
    answer = await temporal.workflow_service.describe_task_queue(request, timeout=within)
    versioning = answer.versioning_info
    versions = {
        _version(version.deployment_name, version.build_id)
        for version in (versioning.current_deployment_version, versioning.ramping_deployment_version)
        if version.build_id
    }
    return TaskQueue(
        name,
        kind,
        pollers=tuple(_poller(poller) for poller in answer.pollers),
        backlog=answer.stats.approximate_backlog_count,
        backlog_age=_seconds(answer.stats.approximate_backlog_age),
        versions=tuple(sorted(versions)),
    )


def _poller(info: PollerInfo) -> Poller:
    options = info.deployment_options
    is_versioned = options.worker_versioning_mode == _VERSIONED
    version = _version(options.deployment_name, options.build_id) if is_versioned else ""
    build = info.worker_version_capabilities.build_id
    return Poller(info.identity, millis(info.last_access_time) or 0, version, build)


def _version(deployment: str, build: str) -> str:
    return f"{deployment}.{build}"


def size(checkpoint: StreamCheckpoint) -> int:
    """The characters of an answer that have arrived."""
    calls = sum(len(call.name) + len(call.arguments) for call in checkpoint.calls)
    return len(checkpoint.text) + len(checkpoint.reasoning) + calls


def millis(at: Timestamp) -> int | None:
    """Milliseconds since 1970; None if it is not set."""
    return int(at.ToMilliseconds()) if at.seconds > 0 else None


def datetime_millis(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _seconds(duration: Duration) -> float:
    return duration.seconds + duration.nanos / 1e9
