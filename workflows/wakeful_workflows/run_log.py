"""The log of a thread: one line for each change in the life of a run, and none during a replay.

No line has a message, an argument, a result or a reason that a model or a person wrote.
"""

import logging
from collections.abc import Iterator

from temporalio import workflow

from wakeful.contract.decisions import DecisionAction
from wakeful.contract.events import (
    DecisionOverdue,
    Handoff,
    RunFinish,
    RunStart,
    SignalRefused,
    TaskChanged,
    ToolCallDone,
    ToolCallOutcome,
    ToolCallResumed,
)
from wakeful.contract.runs import RunResult, Suspended, outcome_of, reason_code
from wakeful.loop.calls.batch import ResumingCall, RunningCall, SuspendedCall
from wakeful.loop.machine.state import Advance, Thread

Line = tuple[int, str, dict[str, object]]
"""The level, the message and the fields."""


def _logger() -> workflow.LoggerAdapter:
    logger = workflow.LoggerAdapter(logging.getLogger("wakeful"), None)
    logger.workflow_info_on_message = logger.workflow_info_on_extra = False  # `log_fields` of the workflow says more
    return logger


logger = _logger()
"""For every line of a workflow: it is silent during replay."""


def log_changes(before: Thread | None, made: Advance, *, now: int) -> None:
    """Log what a fact has changed in the life of the run."""
    if not logger.isEnabledFor(logging.INFO):
        return
    for level, message, fields in (*_decided(before, made, now), *_events(made)):
        logger.log(level, message, extra=fields)


def log_end(result: RunResult) -> None:
    """Log how a run ended; the next one may have begun in the same workflow task."""
    fields: dict[str, object] = {
        "outcome": outcome_of(result.termination),
        "reason": reason_code(result.termination),
        "steps": result.steps,
        "tokens": result.usage.total_tokens or 0,
    }
    if result.usage.cost is not None:
        fields["cost"] = result.usage.cost
    about = {"thread_id": result.thread_id, "run_id": result.run_id, "agent_id": result.agent_id}
    logger.info("run ended", extra=fields | about)


def _events(made: Advance) -> Iterator[Line]:
    for event in made.events:
        match event:
            case RunStart(message_ids=ids, identity=identity) if ids:
                parent = identity.parent_thread_id if identity else None
                yield logging.INFO, "run started", {"messages": len(ids)} | ({"parent": parent} if parent else {})
            case ToolCallDone(id=call_id, outcome=ToolCallOutcome.SUSPENDED, result=result):
                yield logging.INFO, "call suspended", {"tool": result.tool_name, "call_id": call_id}
            case DecisionOverdue(call_id=call_id, tool_name=tool, waited_ms=waited):
                fields: dict[str, object] = {"tool": tool, "waited_seconds": waited // 1000, "call_id": call_id}
                yield logging.WARNING, "decision overdue", fields
            case RunFinish(termination=Suspended(), result=summary) if not _suspended(made.thread):
                yield logging.INFO, "run waits", {"for": summary.status_reason if summary else None}
            case Handoff(from_agent=giver, to_agent=taker):
                yield logging.INFO, "run handed off", {"from_agent": giver, "to_agent": taker}
            case TaskChanged(task=task):
                fields = {"task": task.task_id, "status": task.status.value}
                yield logging.INFO, "task ended" if task.status.is_terminal else "task started", fields
            case SignalRefused(signal=signal):
                yield logging.INFO, "signal refused", {"signal": signal}
            case _:
                pass


def _decided(before: Thread | None, made: Advance, now: int) -> Iterator[Line]:
    """The calls that were suspended and that a decision, or a deadline, has resumed or cancelled."""
    finished = {event.target_id: event for event in made.events if isinstance(event, ToolCallResumed)}
    batch = made.thread.batch
    for call in _suspended(before):
        action: str | None = None
        actor: str | None = None
        match batch.find(call.call.id) if batch else None:
            case RunningCall(resume=resume) | ResumingCall(resume=resume) if resume is not None:
                action, actor = resume.action.value, resume.actor
            case SuspendedCall():
                pass
            case _ if call.call.id in finished:
                succeeded = finished[call.call.id].outcome is ToolCallOutcome.SUCCEEDED
                action = (DecisionAction.RESUME if succeeded else DecisionAction.CANCEL).value
            case _:
                pass
        if action is not None:
            fields: dict[str, object] = {"tool": call.call.name, "action": action}
            waited = {"waited_seconds": max(0, now - call.since) // 1000, "call_id": call.call.id}
            yield logging.INFO, "call decided", fields | ({"actor": actor} if actor else {}) | waited


def _suspended(thread: Thread | None) -> tuple[SuspendedCall, ...]:
    return thread.batch.suspended if thread is not None and thread.batch is not None else ()
