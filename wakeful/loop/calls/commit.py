"""The calls of one step as a value: find one, move one along its lifecycle, and commit them when all are settled."""

from itertools import takewhile

from wakeful.contract.events import AgentEvent, ToolCallDone, ToolCallOutcome, ToolCallResumed
from wakeful.contract.hooks import HookEffects
from wakeful.contract.messages import MessageMetadata, ToolCall
from wakeful.contract.runs import ToolCallStatus
from wakeful.contract.tools import ToolResult, ToolStatus, outcome_unknown
from wakeful.contract.transcript import assistant_message, tool_message
from wakeful.loop.calls.batch import Batch, Call, NewCall, ResumingCall, RunningCall, SettledCall
from wakeful.loop.machine.events import next_message_id, resumed_payload
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.stages import AwaitingDecisions, BetweenSteps, CallingTools, Cancelling
from wakeful.loop.machine.state import Advance, RunState
from wakeful.loop.step.hooks import fold
from wakeful.loop.step.stopping import failed_rounds_after

INLINE_LENGTH = 2_000
"""Characters of a result that goes along with the transcript rather than being looked up in history."""


def batch_of(state: RunState) -> Batch:
    batch = state.batch
    assert batch is not None  # only asked between the first call of a step and its commit
    return batch


def running_call(state: RunState, id: str) -> RunningCall:
    return next(call for call in batch_of(state).running if call.id == id)


def move(state: RunState, call: Call, *events: AgentEvent) -> Advance:
    """Move one call along its lifecycle."""
    stage = state.stage
    assert isinstance(stage, CallingTools | AwaitingDecisions | Cancelling)  # the stages that have calls
    moved = replace(stage, batch=batch_of(state).with_call(call))
    return Advance(replace(state, stage=moved), events=events)


def settled(call: NewCall | RunningCall | ResumingCall, result: ToolResult) -> SettledCall:
    source = _source(call, result)
    if result.status is ToolStatus.SUCCESS:
        return SettledCall(call.call, ToolCallStatus.SUCCEEDED, result, source=source)
    return SettledCall(call.call, ToolCallStatus.FAILED, result, source=source)


def _source(call: NewCall | RunningCall | ResumingCall, result: ToolResult) -> str | None:
    """Where history has the result; what has no place of its own there, or is short, goes along with the transcript."""
    if not isinstance(call, RunningCall) or call.by == "runtime":
        return None
    if call.by == "activity":
        return call.id
    is_long = result.status is ToolStatus.SUCCESS and len(result.text) > INLINE_LENGTH
    return f"settled:{call.id}" if is_long else None


def answer(state: RunState, call: NewCall | RunningCall | ResumingCall, result: ToolResult) -> Advance:
    """Settle a call with what the runtime itself has to say."""
    if isinstance(call, ResumingCall):
        event: AgentEvent = ToolCallResumed(target_id=call.call.id, result=resumed_payload(result))
    else:
        event = ended(call, result) if isinstance(call, RunningCall) else done(call.call, result)
    return move(state, settled(call, result), event)


def blocked(
    call: NewCall | RunningCall, reason: str, effects: HookEffects | None = None
) -> tuple[SettledCall, AgentEvent]:
    """A call that a gate forbade, settled by the loop itself, and what watchers see of it."""
    result = ToolResult.error(call.call.name, reason)
    event = ended(call, result) if isinstance(call, RunningCall) else done(call.call, result)
    return replace(settled(call, result), source=None, effects=effects), event


def ended(call: RunningCall, result: ToolResult) -> AgentEvent:
    """A first execution is done; one that a decision let go on is resumed."""
    if call.grants:
        return ToolCallResumed(target_id=call.call.id, result=resumed_payload(result))
    return done(call.call, result)


def settle_lost(state: RunState, call: RunningCall, reason: str) -> Advance:
    """Settle a call of which nobody knows what it did."""
    name = call.call.name
    result = ToolResult.error(name, outcome_unknown(name, reason))
    return move(state, replace(settled(call, result), source=None), ended(call, result))


def done(call: ToolCall, result: ToolResult) -> ToolCallDone:
    return ToolCallDone(id=call.id, result=result, outcome=_OUTCOMES[result.status])


def fold_in_order(state: RunState) -> Advance:
    """Fold what calls asked for, in the model's order: up to the first that is not settled yet."""
    stage, moved = state.stage, Advance(state)
    assert isinstance(stage, CallingTools | AwaitingDecisions | Cancelling)  # the stages that have calls
    batch = batch_of(state)
    ready = tuple(takewhile(lambda call: isinstance(call, SettledCall), batch.calls))
    for call in ready[batch.folded :]:
        assert isinstance(call, SettledCall)
        moved = moved.then(fold, call.effects, source=call.call.id)
    counted = replace(stage, batch=replace(batch, folded=len(ready)))
    return replace(moved, state=replace(moved.state, stage=counted))


def commit(state: RunState) -> Advance:
    """Write the model's answer and exactly one result a call, in call order, into the transcript."""
    return fold_in_order(state).then(_commit)


def _commit(state: RunState) -> Advance:
    batch = batch_of(state)
    metadata = MessageMetadata(run_id=state.identity.run_id, step_index=state.steps)
    message = assistant_message(batch.response, id=batch.message_id, metadata=metadata)
    committed = replace(state, transcript=state.transcript.appending(message, batch.inference_id))
    for call in batch.calls:
        assert isinstance(call, SettledCall)  # a batch is committed when nothing in it can change any more
        message = tool_message(call.call.id, call.result, id=next_message_id(committed), metadata=metadata)
        transcript = committed.transcript.appending(message, call.source or message)
        committed = replace(committed, transcript=transcript)
    response = batch.response.text or state.response
    failed = failed_rounds_after(state, batch.calls)
    rounds = replace(committed, rounds=state.rounds + 1, response=response, failed_rounds=failed)
    return Advance(rounds.entering(BetweenSteps()))


_OUTCOMES = {
    ToolStatus.SUCCESS: ToolCallOutcome.SUCCEEDED,
    ToolStatus.PENDING: ToolCallOutcome.SUSPENDED,
    ToolStatus.ERROR: ToolCallOutcome.FAILED,
}
