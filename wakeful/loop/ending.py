"""How a run ends: at once, or, when it is cancelled, after everything in flight has stopped."""

from typing import assert_never

from wakeful.contract.events import ToolCallCancel
from wakeful.contract.names import SIGNAL_CANCEL, SIGNAL_DECIDE, TOOL_INTERRUPTED
from wakeful.contract.runs import Blocked, Cancelled, RunResult, Termination, ThreadMode, ToolCallStatus, status_reason
from wakeful.contract.tools import ToolOutcome, ToolResult, ToolStatus
from wakeful.loop import batch as calls
from wakeful.loop.calls import SettledCall
from wakeful.loop.commands import Stop
from wakeful.loop.compacting import after_rewind
from wakeful.loop.facts import InferenceReturned, ToolReturned, WorkFact, WorkFailed
from wakeful.loop.inbox import begin_next_run
from wakeful.loop.reports import end_step, heard, refuse, run_finish, run_start
from wakeful.loop.stages import Afterwards, AwaitingDecisions, Cancelling, Done, Idle, Inferring
from wakeful.loop.state import Advance, RunState
from wakeful.loop.values import replace


def finish(
    state: RunState,
    termination: Termination,
    *,
    now: int,
    detail: str | None = None,
    then: Afterwards = Afterwards.END,
) -> Advance:
    """End the run: its calls are settled, its step is closed, and the one result there will ever be is made."""
    commands = tuple(Stop(id) for id in sorted(state.in_flight))
    woken = (run_start(state),) if isinstance(state.stage, AwaitingDecisions) else ()
    moved = Advance(state, commands, woken).then(_settle_the_rest).then(end_step)
    for _ in state.held:
        moved = moved.then(refuse, SIGNAL_DECIDE, "the run has ended", now=now)
    ended = replace(moved.state, held=())
    done = ended.entering(Done(_result(ended, termination, detail=detail, then=then)))
    return replace(moved, state=done).emitting(run_finish(done, termination)).then(_afterwards, then)


def cancel(state: RunState, reason: str | None, *, now: int, then: Afterwards = Afterwards.END) -> Advance:
    """Tell everything in flight to stop; the run ends when it has. Cancelling twice changes nothing."""
    match state.stage:
        case Cancelling() as cancelling:
            further = then in (Afterwards.ROLL_BACK, Afterwards.CLOSE) and cancelling.then is not Afterwards.CLOSE
            return Advance(replace(state, stage=replace(cancelling, then=then) if further else cancelling))
        case Idle(result=result) if then is Afterwards.CLOSE:
            closed = result or _result(state, Cancelled(), detail=reason, then=then)
            return Advance(replace(state, stage=Done(closed)))
        case Idle():
            return refuse(state, SIGNAL_CANCEL, "no run is under way", now=now)
        case _ if state.in_flight:
            since = state.stage.since if isinstance(state.stage, Inferring) else now
            stopping = Cancelling(state.in_flight, batch=state.batch, reason=reason, then=then, since=since)
            return Advance(state.entering(stopping), tuple(Stop(id) for id in sorted(state.in_flight)))
        case _:
            return finish(state, Cancelled(), now=now, detail=reason, then=then)


def block(state: RunState, reason: str, *, now: int) -> Advance:
    """A gate forbade a call: stop the others that run, and end the run when they have stopped."""
    termination = Blocked(value=reason)
    if not state.in_flight:
        return finish(state, termination, now=now)
    stopping = Cancelling(state.in_flight, batch=state.batch, reason=None, termination=termination)
    return Advance(state.entering(stopping), tuple(Stop(id) for id in sorted(state.in_flight)))


def wound_down(state: RunState, cancelling: Cancelling, fact: WorkFact, *, now: int) -> Advance:
    """Something in flight came back. What a tool finished counts; what the model said in vain is only seen."""
    left = replace(cancelling, in_flight=cancelling.in_flight - {fact.id})
    state = replace(state, stage=left)
    moved = Advance(state)
    match fact:
        case ToolReturned(id=id, outcome=ToolOutcome(blocked=str(reason))) if state.batch:
            moved = calls.move(state, *calls.blocked(calls.running_call(state, id), reason))
        case ToolReturned(id=id, outcome=outcome) if state.batch and outcome.result.status is not ToolStatus.PENDING:
            call = calls.running_call(state, id)
            moved = calls.move(state, calls.settled(call, outcome.result), calls.ended(call, outcome.result))
        case WorkFailed(id=id, error=error) if state.batch:
            moved = calls.settle_lost(state, calls.running_call(state, id), error)
        case InferenceReturned(response=response):
            # Without its calls: nobody will ever answer them.
            said = response.model_copy(update={"tool_calls": ()})
            seen = heard(said, duration_ms=max(0, now - cancelling.since))
            moved = Advance(replace(state, usage=state.usage.plus(response.usage)), events=seen)
        case _:
            pass
    return (
        moved
        if left.in_flight
        else moved.then(finish, cancelling.termination, now=now, detail=cancelling.reason, then=cancelling.then)
    )


def _settle_the_rest(state: RunState) -> Advance:
    """A run that ends within a step keeps what was done: every call gets its one result and the step is committed."""
    batch = state.batch
    if batch is None:
        return Advance(state)
    moved = Advance(state)
    for call in batch.calls:
        if not isinstance(call, SettledCall):
            result = ToolResult.error(call.call.name, TOOL_INTERRUPTED)
            event = ToolCallCancel(id=call.call.id, name=call.call.name, reason="the run ended")
            moved = moved.then(calls.move, SettledCall(call.call, ToolCallStatus.CANCELLED, result), event)
    return moved.then(calls.commit)


def _result(state: RunState, termination: Termination, *, detail: str | None, then: Afterwards) -> RunResult:
    is_last = then is Afterwards.CLOSE or (then is Afterwards.END and state.mode is ThreadMode.RUN)
    unread = (*state.steering, *state.queued) if is_last else ()
    return RunResult(
        thread_id=state.identity.thread_id,
        run_id=state.identity.run_id,
        agent_id=state.identity.agent_id,
        status_reason=status_reason(termination),
        termination=termination,
        response=state.response,
        detail=detail,
        steps=state.steps,
        usage=state.usage,
        unread=tuple(submitted.message.id for submitted in unread),
        output=state.output,
    )


def _afterwards(state: RunState, then: Afterwards) -> Advance:
    """The run is over: end the workflow, wait for the next message, or go on with one that waits."""
    assert isinstance(state.stage, Done)
    match then:
        case Afterwards.CLOSE:
            return Advance(state)
        case Afterwards.ROLL_BACK:
            transcript = state.transcript.rewound(state.began)
            undone = replace(state, transcript=transcript, context=after_rewind(state.context, transcript.length))
            return begin_next_run(undone, interrupted=True)
        case Afterwards.NEXT_RUN:
            return begin_next_run(state, interrupted=True)
        case Afterwards.END if state.mode is ThreadMode.RUN:
            return Advance(state)
        case Afterwards.END if state.queued or state.steering:
            return begin_next_run(state)
        case Afterwards.END:
            return Advance(replace(state, stage=Idle(state.stage.result)))
        case _:
            assert_never(then)
