"""Where every fact enters: `begin` makes a run's first state, `advance` makes each next one."""

from typing import assert_never

from wakeful.contract.names import SIGNAL_CANCEL, SIGNAL_DECIDE, SIGNAL_SUBMIT
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import Errored, OnBusy, RunIdentity
from wakeful.loop import compacting, deadlines, decisions, ending, inbox, inference, tool_calls
from wakeful.loop.facts import (
    AgentResolved,
    CancelRequested,
    CompactionReturned,
    DecisionsReceived,
    Fact,
    InferenceReturned,
    LoopBroken,
    MessagesSubmitted,
    SignalNotUnderstood,
    Submitted,
    TimePassed,
    ToolReturned,
    WorkFact,
    WorkFailed,
    WorkStopped,
)
from wakeful.loop.reports import refuse
from wakeful.loop.stages import Afterwards, BetweenSteps, CallingTools, Cancelling, Done, Idle, Inferring, Resolving
from wakeful.loop.state import REVISION, Advance, RunState
from wakeful.loop.steps import next_step
from wakeful.loop.transcript import Transcript
from wakeful.loop.values import replace


def begin(request: RunRequest, *, thread_id: str, run_id: str, transcript: Transcript | None = None) -> Advance:
    """A thread's first run: its input in the transcript, and the wish to know its agent.

    A thread that was closed goes on from its old `transcript`.
    """
    state = opened(request, thread_id=thread_id, run_id=run_id, transcript=transcript)
    messages = tuple(
        Submitted(
            written.as_message(f"{run_id}:{index + 1}"),
            f"input:{index}",
            overrides=request.overrides,
            permissions=request.permissions,
        )
        for index, written in enumerate(request.messages)
    )
    given = inbox.accept(state, MessagesSubmitted(messages), now=0)
    return given.then(inbox.begin_next_run) if messages else given


def opened(request: RunRequest, *, thread_id: str, run_id: str, transcript: Transcript | None = None) -> RunState:
    """A thread that nobody has said anything to."""
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
    transcript = transcript or Transcript()
    return RunState(
        identity=identity,
        stage=Idle(),
        transcript=transcript,
        mode=request.mode,
        began=transcript.mark,
        runs=0,
        frontend_tools=tuple(tool.descriptor() for tool in request.frontend_tools),
        seen_messages=tuple(message.id for message in transcript.messages),
    )


def advance(state: RunState, fact: Fact, *, now: int) -> Advance:
    """What `fact` makes of `state`. A fact that comes too late changes nothing but the list of refusals."""
    match fact:
        case (
            AgentResolved() | InferenceReturned() | ToolReturned() | CompactionReturned() | WorkFailed() | WorkStopped()
        ):
            if fact.id == state.context.compacting:
                return compacting.ended(state, fact)
            moved = _on_work(state, fact, now=now) if fact.id in state.in_flight else Advance(state)
        case _ if isinstance(state.stage, Done):
            moved = _too_late(state, fact, now=now)
        case DecisionsReceived(decisions=batch):
            moved = Advance(replace(state, held=(*state.held, batch)))
        case MessagesSubmitted():
            moved = _on_messages(state, fact, now=now)
        case CancelRequested(reason=reason, close=close):
            then = Afterwards.CLOSE if close else Afterwards.END
            moved = ending.cancel(state, reason, now=now, then=then)
        case SignalNotUnderstood(signal=signal, reason=reason):
            moved = refuse(state, signal, reason, now=now)
        case TimePassed():
            moved = deadlines.pass_time(state, now=now)
        case LoopBroken() if isinstance(state.stage, Idle):
            moved = Advance(state)  # there is no run to end, and a thread that waits hangs nobody
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
        case Resolving(), AgentResolved():
            return next_step(_bound(state, fact), now=now)
        case _:
            return ending.finish(state.entering(BetweenSteps()), Errored(value=_why(fact)), now=now)


def _bound(state: RunState, fact: AgentResolved) -> RunState:
    """The run with its agent, with the rules it began under, and with what that agent always tells the model."""
    messages = state.context.messages
    for message in fact.agent.context_messages:
        messages = messages.upserting(message)
    context = replace(state.context, messages=messages)
    return replace(state, resolved=fact.agent, revision=min(fact.revision, REVISION), context=context)


def _why(fact: WorkFact) -> str:
    match fact:
        case WorkFailed(error=error):
            return error
        case WorkStopped():
            return "it was stopped from outside"
        case _:
            return f"{fact.id} ended as {type(fact).__name__}, which is not how it can end"


def _on_messages(state: RunState, fact: MessagesSubmitted, *, now: int) -> Advance:
    accepted = inbox.accept(state, fact, now=now)
    waiting = accepted.state.queued or accepted.state.steering
    match state.stage, fact.on_busy:
        case Idle(), _ if waiting:
            return accepted.then(inbox.begin_next_run)
        case _, OnBusy.INTERRUPT if accepted.state.queued != state.queued:
            return accepted.then(ending.cancel, "interrupted by a message", now=now, then=Afterwards.NEXT_RUN)
        case _, OnBusy.ROLLBACK if accepted.state.queued != state.queued:
            return accepted.then(ending.cancel, "rolled back by a message", now=now, then=Afterwards.ROLL_BACK)
        case _:
            return accepted


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
