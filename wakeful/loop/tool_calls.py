"""The calls of one step: start them in their mode, and settle, suspend or lose each one."""

from dataclasses import replace

from wakeful.contract.agents import ToolMode
from wakeful.contract.decisions import ResumeMode, Suspension, SuspensionTicket
from wakeful.contract.inference import ModelResponse
from wakeful.contract.messages import ToolCall
from wakeful.contract.names import OUTCOME_UNKNOWN, TOOL_INTERRUPTED
from wakeful.contract.runs import Suspended, ToolCallStatus
from wakeful.contract.tools import ToolResult, ToolStatus
from wakeful.loop.batch import batch_of, commit, done, ended, move, running_call, settled
from wakeful.loop.commands import CallTool
from wakeful.loop.facts import ToolReturned
from wakeful.loop.reports import end_step, run_finish
from wakeful.loop.state import (
    Advance,
    AwaitingDecisions,
    Batch,
    CallingTools,
    Inferring,
    NewCall,
    RunningCall,
    RunState,
    SettledCall,
    SuspendedCall,
)
from wakeful.loop.steps import next_step


def begin_batch(state: RunState, inferring: Inferring, response: ModelResponse, *, now: int) -> Advance:
    calls = tuple(NewCall(call) for call in response.tool_calls)
    batch = Batch(inference_id=inferring.id, message_id=inferring.message_id, response=response, calls=calls)
    return Advance(state.entering(CallingTools(batch))).then(go_on, now=now)


def go_on(state: RunState, *, now: int) -> Advance:
    """Start what may start now; when nothing runs any more, pause for decisions or end the round."""
    moved = Advance(state)
    while (call := _next_to_start(moved.state)) is not None:
        moved = moved.then(_start, call, now=now)
    batch = batch_of(moved.state)
    if batch.running:
        return moved
    if batch.suspended:
        return moved.then(_pause)
    return moved.then(commit).then(end_step).then(next_step, now=now)


def returned(state: RunState, fact: ToolReturned, *, now: int) -> Advance:
    """A tool gave its result, or asked to be suspended."""
    call, result = running_call(state, fact.id), fact.outcome.result
    if result.status is ToolStatus.PENDING:
        ticket = _ticket(batch_of(state), call.call, result)
        suspended = SuspendedCall(call.call, ticket, since=now, grants=call.grants)
        return move(state, suspended, done(suspended.call, result)).then(go_on, now=now)
    return move(state, settled(call, result), ended(call, result)).then(go_on, now=now)


def lost(state: RunState, id: str, reason: str, *, now: int) -> Advance:
    """The tool's worker was lost and the call may not run again: the model is told, and decides."""
    call = running_call(state, id)
    message = (
        f"{OUTCOME_UNKNOWN}: {reason}. Whether {call.call.name!r} took effect is not known; check before retrying."
    )
    result = ToolResult.error(call.call.name, message)
    return move(state, replace(settled(call, result), source=None), ended(call, result)).then(go_on, now=now)


def _next_to_start(state: RunState) -> NewCall | None:
    batch = batch_of(state)
    if not batch.new or (state.agent.tool_mode is ToolMode.SEQUENTIAL and batch.running):
        return None
    return batch.new[0]


def _start(state: RunState, new: NewCall, *, now: int) -> Advance:
    call, batch = new.call, batch_of(state)
    if state.agent.tool_mode is ToolMode.SEQUENTIAL and batch.suspended:
        return _settle_unstarted(state, call, TOOL_INTERRUPTED)
    tool = state.tool(call.name)
    if tool is None:
        return _settle_unstarted(state, call, f"tool '{call.name}' not found")
    if tool.frontend:
        ticket = _frontend_ticket(batch, call)
        result = ToolResult.suspended(call.name, ticket)
        return move(state, SuspendedCall(call, ticket, since=now), done(call, result))
    running = RunningCall(call, id=f"tool-{call.id}")
    moved = move(state, running)
    return replace(moved, commands=(CallTool(id=running.id, tool=tool, call=call),))


def _settle_unstarted(state: RunState, call: ToolCall, message: str) -> Advance:
    result = ToolResult.error(call.name, message)
    return move(state, SettledCall(call, ToolCallStatus.FAILED, result), done(call, result))


def _pause(state: RunState) -> Advance:
    ended_step = end_step(state)
    waiting = ended_step.state.entering(AwaitingDecisions(batch_of(state)))
    return replace(ended_step, state=waiting).emitting(run_finish(waiting, Suspended()))


def _frontend_ticket(batch: Batch, call: ToolCall) -> SuspensionTicket:
    suspension = Suspension(id=f"suspend_{call.id}", action=f"tool:{call.name}", parameters=call.arguments)
    ticket = SuspensionTicket(suspension=suspension, pending=call, resume_mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT)
    return _naming_one_call(batch, call, ticket)


def _ticket(batch: Batch, call: ToolCall, result: ToolResult) -> SuspensionTicket:
    """The tool's own ticket, or a plain one."""
    plain = Suspension(id="", action=f"tool:{call.name}", message=result.message)
    return _naming_one_call(batch, call, result.suspension or SuspensionTicket(suspension=plain, pending=call))


def _naming_one_call(batch: Batch, call: ToolCall, ticket: SuspensionTicket) -> SuspensionTicket:
    """The ticket with a suspension id that names this call alone, whatever ids the tool and the model chose."""
    taken = {other.ticket.suspension.id for other in batch.suspended} | {other.call.id for other in batch.calls}
    id = ticket.suspension.id or f"suspend_{call.id}"
    while id in taken:
        id = f"{id}:{call.id}"
    return ticket.model_copy(update={"suspension": ticket.suspension.model_copy(update={"id": id})})
