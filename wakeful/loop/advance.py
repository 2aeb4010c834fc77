"""Where every fact enters: `begin` makes a run's first state, `advance` makes each next one."""

from dataclasses import replace
from typing import assert_never

from wakeful.contract.names import SIGNAL_CANCEL, SIGNAL_DECIDE, SIGNAL_SUBMIT
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import Errored, RunIdentity
from wakeful.loop import decisions, ending, inference, tool_calls
from wakeful.loop.commands import ResolveAgent
from wakeful.loop.facts import (
    AgentResolved,
    CancelRequested,
    DecisionsReceived,
    Fact,
    InferenceReturned,
    LoopBroken,
    MessagesSubmitted,
    SignalNotUnderstood,
    ToolReturned,
    WorkFact,
    WorkFailed,
    WorkStopped,
)
from wakeful.loop.reports import refuse, run_start
from wakeful.loop.state import (
    Advance,
    BetweenSteps,
    CallingTools,
    Cancelling,
    Done,
    Inferring,
    Resolving,
    RunState,
)
from wakeful.loop.steps import next_step
from wakeful.loop.transcript import Transcript


def begin(request: RunRequest, *, thread_id: str, run_id: str) -> Advance:
    """A run's first state: its identity, its input in the transcript, and the wish to know its agent."""
    identity = RunIdentity(
        thread_id=thread_id,
        run_id=run_id,
        agent_id=request.agent_id,
        parent_thread_id=request.parent_thread_id,
        parent_run_id=request.parent_run_id,
        parent_tool_call_id=request.parent_tool_call_id,
        session_id=request.session_id,
        transport_request_id=request.transport_request_id,
        origin=request.origin,
    )
    transcript, seen = Transcript(), set[str]()
    for index, written in enumerate(request.messages):
        message = written.as_message(f"{run_id}:{index + 1}")
        if message.id not in seen:
            seen.add(message.id)
            transcript = transcript.appending(message, f"input:{index}")
    state = RunState(
        identity=identity,
        stage=Resolving(),
        transcript=transcript,
        frontend_tools=tuple(tool.descriptor() for tool in request.frontend_tools),
        seen_messages=frozenset(seen),
    )
    return Advance(state, (ResolveAgent(agent_id=request.agent_id),), (run_start(state),))


def advance(state: RunState, fact: Fact, *, now: int) -> Advance:
    """What `fact` makes of `state`. A fact that comes too late changes nothing but the list of refusals."""
    match fact:
        case AgentResolved() | InferenceReturned() | ToolReturned() | WorkFailed() | WorkStopped():
            moved = _on_work(state, fact, now=now) if fact.id in state.in_flight else Advance(state)
        case _ if isinstance(state.stage, Done):
            moved = _too_late(state, fact, now=now)
        case DecisionsReceived(decisions=batch):
            moved = Advance(replace(state, held=(*state.held, batch)))
        case MessagesSubmitted():
            moved = _on_messages(state, fact)
        case CancelRequested(reason=reason):
            moved = ending.cancel(state, reason, now=now)
        case SignalNotUnderstood(signal=signal, reason=reason):
            moved = refuse(state, signal, reason, now=now)
        case LoopBroken(error=error):
            moved = ending.finish(state, Errored(value=error), now=now)
        case _:
            assert_never(fact)
    # A decision may come before the call it names has suspended, so the held ones are looked at after every fact.
    return moved.then(decisions.reconsider_held, now=now)


def _on_work(state: RunState, fact: WorkFact, *, now: int) -> Advance:
    """Work that was in flight came back; `advance` has made sure that the run was waiting for it."""
    match state.stage, fact:
        case Cancelling() as cancelling, _:
            return ending.wound_down(state, cancelling, fact, now=now)
        case CallingTools(), ToolReturned():
            return tool_calls.returned(state, fact, now=now)
        case CallingTools(), _:
            return tool_calls.lost(state, fact.id, _why(fact), now=now)
        case Inferring() as inferring, InferenceReturned(response=response):
            return inference.returned(state.entering(BetweenSteps()), inferring, response, now=now)
        case Resolving(), AgentResolved(agent=agent):
            return next_step(replace(state, resolved=agent), now=now)
        case _:
            return ending.finish(state.entering(BetweenSteps()), Errored(value=_why(fact)), now=now)


def _why(fact: WorkFact) -> str:
    match fact:
        case WorkFailed(error=error):
            return error
        case WorkStopped():
            return "it was stopped from outside"
        case _:
            return f"{fact.id} ended as {type(fact).__name__}, which is not how it can end"


def _on_messages(state: RunState, fact: MessagesSubmitted) -> Advance:
    """Queue what is new; a message whose id was seen before is a repeat and changes nothing."""
    queued, seen = list(state.queued), set(state.seen_messages)
    for submitted in fact.messages:
        if submitted.message.id not in seen:
            seen.add(submitted.message.id)
            queued.append(submitted)
    return Advance(replace(state, queued=tuple(queued), seen_messages=frozenset(seen)))


def _too_late(state: RunState, fact: Fact, *, now: int) -> Advance:
    match fact:
        case DecisionsReceived():
            return refuse(state, SIGNAL_DECIDE, "the run has ended", now=now)
        case MessagesSubmitted():
            return refuse(state, SIGNAL_SUBMIT, "the run has ended", now=now)
        case CancelRequested():
            return refuse(state, SIGNAL_CANCEL, "the run has ended", now=now)
        case SignalNotUnderstood(signal=signal, reason=reason):
            return refuse(state, signal, reason, now=now)
        case _:
            return Advance(state)
