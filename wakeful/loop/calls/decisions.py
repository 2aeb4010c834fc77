"""Decisions: a batch is judged, and then applied or rejected, as a whole. Nothing here can end a run.

A decision for a call of the current step that has not suspended yet is held until it has. A repeat of a decision that
was applied is a no-op.
"""

from dataclasses import dataclass
from typing import assert_never

from wakeful.contract.applied_decisions import AppliedDecision
from wakeful.contract.base import Once, json_bytes, replace
from wakeful.contract.decisions import (
    Decision,
    DecisionAction,
    ResumeMode,
    SuspensionTicket,
    ToolCallResume,
    digest_arguments,
)
from wakeful.contract.outcomes import newest_decision
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.runs import ToolCallStatus
from wakeful.contract.tools import ToolResult
from wakeful.loop.calls import gates
from wakeful.loop.calls.batch import (
    INLINE_RESULTS_BYTES,
    FinishedCall,
    NewCall,
    ResumingCall,
    RunningCall,
    SuspendedCall,
    resumed_event,
    resumed_with,
)
from wakeful.loop.calls.commit import batch_of, move, record_decision, within_room
from wakeful.loop.calls.schema_checks import TOO_MUCH, SchemaChecks
from wakeful.loop.calls.tool_calls import continue_batch
from wakeful.loop.machine import revisions
from wakeful.loop.machine.events import run_start
from wakeful.loop.machine.facts import DecisionsReceived
from wakeful.loop.machine.stages import AwaitingDecisions, CallingTools, Cancelling, Done, Idle
from wakeful.loop.machine.state import KEPT_RULES, Advance, Run, Thread
from wakeful.loop.thread.outcomes import (
    date_problem,
    has_decided,
    record_applied,
    record_held,
    record_repeated,
    refuse_decisions,
    run_problem,
    tenant_problem,
    was_applied,
)
from wakeful.loop.thread.waiting import no_room_for_batch

_NO_ROOM = (
    f"the results of this step's decisions would have more than {INLINE_RESULTS_BYTES:,} bytes together; decide it "
    "with a shorter result, for example with an address where a tool can read the whole"
)


@dataclass(frozen=True)
class Apply:
    decisions: tuple[tuple[SuspendedCall, Decision], ...]


@dataclass(frozen=True)
class Hold:
    pass


@dataclass(frozen=True)
class Refuse:
    reason: str
    decided: AppliedDecision | None = None
    """The earlier decision on the call, if that is the reason."""


Judgement = Apply | Hold | Refuse


def on_decisions_received(thread: Thread, received: DecisionsReceived, *, now: int) -> Advance:
    """Take a batch; `judge_held`, which follows every fact, applies or rejects it. After the run only a repeat fits."""
    batch = tuple(decision.undated for decision in received.decisions)
    reason = (
        tenant_problem(thread, received.tenant, "decision")
        or run_problem(thread, received.run_id)
        or date_problem(thread, received.decisions)
    )
    if reason is not None:
        return refuse_decisions(thread, batch, reason, now=now)
    if thread.run is not None and not isinstance(thread.stage, Done | Idle):
        waits = isinstance(judge(thread, batch, SchemaChecks(thread, now)), Hold)
        if waits and (reason := no_room_for_batch(thread, batch)) is not None:
            return refuse_decisions(thread, batch, reason, now=now)
        return Advance(thread.with_run(replace(thread.run, held=(*thread.run.held, batch))))
    if batch and all(_was_applied(thread, decision) for decision in batch):
        return Advance(_record_repeated(thread, batch))
    refusal = next(filter(None, (_decided(thread, each) for each in batch)), Refuse("the run has ended"))
    return refuse_decisions(thread, batch, refusal.reason, now=now, decided=refusal.decided)


def judge_held(thread: Thread, before: Thread, *, now: int) -> Advance:
    """Apply or reject every held batch that can be judged by now, in the order they came.

    Args:
        before: the thread before the fact, in which every held batch was judged.
    """
    if thread.current.revision < revisions.HELD_JUDGED_ONCE:
        return _judge_from(thread, 0, now=now)
    moved, judged = Advance(thread), _judged_before(thread, before)
    while True:
        calls = moved.thread.batch
        moved, judged = moved.then(_judge_from, judged, now=now), 0
        if moved.thread.batch is calls or not moved.thread.current.held:
            return moved
        # What was applied may have made a call ask that an earlier batch decides.


def _judged_before(thread: Thread, before: Thread) -> int:
    """How many of the held batches still wait, because nothing has changed that they are judged by."""
    if before.run is None or before.batch is not thread.batch or before.stage != thread.stage:
        return 0
    held = before.run.held
    return len(held) if thread.current.held[: len(held)] == held else 0


