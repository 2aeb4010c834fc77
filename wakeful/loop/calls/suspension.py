"""Suspend a call: the ticket it waits under, its name, and the times at which it will not wait any longer."""

from wakeful.contract.decisions import ResumeMode, Suspension, SuspensionTicket, digest_arguments
from wakeful.contract.messages import ToolCall
from wakeful.contract.tools import ToolDescriptor, ToolResult
from wakeful.loop.calls.batch import NewCall, ResumingCall, RunningCall, SuspendedCall
from wakeful.loop.calls.commit import batch_of, done, move
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.state import REMEMBERED, Advance, RunState

LONGEST_WAIT_MS = 10 * 365 * 24 * 3_600_000
"""Ten years: no timer is set for longer."""


def suspend(
    state: RunState, call: NewCall | RunningCall | ResumingCall, result: ToolResult, *, now: int, gated: bool = False
) -> Advance:
    """Suspend a call under an id that names it alone and for ever, whatever ids the tool and the model chose."""
    grants, edited = (0, None) if isinstance(call, NewCall) else (call.grants, call.edited)
    ticket = result.suspension or _plain_ticket(call.call, edited, result)
    taken = {*state.suspensions, *(other.call.id for other in batch_of(state).calls)}
    id = ticket.suspension.id or f"suspend_{call.call.id}"
    while id in taken:
        id = f"{id}:{call.call.id}"
    ticket = _stamped(ticket, id, now)
    suspended = SuspendedCall(call.call, ticket, since=now, grants=grants, edited=edited, gated=gated)
    state = replace(state, suspensions=(*state.suspensions, id)[-REMEMBERED:])
    return move(state, suspended, done(call.call, result.model_copy(update={"suspension": ticket})))


def frontend_result(tool: ToolDescriptor, call: ToolCall) -> ToolResult:
    """A call of a frontend tool is pending until the front end has performed it and says what came of it."""
    suspension = Suspension(
        id="", action=f"tool:{call.name}", parameters=call.arguments, response_schema=tool.result_schema
    )
    mode = ResumeMode.USE_DECISION_AS_TOOL_RESULT
    return ToolResult.suspended(call.name, SuspensionTicket(suspension=suspension, pending=call, resume_mode=mode))


def _plain_ticket(call: ToolCall, edited: object, result: ToolResult) -> SuspensionTicket:
    plain = Suspension(id="", action=f"tool:{call.name}", message=result.message)
    pending = call if edited is None else call.model_copy(update={"arguments": edited})
    return SuspensionTicket(suspension=plain, pending=pending)


def _stamped(ticket: SuspensionTicket, id: str, now: int) -> SuspensionTicket:
    """The ticket with what only the loop can know: its name, what its arguments come to, and when its times are."""
    suspension = ticket.suspension
    expiry = suspension.expiry
    stamps = {
        "suspension": suspension.model_copy(update={"id": id}),
        "arguments_digest": digest_arguments(ticket.pending.arguments),
        "expires_at": _later(now, expiry.after_seconds if expiry else None),
        "escalates_at": _later(now, suspension.escalate_after_seconds),
    }
    return ticket.model_copy(update=stamps)


def _later(now: int, seconds: float | None) -> int | None:
    return None if seconds is None else now + max(1, round(min(seconds * 1000, LONGEST_WAIT_MS)))
