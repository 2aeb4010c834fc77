"""Move the calls of a step through their lifecycle, and commit the step to the transcript when all are finished."""

from itertools import takewhile

from wakeful.contract import ids
from wakeful.contract.applied_decisions import AppliedDecision
from wakeful.contract.base import json_bytes, replace
from wakeful.contract.events import AgentEvent, ToolCallDecided
from wakeful.contract.files import FileRef, files_of
from wakeful.contract.hooks import HookEffects
from wakeful.contract.messages import MessageMetadata, ToolCall
from wakeful.contract.runs import ToolCallStatus
from wakeful.contract.tools import ToolResult, outcome_unknown
from wakeful.contract.transcript import assistant_message, tool_message
from wakeful.loop.calls.batch import (
    INLINE_LENGTH,
    Batch,
    Call,
    FinishedCall,
    RunningCall,
    Unfinished,
    blocked,
    finish_event,
    finished,
)
from wakeful.loop.machine import revisions
from wakeful.loop.machine.events import next_message_id
from wakeful.loop.machine.stages import AwaitingDecisions, BetweenSteps, CallingTools, Cancelling
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.step.hooks import apply_effects


def batch_of(thread: Thread) -> Batch:
    batch = thread.batch
    assert batch is not None  # only asked between the first call of a step and its commit
    return batch


def running_call(thread: Thread, id: str) -> RunningCall:
    return next(call for call in batch_of(thread).running if call.id == id)


def move(thread: Thread, call: Call, *events: AgentEvent) -> Advance:
    """Put one call into its next state."""
    return Advance(_with_batch(thread, batch_of(thread).with_call(call)), events=events)


def record_decision(
    thread: Thread, call: ToolCall, applied: AppliedDecision, *, suspension_id: str | None = None
) -> Advance:
    """Emit who decided a call, and keep that for the message with its result."""
    if thread.current.revision < revisions.DECISIONS_ARE_EVENTS:
        return Advance(thread)
    batch = batch_of(thread)
    of_call = (*batch.decisions_of(call.id), applied.as_shown)
    event = ToolCallDecided(call_id=call.id, tool_name=call.name, suspension_id=suspension_id, decision=applied)
    return Advance(_with_batch(thread, replace(batch, decided={**batch.decided, call.id: of_call})), events=(event,))


def finish_with(thread: Thread, call: Unfinished, after: FinishedCall) -> Advance:
    """Put a call into its final state, and emit that."""
    event = finish_event(call, after.result, message_id=result_message_id(thread, call.call.id))
    return move(thread, after, event)


def finish_call(thread: Thread, call: Unfinished, result: ToolResult) -> Advance:
    """Finish a call with a result."""
    return _finish(thread, call, finished(call, result))


def finish_blocked(
    thread: Thread,
    call: Unfinished,
    reason: str,
    result: ToolResult | None = None,
    effects: HookEffects | None = None,
) -> Advance:
    """Finish a call that rules or a gate do not allow; `result` is what hooks made of its error."""
    after = blocked(call, reason, result)
    return _finish(thread, call, replace(after, effects=effects))


def _finish(thread: Thread, call: Unfinished, after: FinishedCall) -> Advance:
    if after.source is None:
        after = replace(after, result=within_room(thread, after.result))
    return finish_with(thread, call, after)


def within_room(thread: Thread, result: ToolResult) -> ToolResult:
    """The result of a call that the loop itself finishes: it is cut if those of the step become too long together."""
    if (size := json_bytes(result.text)) <= INLINE_LENGTH or size <= (room := batch_of(thread).inline_room):
        return result
    return result.cut_to(max(INLINE_LENGTH, room))


def finish_failed(thread: Thread, call: RunningCall, error: str, *, is_result: bool) -> Advance:
    """Finish a call that has no result in history: with the error of its tool, or because its outcome is unknown."""
    message = error if is_result else outcome_unknown(call.call.name, error)
    result = within_room(thread, ToolResult.error(call.call.name, message))
    return finish_with(thread, call, replace(finished(call, result), source=None))


def apply_effects_in_order(thread: Thread) -> Advance:
    """Apply the effects of calls in the model's order: up to the first call that is not finished."""
    batch, moved = batch_of(thread), Advance(thread)
    ready = tuple(takewhile(lambda call: isinstance(call, FinishedCall), batch.calls[batch.effects_applied :]))
    if not ready:
        return moved
    for call in ready:
        assert isinstance(call, FinishedCall)
        if call.effects is not None:
            moved = moved.then(apply_effects, call.effects, source=call.call.id)
    return replace(
        moved, thread=_with_batch(moved.thread, replace(batch, effects_applied=batch.effects_applied + len(ready)))
    )


def result_message_id(thread: Thread, call_id: str) -> str:
    """The id of the message that the result of a call gets when the step is committed: after the answer, in order."""
    position = thread.transcript.length + 2 + batch_of(thread).position(call_id)
    return ids.message_id(thread.identity.run_id, position)


def commit(thread: Thread) -> Advance:
    """Append the model's answer and exactly one result per call, in call order, to the transcript."""
    moved = apply_effects_in_order(thread)
    thread = moved.thread
    batch, run = batch_of(thread), thread.current
    metadata = MessageMetadata(run_id=thread.identity.run_id, step_index=run.step.number)
    answer = assistant_message(batch.response, id=batch.message_id, metadata=metadata)
    thread = replace(thread, transcript=thread.transcript.appending(answer, batch.inference_id or answer))
    files = list[FileRef]()
    for call in batch.calls:
        assert isinstance(call, FinishedCall)  # a step is committed when nothing in it can change any more
        bare = tool_message(call.call.id, call.result, id=next_message_id(thread), metadata=metadata)
        message = bare.model_copy(update={"decisions": batch.decisions_of(call.call.id)})
        thread = replace(thread, transcript=thread.transcript.appending(message, call.source or bare))
        files += files_of(message, thread_id=thread.identity.thread_id, tool=call.call.name)
    # A call that a person cancelled has not failed.
    step = run.step.with_round(has_failed=all(call.status is ToolCallStatus.FAILED for call in batch.calls))
    run = replace(run, step=step, response=batch.response.text or run.response)
    return replace(moved, thread=thread.with_run(run.with_files(*files)).entering(BetweenSteps()))


def _with_batch(thread: Thread, batch: Batch) -> Thread:
    stage = thread.stage
    assert isinstance(stage, CallingTools | AwaitingDecisions | Cancelling)  # the stages that have calls
    return thread.entering(replace(stage, batch=batch))
