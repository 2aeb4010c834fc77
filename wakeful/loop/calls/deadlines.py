"""What time alone causes: decisions escalate and expire, delegates time out, wall time runs out, threads expire."""

from typing import assert_never

from wakeful.contract.applied_decisions import AppliedDecision, DecisionChannel
from wakeful.contract.base import replace
from wakeful.contract.decisions import DecisionAction, Expiry, ExpiryAction, ToolCallResume
from wakeful.contract.events import DecisionOverdue
from wakeful.contract.runs import StopDetail, Stopped, ToolCallStatus
from wakeful.contract.tools import ToolResult
from wakeful.loop.calls.batch import FinishedCall, FinishedStatus, ResumingCall, SuspendedCall, resumed_event
from wakeful.loop.calls.commit import batch_of, move, record_decision
from wakeful.loop.calls.decisions import resume_call, resume_run
from wakeful.loop.calls.tool_calls import continue_batch
from wakeful.loop.machine.commands import CancelChild
from wakeful.loop.machine.stages import Idle
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.thread import cancelling

DEADLINE = "deadline"
"""The actor of a decision that a deadline made."""


def on_timer_fired(thread: Thread, at: int, *, now: int) -> Advance:
    """Do what is due at the time of the alarm. Decisions that came in time were facts before this one.

    What is due follows from `at` alone: when the workflow task runs, and what its clock shows, is not the same in a
    replay. What is due since then has an alarm of its own.
    """
    if thread.next_alarm is None or thread.next_alarm > at:
        return Advance(thread)
    if isinstance(thread.stage, Idle):
        return Advance(cancelling.expire(thread))
    thread = thread.with_run(replace(thread.current, alarmed_at=max(at, thread.current.alarmed_at)))
    if _is_due(thread.current.budget.deadline, at):
        return cancelling.stop(thread, Stopped(value=_wall_time_spent(thread)), now=now)
    if thread.batch is None:
        return Advance(thread)
    return _time_out_delegates(thread, at).then(_expire_suspended, at, now=now)


def _wall_time_spent(thread: Thread) -> StopDetail:
    seconds = thread.current.budget.limit.seconds
    limit = f" of {seconds:g} s" if seconds is not None else ""
    return StopDetail(code="budget", detail=f"the wall time{limit} is spent")


def _time_out_delegates(thread: Thread, at: int) -> Advance:
    """Cancel the sub-agents that took too long; their calls finish when they have stopped."""
    moved = Advance(thread)
    for call in batch_of(thread).running:
        if call.child_thread_id is not None and not call.timed_out and _is_due(call.expires_at, at):
            late = move(moved.thread, replace(call, timed_out=True)).thread
            cancel = CancelChild(call.id, call.child_thread_id, "it timed out")
            moved = replace(moved, thread=late, commands=(*moved.commands, cancel))
    return moved


def _expire_suspended(thread: Thread, at: int, *, now: int) -> Advance:
    expired = [call for call in batch_of(thread).suspended if _is_due(call.ticket.expires_at, at)]
    moved = Advance(thread)
    for call in batch_of(thread).suspended:
        if call not in expired and not call.escalated and _is_due(call.ticket.escalates_at, at):
            moved = moved.then(move, replace(call, escalated=True), _overdue(call, at))
    if not expired:
        return moved
    moved = moved.then(resume_run)
    for call in expired:
        moved = moved.then(_expire, call, at)
    return moved.then(continue_batch, now=now)


def _is_due(deadline: int | None, at: int) -> bool:
    return deadline is not None and deadline <= at


def _overdue(call: SuspendedCall, at: int) -> DecisionOverdue:
    suspension = call.ticket.suspension
    return DecisionOverdue(
        call_id=call.call.id,
        tool_name=call.call.name,
        suspension_id=suspension.id,
        message=suspension.message,
        waited_ms=at - call.since,
    )


def _expire(thread: Thread, call: SuspendedCall, at: int) -> Advance:
    suspension = call.ticket.suspension
    expiry = suspension.expiry
    assert expiry is not None  # the ticket's deadline was computed from it
    resumes, reason = expiry.then is ExpiryAction.RESUME, _no_decision(expiry)
    action, result = (DecisionAction.RESUME, expiry.result) if resumes else (DecisionAction.CANCEL, None)
    channel = DecisionChannel.DEADLINE
    applied = AppliedDecision(action=action, at=at, channel=channel, reason=reason, result=result)
    return record_decision(thread, call.call, applied, suspension_id=suspension.id).then(_settle, call, expiry, at)


def _settle(thread: Thread, call: SuspendedCall, expiry: Expiry, at: int) -> Advance:
    match expiry.then:
        case ExpiryAction.CANCEL:
            return _finish(thread, call, ToolCallStatus.CANCELLED, f"cancelled: {_no_decision(expiry)}")
        case ExpiryAction.DENY:
            denial = ToolCallResume(action=DecisionAction.CANCEL, actor=DEADLINE, updated_at=at)
            denied = move(thread, ResumingCall(call.call, call.ticket, denial, resumes=call.resumes))
            return denied.then(_finish, call, ToolCallStatus.FAILED, f"denied: {_no_decision(expiry)}")
        case ExpiryAction.RESUME:
            resume = ToolCallResume(action=DecisionAction.RESUME, result=expiry.result, actor=DEADLINE, updated_at=at)
            return resume_call(thread, call, resume)
        case _:
            assert_never(expiry.then)


def _finish(thread: Thread, call: SuspendedCall, status: FinishedStatus, message: str) -> Advance:
    result = ToolResult.error(call.call.name, message)
    return move(thread, FinishedCall(call.call, status, result), resumed_event(call.call, result))


def _no_decision(expiry: Expiry) -> str:
    return f"no decision within {expiry.after_seconds:g} s"
