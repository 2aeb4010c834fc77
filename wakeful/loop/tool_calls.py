"""The calls of one step: start them in their mode, and settle, suspend or lose each one."""

from wakeful.contract.agents import ToolMode
from wakeful.contract.decisions import ResumeMode, Suspension, SuspensionTicket
from wakeful.contract.inference import ModelResponse
from wakeful.contract.messages import ToolCall
from wakeful.contract.names import TOOL_INTERRUPTED
from wakeful.contract.runs import Suspended, ToolCallStatus
from wakeful.contract.tools import ToolResult, ToolStatus
from wakeful.loop.batch import batch_of, commit, done, ended, move, running_call, settle_lost, settled
from wakeful.loop.commands import CallTool
from wakeful.loop.facts import ToolReturned
from wakeful.loop.notes import noting, on_calls
from wakeful.loop.reports import end_step, run_finish
from wakeful.loop.state import (
    REMEMBERED,
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
from wakeful.loop.values import replace


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
    return moved.then(commit).then(_note_what_was_not_called, batch.response).then(end_step).then(next_step, now=now)


def _note_what_was_not_called(state: RunState, response: ModelResponse) -> Advance:
    return Advance(noting(state, *on_calls(response)) if state.revision >= 2 else state)


def returned(state: RunState, fact: ToolReturned, *, now: int) -> Advance:
    """A tool gave its result, or asked to be suspended."""
    call, result = running_call(state, fact.id), fact.outcome.result
    if result.status is ToolStatus.PENDING:
        plain = Suspension(id="", action=f"tool:{call.call.name}", message=result.message)
        ticket = result.suspension or SuspensionTicket(suspension=plain, pending=call.call)
        return _suspend(state, call, ticket, result, now=now).then(go_on, now=now)
    return move(state, settled(call, result), ended(call, result)).then(go_on, now=now)


def lost(state: RunState, id: str, reason: str, *, now: int) -> Advance:
    """The tool's worker was lost and the call may not run again: the model is told, and decides."""
    return settle_lost(state, running_call(state, id), reason).then(go_on, now=now)


def run(state: RunState, call: RunningCall) -> Advance:
    return replace(move(state, call), commands=(call_command(state, call),))


def call_command(state: RunState, call: RunningCall) -> CallTool:
    """Run a call's tool, with the arguments that its decision, if it had one, makes of it."""
    tool, asked = state.tool(call.call.name), call.call
    assert tool is not None  # only a known tool runs
    if call.resume and call.ticket and call.ticket.resume_mode is ResumeMode.PASS_DECISION_TO_TOOL:
        asked = asked.model_copy(update={"arguments": call.resume.result})
    return CallTool(id=call.id, tool=tool, call=asked, resume=call.resume, ticket=call.ticket)


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
        ticket = _frontend_ticket(call)
        return _suspend(state, new, ticket, ToolResult.suspended(call.name, ticket), now=now)
    return run(state, RunningCall(call, id=f"tool-{call.id}"))


def _settle_unstarted(state: RunState, call: ToolCall, message: str) -> Advance:
    result = ToolResult.error(call.name, message)
    return move(state, SettledCall(call, ToolCallStatus.FAILED, result), done(call, result))


def _pause(state: RunState) -> Advance:
    ended_step = end_step(state)
    waiting = ended_step.state.entering(AwaitingDecisions(batch_of(state)))
    return replace(ended_step, state=waiting).emitting(run_finish(waiting, Suspended()))


def _frontend_ticket(call: ToolCall) -> SuspensionTicket:
    suspension = Suspension(id="", action=f"tool:{call.name}", parameters=call.arguments)
    return SuspensionTicket(suspension=suspension, pending=call, resume_mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT)


def _suspend(
    state: RunState, call: NewCall | RunningCall, ticket: SuspensionTicket, result: ToolResult, *, now: int
) -> Advance:
    """Suspend a call under an id that names it alone and for ever, whatever ids the tool and the model chose."""
    taken = {*state.suspensions, *(other.call.id for other in batch_of(state).calls)}
    id = ticket.suspension.id or f"suspend_{call.call.id}"
    while id in taken:
        id = f"{id}:{call.call.id}"
    named = ticket.model_copy(update={"suspension": ticket.suspension.model_copy(update={"id": id})})
    grants = call.grants if isinstance(call, RunningCall) else 0
    suspended = SuspendedCall(call.call, named, since=now, grants=grants)
    state = replace(state, suspensions=(*state.suspensions, id)[-REMEMBERED:])
    return move(state, suspended, done(call.call, result.model_copy(update={"suspension": named})))
