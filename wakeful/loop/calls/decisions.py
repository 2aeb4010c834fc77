"""Decisions: judge a batch as a whole, apply it as a whole, or refuse it as a whole. Nothing here can end a run.

A decision that names a call of the current step which has not suspended yet is held until it has. A repeat of a
decision that was applied is acknowledged by doing nothing.
"""

from dataclasses import dataclass
from typing import assert_never

from wakeful.contract.decisions import Decision, DecisionAction, ResumeMode, ToolCallResume, digest_arguments
from wakeful.contract.events import ToolCallResumed
from wakeful.contract.names import SIGNAL_DECIDE
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.runs import ToolCallStatus
from wakeful.contract.schemas import misfit
from wakeful.contract.tools import ToolResult
from wakeful.loop.calls.batch import Call, NewCall, ResumingCall, RunningCall, SettledCall, SuspendedCall
from wakeful.loop.calls.commit import batch_of, move
from wakeful.loop.calls.tool_calls import go_on
from wakeful.loop.machine.events import refuse, resumed_payload, run_start
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.stages import AwaitingDecisions, CallingTools, Cancelling, Done, Idle
from wakeful.loop.machine.state import KEPT_RULES, Advance, RunState


@dataclass(frozen=True)
class Apply:
    decisions: tuple[tuple[SuspendedCall, Decision], ...]


@dataclass(frozen=True)
class Hold:
    pass


@dataclass(frozen=True)
class Refuse:
    reason: str


Verdict = Apply | Hold | Refuse


def reconsider_held(state: RunState, *, now: int) -> Advance:
    """Apply or refuse every held batch that can be judged by now, in the order they came."""
    moved, kept = Advance(state), 0
    while kept < len(moved.state.held):
        held = moved.state.held
        batch = held[kept]
        # The others stay in the state meanwhile: if this one ends the run, the end refuses them.
        alone = replace(moved, state=replace(moved.state, held=held[:kept] + held[kept + 1 :]))
        match judge(alone.state, batch):
            case Apply(decisions=decisions):
                moved = alone.then(_apply, decisions, now=now)
            case Refuse(reason=reason):
                moved = alone.then(refuse, SIGNAL_DECIDE, reason, now=now)
            case Hold():
                kept += 1
            case verdict:
                assert_never(verdict)
    return moved


def judge(state: RunState, batch: tuple[Decision, ...]) -> Verdict:
    """What becomes of a batch now. One bad decision refuses all of it."""
    if isinstance(state.stage, Done | Idle):
        return Refuse("the run has ended")
    if isinstance(state.stage, Cancelling):
        return Refuse("the run is being cancelled")
    targets: dict[str, tuple[SuspendedCall, Decision]] = {}
    hold = False
    for decision in batch:
        call = state.batch.find(decision.target) if state.batch else None
        if _was_applied(state, call, decision):
            continue
        match call:
            case SuspendedCall():
                if call.call.id in targets and targets[call.call.id][1] != decision:
                    return Refuse(f"two decisions for call {call.call.id!r} in one batch")
                if (objection := _objection(state, call, decision)) is not None:
                    return Refuse(f"call {decision.target!r}: {objection}")
                targets[call.call.id] = (call, decision)
            case NewCall() | RunningCall(grants=0):
                hold = True
            case RunningCall() | ResumingCall():
                # Held, it would answer whatever the tool asks next, which nobody has seen yet.
                return Refuse(f"call {decision.target!r} was already decided and runs")
            case SettledCall():
                return Refuse(f"call {decision.target!r} is already settled ({call.status.value})")
            case None:
                return Refuse(f"unknown key: tool call or suspension {decision.target!r} not found")
            case _:
                assert_never(call)
    return Hold() if hold else Apply(tuple(targets.values()))


def _objection(state: RunState, call: SuspendedCall, decision: Decision) -> str | None:
    """Why this decision cannot be what this call waits for."""
    ticket, resumes = call.ticket, decision.action is DecisionAction.RESUME
    if decision.arguments_digest not in (None, digest_arguments(ticket.pending.arguments)):
        return "the arguments have changed since they were shown"
    if decision.always and not resumes:
        return "always goes with resume"
    if decision.always and ticket.remember is None:
        return "its ticket names no rule that could be remembered, so it cannot be allowed for always"
    if decision.arguments is not None and not (resumes and ticket.resume_mode is ResumeMode.REPLAY_TOOL_CALL):
        return "arguments go with resume, and with a call that runs again with its own (replay_tool_call)"
    return _misfit(state, call, decision) if resumes else None


