"""Suspend a call: give its ticket an id of its own, and compute the times at which it stops waiting."""

from wakeful.contract import ids
from wakeful.contract.base import replace
from wakeful.contract.decisions import ResumeMode, Suspension, SuspensionTicket, digest_arguments
from wakeful.contract.messages import ToolCall
from wakeful.contract.names import TOOL_REMOTE_INPUT
from wakeful.contract.tools import ToolDescriptor, ToolResult
from wakeful.loop.calls.batch import NewCall, SuspendedCall, Unfinished, done_event
from wakeful.loop.calls.commit import batch_of, move, result_message_id
from wakeful.loop.machine.state import REMEMBERED_SUSPENSIONS, Advance, Thread

LONGEST_WAIT_MS = 10 * 365 * 24 * 3_600_000
"""Ten years: no timer runs longer."""


def suspend(thread: Thread, call: Unfinished, result: ToolResult, *, now: int, gated: bool = False) -> Advance:
    """Suspend a call under an id that no other suspension of the thread has, whatever id its tool chose."""
    resumes, edited = (0, None) if isinstance(call, NewCall) else (call.resumes, call.edited)
    ticket = result.suspension or _default_ticket(call.call, edited, result)
    taken = {*thread.suspensions, *(other.call.id for other in batch_of(thread).calls)}
    id = ticket.suspension.id or ids.suspension_id(call.call.id)
    while id in taken:
        id = ids.distinct_suspension_id(id, call.call.id)
    ticket = _completed(ticket, id, now)
    suspended = SuspendedCall(call.call, ticket, since=now, resumes=resumes, edited=edited, gated=gated)
    thread = replace(thread, suspensions=(*thread.suspensions, id)[-REMEMBERED_SUSPENSIONS:])
    published = result.model_copy(update={"suspension": ticket})
    event = done_event(call.call, published, message_id=result_message_id(thread, call.call.id), gated=gated)
    return move(thread, suspended, event)


def frontend_result(tool: ToolDescriptor, call: ToolCall) -> ToolResult:
    """The pending result of a frontend tool: a decision brings what the front end made of it."""
    asked = call.arguments.get("question") if isinstance(call.arguments, dict) else None
    suspension = Suspension(
        id="",
        action=f"tool:{call.name}",
        message=asked if call.name == TOOL_REMOTE_INPUT and isinstance(asked, str) else None,
        parameters=call.arguments,
        response_schema=tool.result_schema,
    )
    mode = ResumeMode.USE_DECISION_AS_TOOL_RESULT
    return ToolResult.suspended(call.name, SuspensionTicket(suspension=suspension, pending=call, resume_mode=mode))


def _default_ticket(call: ToolCall, edited: object, result: ToolResult) -> SuspensionTicket:
    suspension = Suspension(id="", action=f"tool:{call.name}", message=result.message)
    pending = call if edited is None else call.model_copy(update={"arguments": edited})
    return SuspensionTicket(suspension=suspension, pending=pending)


def _completed(ticket: SuspensionTicket, id: str, now: int) -> SuspensionTicket:
    """The ticket with what only the loop knows: its id, the digest of its arguments, and its deadlines."""
    suspension = ticket.suspension
    expiry = suspension.expiry
    return ticket.model_copy(
        update={
            "suspension": suspension.model_copy(update={"id": id}),
            "pending": ticket.pending.for_tool,
            "arguments_digest": digest_arguments(ticket.pending.arguments),
            "expires_at": _later(now, expiry.after_seconds if expiry else None),
            "escalates_at": _later(now, suspension.escalate_after_seconds),
        }
    )


def _later(now: int, seconds: float | None) -> int | None:
    return None if seconds is None else now + max(1, round(min(seconds * 1000, LONGEST_WAIT_MS)))
