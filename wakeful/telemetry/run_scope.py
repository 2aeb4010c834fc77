"""Which run a task belongs to, and when a worker last had one: an interceptor of the worker.

The log lines of an activity carry its run and its agent, on any worker. The inputs of tools and hooks name both. For
other activities the workflow names them in a header, as short as it can be: history has it once for every inference.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    StartActivityInput,
    StartLocalActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from wakeful.contract.missing import NOT_ON_THIS_WORKER
from wakeful.contract.names import HEADER_RUN, REMOTE_TASK_PENDING
from wakeful.contract.runs import RunIdentity
from wakeful.contract.tool_attempts import RAISED_ERROR
from wakeful.telemetry.log_causes import log_failure
from wakeful.telemetry.log_fields import add_fields

_logger = logging.getLogger("wakeful")


class LastTask:
    """When a worker last had a task, by the monotonic clock, and how many activities it executes."""

    def __init__(self) -> None:
        self.at: float | None = None
        self.running = 0

    def mark(self) -> None:
        self.at = time.monotonic()

    @property
    def seconds_ago(self) -> float | None:
        """None before the first task."""
        return None if self.at is None else time.monotonic() - self.at


class RunScope(Interceptor):
    """Names the run of every activity, marks each task, and logs each attempt that fails, in one line."""

    def __init__(self) -> None:
        self.last_task = LastTask()
        self._inbound = _inbound_class(self.last_task)

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Activity(next, self.last_task)

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:
        del input
        return self._inbound


class _Activity(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, last_task: LastTask) -> None:
        super().__init__(next)
        self._last_task = last_task

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        self._last_task.mark()
        self._last_task.running += 1
        add_fields(**_named(input.args, input.headers))
        try:
            return await self.next.execute_activity(input)
        except Exception as error:
            _log_failed_attempt(error)
            raise
        finally:
            self._last_task.running -= 1
            self._last_task.mark()


def _log_failed_attempt(error: Exception) -> None:
    fields: dict[str, object] = {"activity": activity.info().activity_type}
    if isinstance(error, ApplicationError):
        # The first is logged once for all its attempts, as `left to other workers`; the second has not failed; the
        # third is logged with its cause, as `tool call is retried`.
        if error.type in (NOT_ON_THIS_WORKER, REMOTE_TASK_PENDING, RAISED_ERROR):
            return
        if error.non_retryable:
            fields["is_final"] = True
        if error.next_retry_delay is not None:
            fields["retry_in"] = f"{error.next_retry_delay.total_seconds():.1f}s"
    log_failure(_logger, "attempt failed", error, extra=fields)


def _named(args: Sequence[Any], headers: Mapping[str, Payload]) -> dict[str, str]:
    """The run and the agent of an activity, by its input or else by its header."""
    if (identity := _identity(args)) is not None:
        return {"run_id": identity.run_id, "agent_id": identity.agent_id}
    header = headers.get(HEADER_RUN)
    run_id, _, agent_id = header.data.decode(errors="replace").partition(" ") if header is not None else ("", "", "")
    return {"run_id": run_id, "agent_id": agent_id} if run_id and agent_id else {}


def _identity(args: Sequence[Any]) -> RunIdentity | None:
    """The run as the input of an activity names it; a tool's is parsed later, by the activity itself."""
    identity = getattr(args[0], "identity", None) if args else None
    return identity if isinstance(identity, RunIdentity) else None


class _Outbound(WorkflowOutboundInterceptor):
    def __init__(self, next: WorkflowOutboundInterceptor, last_task: LastTask) -> None:
        super().__init__(next)
        self._last_task = last_task

    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
        self._last_task.mark()
        return self.next.start_activity(replace(input, headers=_with_run(input.args, input.headers)))

    def start_local_activity(self, input: StartLocalActivityInput) -> workflow.ActivityHandle[Any]:
        self._last_task.mark()
        return self.next.start_local_activity(replace(input, headers=_with_run(input.args, input.headers)))


def _with_run(args: Sequence[Any], headers: Mapping[str, Payload]) -> Mapping[str, Payload]:
    fields = getattr(workflow.instance(), "log_fields", None) or {}
    if _identity(args) is not None or not {"run_id", "agent_id"} <= fields.keys():
        return headers
    return {**headers, HEADER_RUN: Payload(data=f"{fields['run_id']} {fields['agent_id']}".encode())}


def _inbound_class(last_task: LastTask) -> type[WorkflowInboundInterceptor]:
    """The SDK makes an object of it for every workflow."""

    class Inbound(WorkflowInboundInterceptor):
        def init(self, outbound: WorkflowOutboundInterceptor) -> None:
            last_task.mark()
            super().init(_Outbound(outbound, last_task))

    return Inbound
