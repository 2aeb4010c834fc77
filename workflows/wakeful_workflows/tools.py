"""Schedule a tool's activity, and read what it returns; for runs, and for background tools."""

import json
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutError, TimeoutType
from temporalio.workflow import ActivityCancellationType, ActivityHandle

from wakeful.contract.limits import cut
from wakeful.contract.messages import ToolCall
from wakeful.contract.tools import DEFAULT_HEARTBEAT_SECONDS, ToolCallInput, ToolDescriptor, ToolOutcome, tool_outcome

_REPEATABLE = RetryPolicy(initial_interval=timedelta(milliseconds=500), maximum_attempts=10)
_ONCE = RetryPolicy(maximum_attempts=1)

SUMMARY_LENGTH = 120
LOCAL_TIMEOUT_SECONDS = 5.0
"""A local activity blocks the run's workflow task, so it may not take long."""

HEARTBEAT_TIMEOUT = timedelta(seconds=DEFAULT_HEARTBEAT_SECONDS)
"""Of activities of the runtime that may take long: within this time, a lost worker is noticed."""

Handle = ActivityHandle[Any]


class ActivityNotRegistered(Exception):
    """Fails the workflow task: another worker may have the local activity that this one does not have.

    As a fact it would make the run depend on which worker replays it.
    """


def start_tool(tool: ToolDescriptor, input: ToolCallInput, *, id: str, encoded: RawValue | None = None) -> Handle:
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
        start_to_close_timeout=timedelta(seconds=tool.timeout_seconds),
        heartbeat_timeout=timedelta(seconds=tool.heartbeat_seconds),
        retry_policy=_REPEATABLE if tool.effects.may_repeat else _ONCE,
        cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=summary,
    )


def start_local(
    name: str, argument: RawValue, *, id: str, timeout: timedelta, retries: RetryPolicy, summary: str
) -> Handle:
    """Start a local activity.

    Raises:
        ActivityNotRegistered: this worker does not have it.
    """
    try:
        return workflow.start_local_activity(
            name,
            argument,
            activity_id=id,
            result_type=RawValue,
            start_to_close_timeout=timeout,
            retry_policy=retries,
            summary=summary,
        )
    except ValueError as error:  # the argument is converted, so it is the worker's registry that the SDK objects to
        raise ActivityNotRegistered(str(error)) from error


def read_outcome(tool_name: str, returned: RawValue) -> ToolOutcome:
    return tool_outcome(tool_name, workflow.payload_converter().from_payload(returned.payload))


def failure_reason(error: ActivityError) -> str | None:
    """Why an activity failed; None if it was cancelled."""
    match error.cause:
        case CancelledError():
            return None
        case TimeoutError(type=TimeoutType.HEARTBEAT):
            return "its worker was lost"
        case TimeoutError(type=kind):
            return f"it exceeded its {kind.name.lower() if kind else ''} timeout"
        case ApplicationError(message=message):
            return message
        case cause:
            return str(cause or error)


def arguments_summary(call: ToolCall) -> str:
    """A call's arguments, as Temporal UI shows them beside the tool's name."""
    named = call.arguments.items() if isinstance(call.arguments, dict) else ()
    text = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in named)
    return cut(text, SUMMARY_LENGTH)
