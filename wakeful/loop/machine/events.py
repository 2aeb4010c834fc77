"""The events and refusals that several moves of the loop report in the same words."""

import json

from pydantic import JsonValue

from wakeful.contract.decisions import Refusal
from wakeful.contract.events import (
    AgentEvent,
    FinishSummary,
    InferenceComplete,
    ReasoningDelta,
    RunFinish,
    RunStart,
    SignalRefused,
    StateSnapshot,
    StepEnd,
    StreamReset,
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStart,
)
from wakeful.contract.inference import ModelResponse, RecoveryPlan
from wakeful.contract.names import AWAITING_TASKS
from wakeful.contract.runs import RunStatus, Suspended, Termination, status_reason
from wakeful.contract.tools import ToolResult, ToolStatus
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.stages import AwaitingTasks
from wakeful.loop.machine.state import Advance, RunState

KEPT_REFUSALS = 20


def run_start(state: RunState) -> RunStart:
    identity = state.identity
    return RunStart(
        thread_id=identity.thread_id, run_id=identity.run_id, parent_run_id=identity.parent_run_id, identity=identity
    )


def run_finish(state: RunState, termination: Termination) -> RunFinish:
    """The end of an activation: a pause (for decisions or tasks) or the end of the run."""
    awaits_tasks = isinstance(state.stage, AwaitingTasks)
    paused = isinstance(termination, Suspended) or awaits_tasks
    summary = FinishSummary(
        response=state.response,
        status=RunStatus.WAITING if paused else RunStatus.DONE,
        status_reason=AWAITING_TASKS if awaits_tasks else status_reason(termination),
    )
    identity = state.identity
    return RunFinish(
        thread_id=identity.thread_id,
        run_id=identity.run_id,
        identity=identity,
        result=summary,
        termination=termination,
    )


def end_step(state: RunState) -> Advance:
    """Close the step if one is open: every step that was started is ended once."""
    if not state.step_open:
        return Advance(state)
    closed = replace(state, step_open=False)
    return shown(closed).emitting(StepEnd())


def leave_point(state: RunState) -> Advance:
    """All of the step is part of the conversation now, and nothing more: a fork can go on from here."""
    return Advance(state, points=(state.point,))


def shown(state: RunState) -> Advance:
    """Show watchers the state if it has changed since they saw it."""
    values = state.values
    if values.revision == values.shown:
        return Advance(state)
    snapshot: JsonValue = {"revision": values.revision, "extensions": dict(values.view.values)}
    seen = replace(state, values=replace(values, shown=values.revision))
    return Advance(seen, events=(StateSnapshot(snapshot=snapshot),))


def heard(response: ModelResponse, *, duration_ms: int) -> tuple[AgentEvent, ...]:
    """An answer as watchers see it: where it broke off, its thoughts, its words and its calls."""
    events = _interrupted(response)
    if reasoning := response.reasoning or "".join(block.thinking for block in response.thinking):
        events.append(ReasoningDelta(delta=reasoning))
    if response.text:
        events.append(TextDelta(delta=response.text))
    for call in response.tool_calls:
        events.append(ToolCallStart(id=call.id, name=call.name))
        written = json.dumps(call.arguments, separators=(",", ":"), ensure_ascii=False)
        events.append(ToolCallDelta(id=call.id, args_delta=written))
        events.append(ToolCallReady(id=call.id, name=call.name, arguments=call.arguments))
    events.append(InferenceComplete(model=response.model, usage=response.usage, duration_ms=duration_ms))
    return tuple(events)


def _interrupted(response: ModelResponse) -> list[AgentEvent]:
    """Whoever watched the answer come has to forget the calls that were dropped, and what was begun anew."""
    events: list[AgentEvent] = []
    for broken in response.interruptions:
        if broken.call_id is not None:
            events.append(ToolCallCancel(id=broken.call_id, name=broken.call_name or "", reason=broken.cause))
        if broken.plan is RecoveryPlan.RESTART:
            events.append(StreamReset(reason=broken.cause))
    return events


def refuse(state: RunState, signal: str, reason: str, *, now: int) -> Advance:
    """Remember what was refused and why; nothing else changes."""
    refusal = Refusal(signal=signal, reason=reason, at=now)
    kept = (*state.refusals, refusal)[-KEPT_REFUSALS:]
    return Advance(replace(state, refusals=kept), events=(SignalRefused(signal=signal, reason=reason),))


def next_message_id(state: RunState) -> str:
    return f"{state.identity.run_id}:{state.transcript.length + 1}"


def resumed_payload(result: ToolResult) -> JsonValue:
    """A resumed call's result as its event carries it."""
    if result.status is ToolStatus.ERROR:
        return {"error": result.message} if result.message is not None else result.data
    return {"data": result.data, "metadata": result.metadata} if result.metadata else result.data
