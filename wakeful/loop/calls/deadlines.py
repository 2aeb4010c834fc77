"""What time alone does: decisions are overdue or expire, delegates take too long, and wall time is spent."""

from typing import assert_never

from wakeful.contract.decisions import DecisionAction, Expiry, ExpiryAction, ToolCallResume
from wakeful.contract.events import DecisionOverdue, ToolCallResumed
from wakeful.contract.runs import StopDetail, Stopped, ToolCallStatus
from wakeful.contract.tools import ToolResult
from wakeful.loop.calls.batch import ResumingCall, SettledCall, SettledStatus, SuspendedCall
from wakeful.loop.calls.commit import batch_of, move
from wakeful.loop.calls.decisions import let_go_on, wake
from wakeful.loop.calls.tool_calls import go_on
from wakeful.loop.machine.commands import CancelChild
from wakeful.loop.machine.events import resumed_payload
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.state import Advance, RunState
from wakeful.loop.thread import ending

DEADLINE = "deadline"
"""Who decided where nobody did."""


def pass_time(state: RunState, *, now: int) -> Advance:
    """Do what is due by now. Decisions that came in time were facts before this one, and so went first."""
    if state.next_alarm is None or state.next_alarm > now:
        return Advance(state)
    if _is_due(state.deadline, now):
        return ending.stop(state, Stopped(value=_time_is_up(state)), now=now)
    return _give_up_on_delegates(state, now=now).then(_expire_suspended, now=now)


def _time_is_up(state: RunState) -> StopDetail:
    seconds = state.budget.seconds
    limit = f" of {seconds:g} s" if seconds is not None else ""
    return StopDetail(code="budget", detail=f"the wall time{limit} is spent")


def _give_up_on_delegates(state: RunState, *, now: int) -> Advance:
    """Cancel the sub-agents that took too long; their calls end when they have stopped."""
    moved = Advance(state)
    for call in batch_of(state).running:
        if call.child is not None and not call.timed_out and _is_due(call.expires_at, now):
            late = move(moved.state, replace(call, timed_out=True)).state
            cancel = CancelChild(call.id, call.child, "it took too long")
            moved = replace(moved, state=late, commands=(*moved.commands, cancel))
    return moved


def _expire_suspended(state: RunState, *, now: int) -> Advance:
    expired = [call for call in batch_of(state).suspended if _is_due(call.ticket.expires_at, now)]
    moved = Advance(state)
    for call in batch_of(state).suspended:
        if call not in expired and not call.escalated and _is_due(call.ticket.escalates_at, now):
            moved = moved.then(move, replace(call, escalated=True), _overdue(call, now))
    if not expired:
        return moved
    moved = moved.then(wake)
    for call in expired:
        moved = moved.then(_expire, call, now=now)
    return moved.then(go_on, now=now)


def _is_due(at: int | None, now: int) -> bool:
    return at is not None and at <= now


def _overdue(call: SuspendedCall, now: int) -> DecisionOverdue:
    suspension = call.ticket.suspension
    return DecisionOverdue(
        call_id=call.call.id,
        tool_name=call.call.name,
        suspension_id=suspension.id,
        message=suspension.message,
        waited_ms=now - call.since,
    )


def _expire(state: RunState, call: SuspendedCall, *, now: int) -> Advance:
    expiry = call.ticket.suspension.expiry
    assert expiry is not None  # a ticket has its deadline from it
    match expiry.then:
        case ExpiryAction.CANCEL:
            return _settle(state, call, ToolCallStatus.CANCELLED, f"cancelled: {_nobody(expiry)}")
        case ExpiryAction.DENY:
            denial = ToolCallResume(action=DecisionAction.CANCEL, actor=DEADLINE, updated_at=now)
            denied = move(state, ResumingCall(call.call, call.ticket, denial, grants=call.grants))
            return denied.then(_settle, call, ToolCallStatus.FAILED, f"denied: {_nobody(expiry)}")
        case ExpiryAction.RESUME:
            resume = ToolCallResume(action=DecisionAction.RESUME, result=expiry.result, actor=DEADLINE, updated_at=now)
            return let_go_on(state, call, resume)
        case _:
            assert_never(expiry.then)


def _settle(state: RunState, call: SuspendedCall, status: SettledStatus, message: str) -> Advance:
    result = ToolResult.error(call.call.name, message)
    event = ToolCallResumed(target_id=call.call.id, result=resumed_payload(result))
    return move(state, SettledCall(call.call, status, result), event)


def _nobody(expiry: Expiry) -> str:
    return f"nobody decided within {expiry.after_seconds:g} s"
