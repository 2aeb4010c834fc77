"""What time alone does to suspended calls: watchers are told that a decision is overdue, and deadlines end the wait."""

from typing import assert_never

from wakeful.contract.decisions import DecisionAction, Expiry, ExpiryAction, ToolCallResume
from wakeful.contract.events import DecisionOverdue, ToolCallResumed
from wakeful.contract.runs import ToolCallStatus
from wakeful.contract.tools import ToolResult
from wakeful.loop.batch import batch_of, move
from wakeful.loop.calls import ResumingCall, SettledCall, SettledStatus, SuspendedCall
from wakeful.loop.decisions import let_go_on, wake
from wakeful.loop.reports import resumed_payload
from wakeful.loop.state import Advance, RunState
from wakeful.loop.tool_calls import go_on
from wakeful.loop.values import replace

DEADLINE = "deadline"
"""Who decided where nobody did."""


def pass_time(state: RunState, *, now: int) -> Advance:
    """Do what is due by now. Decisions that came in time were facts before this one, and so went first."""
    if state.next_alarm is None or state.next_alarm > now:
        return Advance(state)
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
