"""Events and refusals that several moves of the loop emit in the same form."""

import json
from itertools import takewhile

from pydantic import JsonValue

from wakeful.contract import ids
from wakeful.contract.base import json_bytes, replace
from wakeful.contract.decisions import Refusal
from wakeful.contract.events import (
    AgentEvent,
    FinishSummary,
    InferenceComplete,
    MailArrived,
    ReasoningDelta,
    ReasoningEncryptedValue,
    RunFinish,
    RunStart,
    SignalRefused,
    StateDelta,
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
from wakeful.contract.limits import NAME_LENGTH, cut
from wakeful.contract.messages import Message, MessageMetadata, Role
from wakeful.contract.names import AWAITING_TASKS, PENDING_WORK
from wakeful.contract.runs import NO_USAGE, RunResult, RunStatus, Termination, status_reason
from wakeful.loop.machine.stages import AwaitingTasks
from wakeful.loop.machine.state import Advance, Thread

KEPT_REFUSALS = 20


def run_start(thread: Thread, *message_ids: str) -> RunStart:
    """The run starts with these messages, or continues after a pause."""
    identity = thread.identity
    return RunStart(
        thread_id=identity.thread_id,
        run_id=identity.run_id,
        parent_run_id=identity.parent_run_id,
        identity=identity,
        message_ids=message_ids,
    )


def run_pause(thread: Thread, termination: Termination) -> RunFinish:
    """The run pauses, for decisions, tasks or pending work."""
    reason = status_reason(termination)
    if isinstance(thread.stage, AwaitingTasks):
        reason = AWAITING_TASKS if thread.children.running else PENDING_WORK
    summary = _summary(thread, RunStatus.WAITING, reason)
    return _run_finish(thread, termination, summary)


def run_finish(thread: Thread, result: RunResult, *, rolled_back: bool = False) -> RunFinish:
    """The run ends with this result."""
    summary = _summary(thread, RunStatus.DONE, result.status_reason)
    told = {name: getattr(result, name) for name in ("detail", "output", "artifacts", "tool_files", "unread")}
    summary = summary.model_copy(update=told)
    return _run_finish(thread, result.termination, summary, rolled_back=rolled_back)


def _summary(thread: Thread, status: RunStatus, reason: str) -> FinishSummary:
    run = thread.current
    usage = None if run.usage == NO_USAGE else run.usage
    return FinishSummary(response=run.response, status=status, status_reason=reason, usage=usage)


def _run_finish(
    thread: Thread, termination: Termination, summary: FinishSummary, *, rolled_back: bool = False
) -> RunFinish:
    identity = thread.identity
    return RunFinish(
        thread_id=identity.thread_id,
        run_id=identity.run_id,
        identity=identity,
        result=summary,
        termination=termination,
        rolled_back=rolled_back,
    )


def mail_arrived(message: Message) -> MailArrived:
    return MailArrived(message_id=message.id, text=message.text)


def end_step(thread: Thread) -> Advance:
    """Emit the end of the open step, if there is one; every step that started ends once."""
    step = thread.current.step
    if not step.is_open:
        return Advance(thread)
    closed = emit_state(thread.with_step(replace(step, is_open=False)))
    return closed.emitting(StepEnd(discarded=not _has_answer(thread)))


def _has_answer(thread: Thread) -> bool:
    """Whether the conversation has the answer of the current step, or will have it with the results of its calls."""
    if thread.batch is not None:
        return True
    metadata = MessageMetadata(run_id=thread.identity.run_id, step_index=thread.current.step.number)
    of_step = takewhile(lambda message: message.metadata == metadata, reversed(thread.transcript.messages))
    return any(message.role is Role.ASSISTANT for message in of_step)


def record_fork_point(thread: Thread) -> Advance:
    """The conversation has all of the step and nothing more: a fork can continue from here."""
    return Advance(thread, fork_points=(thread.fork_point,))


def emit_state(thread: Thread) -> Advance:
    """Emit the agent state if it has changed since it was last emitted: all of it, or the changes if those are less."""
    state = thread.agent_state
    if state.revision == state.emitted:
        return Advance(thread)
    snapshot: JsonValue = {"revision": state.revision, "extensions": dict(state.view.values)}
    emitted = replace(thread, agent_state=replace(state, emitted=state.revision, changed={}))
    is_less = state.changed is not None and json_bytes(state.delta) < json_bytes(snapshot)
    event = StateDelta(delta=state.delta) if is_less else StateSnapshot(snapshot=snapshot)
    return Advance(emitted, events=(event,))


def answer_events(response: ModelResponse, *, duration_ms: int) -> tuple[AgentEvent, ...]:
    """An answer as watchers see it: interruptions, reasoning, text and calls."""
    events = _interruption_events(response)
    if reasoning := response.reasoning or "".join(block.thinking for block in response.thinking):
        events.append(ReasoningDelta(delta=reasoning))
    signatures = (block.signature for block in response.thinking if block.signature is not None)
    events += (ReasoningEncryptedValue(encrypted_value=signature) for signature in signatures)
    if response.text:
        events.append(TextDelta(delta=response.text))
    for call in response.tool_calls:
        events.append(ToolCallStart(id=call.id, name=call.name))
        arguments = json.dumps(call.arguments, separators=(",", ":"), ensure_ascii=False)
        events.append(ToolCallDelta(id=call.id, args_delta=arguments))
        events.append(ToolCallReady(id=call.id, name=call.name, arguments=call.arguments))
    events.append(InferenceComplete(model=response.model, usage=response.usage, duration_ms=duration_ms))
    return tuple(events)


def _interruption_events(response: ModelResponse) -> list[AgentEvent]:
    """Watchers of the live answer have to drop incomplete calls, and text that was started over."""
    events: list[AgentEvent] = []
    for interruption in response.interruptions:
        if interruption.call_id is not None:
            name = interruption.call_name or ""
            events.append(ToolCallCancel(id=interruption.call_id, name=name, reason=interruption.cause))
        if interruption.plan is RecoveryPlan.RESTART:
            events.append(StreamReset(reason=interruption.cause))
    return events


def refuse(thread: Thread, signal: str, *reasons: str, now: int) -> Advance:
    """Record that a signal was rejected, or parts of it, and why; nothing else changes."""
    signal, reasons = cut(signal, NAME_LENGTH), tuple(map(cut, reasons))  # a client can make both as long as it likes
    newest = (Refusal(signal=signal, reason=reason, at=now) for reason in reasons[-KEPT_REFUSALS:])
    kept = (*thread.refusals, *newest)[-KEPT_REFUSALS:]
    events = tuple(SignalRefused(signal=signal, reason=reason) for reason in reasons)
    return Advance(replace(thread, refusals=kept), events=events)


def next_message_id(thread: Thread) -> str:
    return ids.message_id(thread.identity.run_id, thread.transcript.length + 1)
