"""The span and the metrics of one execution of a tool: of one attempt, if the activity is retried."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from opentelemetry.trace import Span
from temporalio import activity
from temporalio.exceptions import ApplicationError

from wakeful.contract.missing import NOT_ON_THIS_WORKER
from wakeful.contract.tools import ToolCallInput, ToolOutcome, ToolStatus
from wakeful.telemetry import instruments, names
from wakeful.telemetry.spans import Value
from wakeful.telemetry.telemetry import Telemetry
from wakeful.telemetry.tracing import error_type, fail
from wakeful_activities.telemetry import activity_ref, server_clock

OUTCOMES = {
    ToolStatus.SUCCESS: names.SUCCEEDED,
    ToolStatus.PENDING: names.SUSPENDED,
    ToolStatus.ERROR: names.FAILED,
}


class Execution:
    """A tool that is being executed."""

    def __init__(self) -> None:
        self.outcome = names.CANCELLED
        self.error: str | None = None
        self.result: str | None = None

    def returned(self, outcome: ToolOutcome, *, error: str | None) -> None:
        """The tool returned, raised or suspended, or was not allowed to run."""
        self.outcome = OUTCOMES[outcome.result.status]
        self.error = (error or names.FAILED) if self.outcome == names.FAILED else None
        self.result = outcome.result.text

    def raised(self, error: str | None) -> None:
        """The tool raised an error, after which the call is retried; None if the attempt failed for another reason."""
        if error is not None:
            self.outcome, self.error = names.FAILED, error


@contextmanager
def executing(telemetry: Telemetry, name: str, input: ToolCallInput) -> Iterator[Execution]:
    """Around the execution of a tool: tell what it returns to what is yielded."""
    execution, began, is_left = Execution(), time.monotonic(), False
    try:
        with _span(telemetry, name, input) as span:
            try:
                yield execution
            except asyncio.CancelledError:
                if span is not None:
                    span.set_attribute(names.TOOL_OUTCOME, names.CANCELLED)
                raise
            except ApplicationError:
                if span is not None and execution.outcome == names.FAILED:
                    span.set_attribute(names.TOOL_OUTCOME, names.FAILED)
                raise
            if span is not None and telemetry.tracing is not None:
                span.set_attribute(names.TOOL_OUTCOME, execution.outcome)
                span.set_attributes(telemetry.tracing.tool_content(input.call.arguments, execution.result))
                if execution.error is not None:
                    fail(span, execution.error)
    except BaseException as error:
        execution.error = execution.error or error_type(error)
        is_left = execution.error == NOT_ON_THIS_WORKER
        raise
    finally:
        if telemetry.metrics is not None and not is_left:
            labels = {names.TOOL_NAME: name, names.TOOL_OUTCOME: execution.outcome, names.ERROR_TYPE: execution.error}
            telemetry.metrics.record(instruments.TOOL_DURATION, time.monotonic() - began, labels)


@contextmanager
def _span(telemetry: Telemetry, name: str, input: ToolCallInput) -> Iterator[Span | None]:
    tracing, info = telemetry.tracing, activity.info()
    if tracing is None:
        with nullcontext():
            yield None
        return
    identity = input.identity
    attributes: dict[str, Value] = {
        names.OPERATION: names.EXECUTE_TOOL,
        names.TOOL_NAME: name,
        names.TOOL_TYPE: names.FUNCTION,
        names.TOOL_CALL_ID: input.call.id,
        names.CONVERSATION: identity.thread_id,
        names.RUN_ID: identity.run_id,
        names.AGENT: identity.agent_id,
        names.ATTEMPT: info.attempt,
    }
    if input.resume is not None:
        attributes[names.TOOL_RESUMED] = True
    title = f"{names.EXECUTE_TOOL} {name}"
    ref = activity_ref(tracing, title, info.attempt)
    with tracing.span(title, ref=ref, attributes=attributes, clock=server_clock()) as span:
        yield span
