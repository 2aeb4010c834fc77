"""How a run ends: at once, or, when it is cancelled, after everything in flight has stopped."""

from dataclasses import replace

from wakeful.contract.events import ToolCallCancel
from wakeful.contract.names import SIGNAL_DECIDE, TOOL_INTERRUPTED
from wakeful.contract.runs import Cancelled, RunResult, Termination, ToolCallStatus, status_reason
from wakeful.contract.tools import ToolResult, ToolStatus
from wakeful.loop import batch as calls
from wakeful.loop.commands import Stop
from wakeful.loop.facts import InferenceReturned, ToolReturned, WorkFact
from wakeful.loop.reports import end_step, refuse, run_finish, run_start
from wakeful.loop.state import Advance, AwaitingDecisions, Cancelling, Done, RunState, SettledCall


def finish(state: RunState, termination: Termination, *, now: int, detail: str | None = None) -> Advance:
    """End the run: its calls are settled, its step is closed, and the one result there will ever be is made."""
    commands = tuple(Stop(id) for id in sorted(state.in_flight))
    woken = (run_start(state),) if isinstance(state.stage, AwaitingDecisions) else ()
    moved = Advance(state, commands, woken).then(_settle_the_rest).then(end_step)
    for _ in state.held:
        moved = moved.then(refuse, SIGNAL_DECIDE, "the run has ended", now=now)
    moved = replace(moved, state=replace(moved.state, held=()))
    ended = moved.state
    result = RunResult(
        thread_id=ended.identity.thread_id,
        run_id=ended.identity.run_id,
        agent_id=ended.identity.agent_id,
        status_reason=status_reason(termination),
        termination=termination,
        response=ended.response,
        detail=detail,
        steps=ended.steps,
        usage=ended.usage,
        unread=tuple(submitted.message.id for submitted in ended.queued),
    )
    done = ended.entering(Done(result))
    return replace(moved, state=done).emitting(run_finish(done, termination))


def cancel(state: RunState, reason: str | None, *, now: int) -> Advance:
    """Tell everything in flight to stop; the run ends when it has. Cancelling twice changes nothing."""
    if isinstance(state.stage, Cancelling):
        return Advance(state)
    if not state.in_flight:
        return finish(state, Cancelled(), now=now, detail=reason)
    cancelling = Cancelling(in_flight=state.in_flight, batch=state.batch, reason=reason)
    return Advance(state.entering(cancelling), tuple(Stop(id) for id in sorted(state.in_flight)))


def wound_down(state: RunState, cancelling: Cancelling, fact: WorkFact, *, now: int) -> Advance:
    """Something in flight came back. What a tool finished counts; what the model said in vain does not."""
    left = replace(cancelling, in_flight=cancelling.in_flight - {fact.id})
    state = replace(state, stage=left)
    moved = Advance(state)
    match fact:
        case ToolReturned(id=id, outcome=outcome) if state.batch and outcome.result.status is not ToolStatus.PENDING:
            call = calls.running_call(state, id)
            moved = calls.move(state, calls.settled(call, outcome.result), calls.ended(call, outcome.result))
        case InferenceReturned(response=response):
            moved = Advance(replace(state, usage=state.usage.plus(response.usage)))
        case _:
            pass
    return moved if left.in_flight else moved.then(finish, Cancelled(), now=now, detail=cancelling.reason)


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
