"""Which run a log line is about: `LogFields` adds that to every record of a workflow task or an activity.

It also adds it to the lines of users' tools, which know nothing of it. `RunScope` (`run_scope.py`) says which run an
activity belongs to; a workflow says it itself, by a property `log_fields`.
"""

import logging
import sys
from collections.abc import Mapping
from contextvars import ContextVar

from temporalio import activity, workflow

from wakeful.contract import ids, names

Fields = Mapping[str, str | int]

FIELDS = ("thread_id", "run_id", "agent_id", "step", "call_id", "model", "attempt", "trace_id", "span_id")
"""What a line can carry, in the order in which it shows them."""

_ADDED: ContextVar[Fields] = ContextVar("wakeful_log_fields")
"""Of the activity that is executed: its run and its agent, and what it has added itself."""

_WORKFLOWS = frozenset({names.WORKFLOW, names.WORKFLOW_TOOL_TASK, names.WORKFLOW_ARCHIVE})


class LogFields(logging.Filter):
    """Adds the fields of the current run to each record; those that the record has already stay as they are."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in current_fields().items():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True


def current_fields() -> Fields:
    """The thread, run, agent, step, call and trace of the code that runs now, as far as there are any."""
    return {**_of_task(), **_of_trace()}


def add_fields(**fields: str | int) -> None:
    """Let every later line of this activity carry these fields, also from threads and tasks that it starts."""
    _ADDED.set({**_ADDED.get({}), **fields})


def _of_task() -> Fields:
    if activity.in_activity():
        return _of_activity()
    if not workflow.in_workflow():
        return {}
    fields: Fields | None = getattr(workflow.instance(), "log_fields", None)
    return {} if fields is None else fields


def _of_activity() -> Fields:
    info = activity.info()
    if info.workflow_type not in _WORKFLOWS or info.workflow_id is None:
        return _ADDED.get({})
    thread_id = ids.archived_thread_id(info.workflow_id) or info.workflow_id
    fields = {"thread_id": thread_id, **_ADDED.get({}), **_of_work(info.activity_id)}
    return fields if info.attempt == 1 else {**fields, "attempt": info.attempt}


def _of_work(activity_id: str) -> Fields:
    """The step and the call that an activity's id names."""
    match ids.parse_work(activity_id):
        case ids.Infer(step=step):
            return {"step": step}
        case ids.CallTool(call_id=call_id):
            asking = ids.parse_work(ids.asking_inference(call_id) or "")
            return {"step": asking.step, "call_id": call_id} if isinstance(asking, ids.Infer) else {"call_id": call_id}
        case _:
            return {}


def _of_trace() -> Fields:
    """The current span of OpenTelemetry, if the program uses that."""
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry.trace import format_span_id, format_trace_id, get_current_span

    context = get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": format_trace_id(context.trace_id), "span_id": format_span_id(context.span_id)}
