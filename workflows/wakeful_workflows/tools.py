"""Schedule a tool's activity, and read what it returns; for runs, and for background tools."""

import json
import re
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import Priority, RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutError, TimeoutType
from temporalio.workflow import ActivityCancellationType, ActivityHandle

from wakeful.contract.error_text import error_text
from wakeful.contract.errors import ToolErrorKind
from wakeful.contract.limits import cut
from wakeful.contract.messages import ToolCall
from wakeful.contract.missing import NOT_ON_THIS_WORKER, TIMEOUTS
from wakeful.contract.tool_attempts import RAISED_ERROR
from wakeful.contract.tools import (
    DEFAULT_HEARTBEAT_SECONDS,
    ToolCallInput,
    ToolDescriptor,
    ToolOutcome,
    never_started,
    tool_outcome,
)

MAX_ATTEMPTS = 10
_REPEATABLE = RetryPolicy(initial_interval=timedelta(milliseconds=500), maximum_attempts=MAX_ATTEMPTS)

# On the run's own task queue, workers are Wakeful's. They fail an attempt if they lack the tool, which has no limit
# here: `call_tool` knows how long other workers are tried, and which attempts may have executed the call.
_REPEATABLE_HERE = replace(_REPEATABLE, maximum_interval=timedelta(seconds=50), maximum_attempts=0)
_ONCE_HERE = replace(_REPEATABLE_HERE, non_retryable_error_types=TIMEOUTS)

_WORKER_SHUTDOWN = "WorkerShutdown"
"""The type with which Temporal's SDKs fail an activity that did not end before its worker stopped."""
_ANY_ERROR = frozenset({None, "", "Error"})
"""Types of errors that say nothing to a model."""

ERROR_LENGTH = 10_000
"""Characters of an error that a tool of another worker raised."""

SUMMARY_LENGTH = 120
LOCAL_TIMEOUT_SECONDS = 5.0
"""A local activity blocks the run's workflow task, so it may not take long."""

HEARTBEAT_TIMEOUT = timedelta(seconds=30)
"""Of activities of the runtime for which no step waits: within this time, a lost worker is noticed."""
STEP_HEARTBEAT_TIMEOUT = timedelta(seconds=DEFAULT_HEARTBEAT_SECONDS)
"""Of those that are a part of a step."""

Handle = ActivityHandle[Any]


class ActivityNotRegistered(Exception):
    """Fails the workflow task: another worker may have the local activity that this one does not have.

    As a fact it would make the run depend on which worker replays it.
    """


def start_tool(
    tool: ToolDescriptor,
    input: ToolCallInput,
    *,
    id: str,
    encoded: RawValue | None = None,
    priority: Priority = Priority.default,
) -> Handle:
    """Schedule the tool's activity; `read_outcome` reads what it returns."""
    argument = encoded or RawValue(workflow.payload_converter().to_payload(input))
    arguments = arguments_summary(input.call)
    summary = f"{arguments} · resumed" if input.resume else arguments
    if tool.local:
        timeout = timedelta(seconds=min(tool.timeout_seconds, LOCAL_TIMEOUT_SECONDS))
        return start_local(tool.id, argument, id=id, timeout=timeout, retries=_REPEATABLE, summary=summary)
    return workflow.start_activity(
        tool.id,
        argument,
        activity_id=id,
        result_type=RawValue,
        task_queue=tool.task_queue,
        schedule_to_start_timeout=timedelta(seconds=tool.queue_seconds) if tool.queue_seconds else None,
        start_to_close_timeout=timedelta(seconds=tool.timeout_seconds),
        heartbeat_timeout=timedelta(seconds=tool.heartbeat_seconds),
        retry_policy=_retry_policy(tool),
        cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        priority=priority,
        summary=summary,
    )


def _retry_policy(tool: ToolDescriptor) -> RetryPolicy:
    """How Temporal retries the tool.

    Temporal cannot tell an error that a tool raised from a lost worker. On a task queue of its own, a tool raises its
    errors, and the run itself retries what a worker has lost (`runs_again`). Our own workers return a tool's errors as
    results.
    """
    if tool.task_queue is not None:
        return replace(_REPEATABLE, maximum_attempts=1 + tool.retries)
    return _REPEATABLE_HERE if tool.effects.may_repeat else _ONCE_HERE