def _misfit(state: RunState, call: SuspendedCall, decision: Decision) -> str | None:
    """What a decision says has to fit what the ticket asks for, and the tool where it becomes its arguments."""
    ticket, tool = call.ticket, state.tool(call.call.name)
    assert tool is not None  # only a known tool suspends
    if decision.arguments is not None and (wrong := misfit(decision.arguments, tool.parameters)) is not None:
        return f"the arguments do not fit the tool's parameters: {wrong}"
    if state.revision < 3:
        return None
    schema = ticket.suspension.response_schema
    if schema is not None and (wrong := misfit(decision.result, schema)) is not None:
        return f"the result does not fit what was asked for: {wrong}"
    passes = ticket.resume_mode is ResumeMode.PASS_DECISION_TO_TOOL
    if passes and (wrong := misfit(decision.result, tool.parameters)) is not None:
        return f"the result does not fit the tool's parameters: {wrong}"
    return None


def _was_applied(state: RunState, call: Call | None, decision: Decision) -> bool:
    """The same decision id for the same call, by whichever of its names."""
    names = {decision.target} if call is None else {decision.target, call.call.id}
    return any((name, decision.decision_id) in state.applied for name in names)


def _apply(state: RunState, decisions: tuple[tuple[SuspendedCall, Decision], ...], *, now: int) -> Advance:
    """Cancelled calls first, then resumed ones, each in call order; then the batch goes on."""
    if not decisions:
        return Advance(state)
    moved = wake(state)
    order = [call.call.id for call in batch_of(state).calls]
    ranked = sorted(decisions, key=lambda pair: (pair[1].action is DecisionAction.RESUME, order.index(pair[0].call.id)))
    for call, decision in ranked:
        moved = moved.then(_settle, call, decision, now=now)
    return moved.then(go_on, now=now)


def wake(state: RunState) -> Advance:
    """A run that paused is active again; one that is active stays so."""
    if not isinstance(state.stage, AwaitingDecisions):
        return Advance(state)
    return Advance(state.entering(CallingTools(state.stage.batch)), events=(run_start(state),))


def _settle(state: RunState, call: SuspendedCall, decision: Decision, *, now: int) -> Advance:
    state = _remember(state, call, decision)
    resume = decision.resume(now)
    match decision.action:
        case DecisionAction.CANCEL:
            return _cancelled(state, call, resume)
        case DecisionAction.RESUME:
            return let_go_on(state, call, resume)
        case _:
            assert_never(decision.action)


def _remember(state: RunState, call: SuspendedCall, decision: Decision) -> RunState:
    """The state that knows this decision should it come again, and what it allows for always."""
    if decision.always and call.ticket.remember is not None:
        rule = Rule(tool=call.ticket.remember, behavior=Behavior.ALLOW)
        others = tuple(known for known in state.permissions if known.tool != rule.tool)
        state = replace(state, permissions=(*others, rule)[-KEPT_RULES:])
    if decision.decision_id is None:
        return state
    names = (call.call.id, call.ticket.suspension.id)
    return replace(state, applied=state.applied | {(name, decision.decision_id) for name in names})


def _cancelled(state: RunState, call: SuspendedCall, resume: ToolCallResume) -> Advance:
    name = call.call.name
    message = f"cancelled by decision: {resume.reason}" if resume.reason else "cancelled by decision"
    result = ToolResult.error(name, message)
    if resume.result is not None:
        result = result.model_copy(update={"data": resume.result})
    after = SettledCall(call.call, ToolCallStatus.CANCELLED, result)
    return move(state, after, ToolCallResumed(target_id=call.call.id, result=resume.result))


def let_go_on(state: RunState, call: SuspendedCall, resume: ToolCallResume) -> Advance:
    """Resume a call: it has its result by that, or it is to run, when it is its turn."""
    edited = call.edited if resume.arguments is None else resume.arguments
    if call.ticket.resume_mode is ResumeMode.PASS_DECISION_TO_TOOL:
        edited = resume.result  # should it suspend again, this is what it goes on with, and what is shown
    resuming = ResumingCall(call.call, call.ticket, resume, grants=call.grants + 1, edited=edited)
    moved = move(state, resuming)
    if call.ticket.resume_mode is not ResumeMode.USE_DECISION_AS_TOOL_RESULT:
        return moved
    result = ToolResult.success(call.call.name, resume.result)
    after = SettledCall(call.call, ToolCallStatus.SUCCEEDED, result)
    return moved.then(move, after, ToolCallResumed(target_id=call.call.id, result=resumed_payload(result)))