def _judge_from(thread: Thread, kept: int, *, now: int) -> Advance:
    moved = Advance(thread)
    while kept < len(held := moved.thread.current.held):
        batch = held[kept]
        checks = SchemaChecks(moved.thread, now)
        judgement = judge(moved.thread, batch, checks)
        if checks.taken is not None:
            moved = _with_run(moved, replace(moved.thread.current, task_work=checks.taken))
        if isinstance(judgement, Hold):
            moved = replace(moved, thread=record_held(moved.thread, batch))
            kept += 1
            continue
        # The others stay in the state meanwhile: if this one ends the run, its end rejects them.
        alone = _with_run(moved, replace(moved.thread.current, held=held[:kept] + held[kept + 1 :]))
        match judgement:
            case Apply(decisions=decisions):
                repeated = replace(alone, thread=_record_repeated(alone.thread, batch))
                moved = repeated.then(_apply, decisions, now=now)
            case Refuse(reason=reason, decided=decided):
                moved = alone.then(refuse_decisions, batch, reason, now=now, decided=decided)
            case _:
                assert_never(judgement)
    return moved


def _with_run(moved: Advance, run: Run) -> Advance:
    return replace(moved, thread=moved.thread.with_run(run))


def judge(thread: Thread, batch: tuple[Decision, ...], checks: SchemaChecks) -> Judgement:
    """What happens to a batch now. One bad decision rejects all of it."""
    if isinstance(thread.stage, Cancelling):
        return Refuse("the run is being cancelled")
    targets: dict[str, tuple[SuspendedCall, Decision]] = {}
    hold, room = False, thread.batch.inline_room if thread.batch else 0
    for decision in batch:
        call = thread.batch.find(decision.target) if thread.batch else None
        if _was_applied(thread, decision):
            continue
        match call:
            case SuspendedCall():
                if call.call.id in targets and targets[call.call.id][1] != decision:
                    return Refuse(f"two decisions for call {call.call.id!r} in one batch")
                if (objection := _objection(thread, call, decision, checks)) is not None:
                    return Refuse(f"call {decision.target!r}: {objection}")
                if call.call.id not in targets and (room := room - _inline_bytes(call, decision)) < 0:
                    return Refuse(f"call {decision.target!r}: {_NO_ROOM}")
                targets[call.call.id] = (call, decision)
            case NewCall() | RunningCall(resumes=0):
                hold = True
            case RunningCall() | ResumingCall():
                # Held, it would answer the tool's next suspension, which the decider has not seen.
                running = f"call {decision.target!r} was already decided and is running"
                return _decided(thread, decision) or Refuse(running)
            case FinishedCall():
                finished = f"call {decision.target!r} has already finished ({call.status.value})"
                return _decided(thread, decision) or Refuse(finished)
            case None:
                unknown = f"unknown key: tool call or suspension {decision.target!r} not found"
                return _decided(thread, decision) or Refuse(unknown)
            case _:
                assert_never(call)
    if hold:
        return Hold()  # it is judged again
    return Refuse(TOO_MUCH) if checks.were_skipped else Apply(tuple(targets.values()))


def _decided(thread: Thread, decision: Decision) -> Refuse | None:
    """The refusal of a second decision on a call, as far as the thread remembers the first."""
    names = _names(thread, decision)
    decided = newest_decision(thread.outcomes, *names) if has_decided(thread, *names) else None
    return None if decided is None else Refuse(decided.of(decision.target), decided)


def _objection(thread: Thread, call: SuspendedCall, decision: Decision, checks: SchemaChecks) -> str | None:
    """Why the decision does not fit the call."""
    ticket, resumes = call.ticket, decision.action is DecisionAction.RESUME
    if decision.arguments_digest not in (None, _digest(ticket)):
        return "the arguments have changed since they were shown"
    if decision.always and not resumes:
        return "'always' is only allowed with the action 'resume'"
    if decision.always and ticket.remember is None:
        return "its ticket names no rule to remember, so 'always' is not possible"
    if decision.arguments is not None and not (resumes and ticket.resume_mode is ResumeMode.REPLAY_TOOL_CALL):
        return "'arguments' are only allowed with the action 'resume' and the resume mode 'replay_tool_call'"
    if decision.arguments is not None and gates.cannot_judge_edited(thread, call):
        return (
            f"tool {call.call.name!r} runs without an activity, so the agent's gates could not check other arguments: "
            "resume the call without 'arguments', or cancel it"
        )
    return _schema_objection(thread, call, decision, checks) if resumes else None


@Once
def _digest(ticket: SuspensionTicket) -> str:
    return digest_arguments(ticket.pending.arguments)


def _inline_bytes(call: SuspendedCall, decision: Decision) -> int:
    """The bytes of the decision that become a result which the next inference input spells out."""
    is_result = call.ticket.resume_mode is ResumeMode.USE_DECISION_AS_TOOL_RESULT
    if decision.action is DecisionAction.CANCEL or not is_result:
        return 0
    return json_bytes(ToolResult.success(call.call.name, decision.result).text)