def start_local(
    name: str, *arguments: RawValue, id: str, timeout: timedelta, retries: RetryPolicy, summary: str
) -> Handle:
    """Start a local activity.

    Raises:
        ActivityNotRegistered: this worker does not have it.
    """
    try:
        return workflow.start_local_activity(
            name,
            args=arguments,
            activity_id=id,
            result_type=RawValue,
            start_to_close_timeout=timeout,
            retry_policy=retries,
            summary=summary,
        )
    except ValueError as error:  # the argument is converted, so it is the worker's registry that the SDK objects to
        raise ActivityNotRegistered(str(error)) from error


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """Why a tool's activity failed."""

    error: str
    is_result: bool = False
    """The tool raised it, or never ran: the model reads it. Else the outcome is unknown."""


def tool_failure(tool: ToolDescriptor, error: ActivityError | ApplicationError, *, attempts: int) -> ToolFailure | None:
    """How a call failed for good; None if it was cancelled.

    Args:
        attempts: how often the run has started it.
    """
    reason = failure_reason(error)
    if reason is None or _is_retry_refused(error):
        return None
    if tool.task_queue is None or isinstance(error, ApplicationError) or _is_lost(error):
        return ToolFailure(reason)
    match error.cause:
        case TimeoutError(type=TimeoutType.SCHEDULE_TO_START, cause=None) if attempts == 1:
            return ToolFailure(never_started(tool), is_result=True)
        case ApplicationError(type=type, message=message):
            named = message if type in _ANY_ERROR else f"{type}: {message}" if message else type
            return ToolFailure(cut(f"{ToolErrorKind.EXECUTION_FAILED}: {named}", ERROR_LENGTH), is_result=True)
        case _:
            return ToolFailure(reason)


def _is_retry_refused(error: ActivityError | ApplicationError) -> bool:
    """Whether Temporal did not retry an error that a worker wanted it to retry: the run has cancelled the call."""
    cause = _cause(error)
    return isinstance(cause, ApplicationError) and cause.type == RAISED_ERROR


def runs_again(tool: ToolDescriptor, error: ActivityError, *, attempts: int) -> bool:
    """Whether the run starts a call again whose worker on another task queue was lost."""
    may_repeat = tool.task_queue is not None and tool.effects.may_repeat
    return may_repeat and attempts < MAX_ATTEMPTS and _is_lost(error)


def _is_lost(error: ActivityError) -> bool:
    """Whether the worker was lost, or did not end the call in time."""
    match error.cause:
        case TimeoutError(type=TimeoutType.HEARTBEAT | TimeoutType.START_TO_CLOSE):
            return True
        case ApplicationError(type=type):
            return type == _WORKER_SHUTDOWN
        case _:
            return False


def read_outcome(tool_name: str, returned: RawValue) -> ToolOutcome:
    return tool_outcome(tool_name, workflow.payload_converter().from_payload(returned.payload))


def failure_reason(error: ActivityError | ApplicationError) -> str | None:
    """Why an activity failed; None if it was cancelled."""
    match _cause(error):
        case CancelledError():
            return None
        case TimeoutError(type=TimeoutType.HEARTBEAT):
            return "its worker was lost"
        case TimeoutError(type=kind):
            return f"it exceeded its {kind.name.lower() if kind else ''} timeout"
        case ApplicationError(message=message, details=details):
            return error_text(details) or message
        case cause:
            return str(cause or error)


def is_left_to_others(error: ActivityError | ApplicationError) -> bool:
    """Whether a local activity failed because its worker lacks something: a regular one can reach another worker."""
    cause = _cause(error)
    return isinstance(cause, ApplicationError) and cause.type == NOT_ON_THIS_WORKER


def _cause(error: ActivityError | ApplicationError) -> BaseException | None:
    return error.cause if isinstance(error, ActivityError) else error


def failure_code(error: ActivityError | ApplicationError) -> str:
    """What kind of failure it was, in one word: the type of an error in snake case, or which timeout."""
    match _cause(error):
        case TimeoutError(type=TimeoutType.HEARTBEAT):
            return "worker_lost"
        case TimeoutError():
            return "activity_timeout"
        case ApplicationError(type=str(kind)):
            return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()
        case _:
            return ""


def arguments_summary(call: ToolCall) -> str:
    """A call's arguments, as Temporal UI shows them beside the tool's name."""
    named = call.arguments.items() if isinstance(call.arguments, dict) else ()
    text = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in named)
    return cut(text, SUMMARY_LENGTH)
