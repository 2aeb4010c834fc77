"""How threads end: the close status, the result and the search attributes of an execution say the same."""

from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType, WorkflowExecutionStatus

from tests.simulation.core import Core
from tests.simulation.execution import Execution
from tests.simulation.server import CANCELED, COMPLETED, FAILED
from tests.simulation.service import CONVERTER
from wakeful.contract import names
from wakeful.contract.runs import Cancelled, Errored, RunResult, ThreadMode, outcome_of, reason_code
from wakeful.loop.machine.stages import Done
from wakeful.loop.machine.state import Thread

_CANCEL_REQUESTED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED


def reported_result(execution: Execution) -> RunResult | None:
    """The result that the close of an execution reports, wherever that has room for it; None if it reports none."""
    last = execution.history[-1]
    payloads: list[Payload] = []
    if execution.status == COMPLETED:
        payloads = list(last.workflow_execution_completed_event_attributes.result.payloads)
    elif execution.status == FAILED:
        failure = last.workflow_execution_failed_event_attributes.failure
        payloads = list(failure.application_failure_info.details.payloads)
    elif execution.status == CANCELED and names.MEMO_RESULT in execution.memo.fields:
        payloads = [execution.memo.fields[names.MEMO_RESULT]]
    return CONVERTER.payload_converter.from_payload(payloads[0], RunResult) if payloads else None


def end_problem(core: Core, execution: Execution) -> str | None:
    """What is wrong with how the workflow itself closed an execution; `core` has replayed it."""
    if execution.workflow_type != names.WORKFLOW or execution.status not in (COMPLETED, FAILED, CANCELED):
        return None
    thread = getattr(core.workflow, "_thread", None)
    has_ended = execution.status == COMPLETED or names.MEMO_ENDED in execution.memo.fields
    if not isinstance(thread, Thread) or not isinstance(thread.stage, Done):
        return "has closed although it has not ended" if has_ended else None
    result = thread.stage.result
    if not has_ended:
        return "does not say that it has closed by itself"
    # A signal that came with Temporal's cancel is handled before it, and may close the thread.
    is_cancelled = core.workflow._is_cancelled
    if is_cancelled and not any(event.event_type == _CANCEL_REQUESTED for event in execution.history):
        return "was not cancelled"
    if execution.status != (expected := _close_status(thread, is_cancelled=is_cancelled)):
        named = WorkflowExecutionStatus.Name(expected)
        return f"ended as {result.termination.type}, and did not close as {named} but as {execution.status}"
    if (reported := reported_result(execution)) != result:
        return f"reports the result {reported}, and not {result}"
    if thread.parent is not None or core.workflow._children.is_busy:
        return "has closed before its owner knew its end"
    shown = _shown(execution)
    end = result.termination
    wanted = {
        names.ATTRIBUTE_STATUS: "done",
        names.ATTRIBUTE_OUTCOME: outcome_of(end),
        names.ATTRIBUTE_REASON: reason_code(end),
    }
    known = core.workflow._activities.worker.search_attributes or ()
    wrong = {name: shown.get(name) for name in wanted if name in known and shown.get(name) != wanted[name]}
    return f"ended as {end.type}, but its attributes are {wrong}" if wrong else None


def _close_status(thread: Thread, *, is_cancelled: bool) -> WorkflowExecutionStatus.ValueType:
    assert isinstance(thread.stage, Done)
    end, is_run = thread.stage.result.termination, thread.mode is ThreadMode.RUN
    if is_run and isinstance(end, Errored):
        return FAILED
    return CANCELED if is_cancelled and (isinstance(end, Cancelled) or not is_run) else COMPLETED


def _shown(execution: Execution) -> dict[str, Any]:
    fields = execution.attributes.indexed_fields
    return {name: CONVERTER.payload_converter.from_payload(fields[name]) for name in fields}