def _schema_objection(thread: Thread, call: SuspendedCall, decision: Decision, checks: SchemaChecks) -> str | None:
    """The result must match what the ticket asks for, and what becomes the tool's arguments its parameters."""
    ticket, tool = call.ticket, thread.tool(call.call.name)
    assert tool is not None  # only a known tool suspends
    if decision.arguments is not None and (problem := checks.mismatch(decision.arguments, tool.parameters)) is not None:
        return f"the arguments do not match the tool's parameters: {problem}"
    schema = ticket.suspension.response_schema
    if schema is not None and (problem := checks.mismatch(decision.result, schema)) is not None:
        return f"the result does not match the requested schema: {problem}"
    passes = ticket.resume_mode is ResumeMode.PASS_DECISION_TO_TOOL
    if passes and (problem := checks.mismatch(decision.result, tool.parameters)) is not None:
        return f"the result does not match the tool's parameters: {problem}"
    return None


def _was_applied(thread: Thread, decision: Decision) -> bool:
    """Whether the same decision id was applied to the same call, by whichever of its names."""
    return was_applied(thread, decision, *_names(thread, decision))


def _record_repeated(thread: Thread, batch: tuple[Decision, ...]) -> Thread:
    for decision in batch:
        thread = record_repeated(thread, decision, *_names(thread, decision))
    return thread


def _names(thread: Thread, decision: Decision) -> tuple[str, ...]:
    """What the decision calls its call, and the call's own id while its step lasts."""
    call = thread.batch.find(decision.target) if thread.batch else None
    return (decision.target,) if call is None else (decision.target, call.call.id)


def _apply(thread: Thread, decisions: tuple[tuple[SuspendedCall, Decision], ...], *, now: int) -> Advance:
    """Cancelled calls first, then resumed ones, each in call order; then the batch continues."""
    if not decisions:
        return Advance(thread)
    moved = resume_run(thread)
    order = batch_of(thread).position
    ranked = sorted(decisions, key=lambda pair: (pair[1].action is DecisionAction.RESUME, order(pair[0].call.id)))
    for call, decision in ranked:
        moved = moved.then(_apply_one, call, decision, now=now)
    return moved.then(continue_batch, now=now)


def resume_run(thread: Thread) -> Advance:
    """A run that awaits decisions is active again; any other is not changed."""
    if not isinstance(thread.stage, AwaitingDecisions):
        return Advance(thread)
    return Advance(thread.entering(CallingTools(thread.stage.batch)), events=(run_start(thread),))


def _apply_one(thread: Thread, call: SuspendedCall, decision: Decision, *, now: int) -> Advance:
    recorded = _remember(thread, call, decision.applied(call.ticket, now))
    resume = decision.resume(now)
    match decision.action:
        case DecisionAction.CANCEL if call.ticket.runs_if_denied:
            return recorded.then(resume_call, call, resume)
        case DecisionAction.CANCEL:
            return recorded.then(_cancel_call, call, resume)
        case DecisionAction.RESUME:
            return recorded.then(resume_call, call, resume)
        case _:
            assert_never(decision.action)


def _remember(thread: Thread, call: SuspendedCall, applied: AppliedDecision) -> Advance:
    """Record the decision, also to recognise a repeat, and remember the rule that `always` allows."""
    if applied.rule is not None:
        rule = Rule(tool=applied.rule, behavior=Behavior.ALLOW)
        others = tuple(known for known in thread.permissions if known.tool != rule.tool)
        run = replace(thread.current, always=(*thread.current.always, rule.tool)[-KEPT_RULES:])
        thread = replace(thread, permissions=(*others, rule)[-KEPT_RULES:]).with_run(run)
    suspension_id = call.ticket.suspension.id
    thread = record_applied(thread, applied, call.call.id, suspension_id)
    return record_decision(thread, call.call, applied, suspension_id=suspension_id)


def _cancel_call(thread: Thread, call: SuspendedCall, resume: ToolCallResume) -> Advance:
    message = f"cancelled by decision: {resume.reason}" if resume.reason else "cancelled by decision"
    result = ToolResult.error(call.call.name, message)
    if resume.result is not None:
        result = result.model_copy(update={"data": resume.result})
    after = FinishedCall(call.call, ToolCallStatus.CANCELLED, result)
    return move(thread, after, resumed_with(call.call, result, resume.result))


def resume_call(thread: Thread, call: SuspendedCall, resume: ToolCallResume) -> Advance:
    """Resume a call: the decision is its result, or it runs again when it is its turn."""
    edited = call.edited if resume.arguments is None else resume.arguments
    if call.ticket.resume_mode is ResumeMode.PASS_DECISION_TO_TOOL:
        edited = resume.result  # should it suspend again, these are its arguments, and what is shown
    moved = move(thread, ResumingCall(call.call, call.ticket, resume, resumes=call.resumes + 1, edited=edited))
    if call.ticket.resume_mode is not ResumeMode.USE_DECISION_AS_TOOL_RESULT:
        return moved
    result = within_room(thread, ToolResult.success(call.call.name, resume.result))
    after = FinishedCall(call.call, ToolCallStatus.SUCCEEDED, result)
    return moved.then(move, after, resumed_event(call.call, result))
