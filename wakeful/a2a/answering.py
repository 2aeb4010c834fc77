"""Read a client's message as the decision on a suspended call. Pure."""

import json

from a2a.types import Message
from a2a.utils.errors import InvalidParamsError
from google.protobuf.json_format import MessageToDict
from pydantic import JsonValue

from wakeful.a2a.parts import text_of, value_of
from wakeful.a2a.projection import WaitingCall
from wakeful.contract.applied_decisions import ACTOR_LENGTH
from wakeful.contract.decisions import Decision, DecisionAction, ResumeMode, SuspensionTicket
from wakeful.contract.limits import cut
from wakeful.contract.names import ACTION_PERMISSION
from wakeful.contract.schemas import mismatch

APPROVING = frozenset({"approve", "approved", "yes", "y", "ok", "okay", "allow", "allowed", "confirm", "confirmed"})
DENYING = frozenset({"deny", "denied", "no", "n", "reject", "rejected", "refuse", "cancel", "disallow"})

HOW_TO_ANSWER = (
    'answer with "approve" or "deny", perhaps with a reason after it, or with data: {"approved": true}, {"approved": '
    'false, "reason": "…"}, or {"approved": true, "result": …}'
)


NOT_THEIRS = (
    "the task waits for a decision that the staff of this service make: wait until they have, or cancel the task"
)


def chosen_call(waiting: list[WaitingCall], message: Message) -> WaitingCall:
    """The call that a message answers: the one that its metadata names with `call_id`, or else the oldest.

    Args:
        waiting: the calls that clients may decide.

    Raises:
        InvalidParamsError: no call with that id waits for a client.
    """
    if not waiting:
        raise InvalidParamsError(NOT_THEIRS)
    wanted = message.metadata.fields["call_id"].string_value if "call_id" in message.metadata.fields else None
    for call in waiting:
        if wanted in (None, call.ticket.pending.id, call.ticket.suspension.id):
            return call
    known = ", ".join(repr(call.ticket.pending.id) for call in waiting)
    raise InvalidParamsError(f"no call {wanted!r} waits for an answer; waiting: {known}")


def actor_of(user: str, program: str) -> str:
    """Who decides: the user whom the server has authenticated, if any, and the client's program as it names itself."""
    product = cut(" ".join("".join(each if each.isprintable() else " " for each in program).split()), ACTOR_LENGTH)
    client = f"A2A client {product}" if product else "A2A client"
    return f"{user} ({client})" if user else client


def decision_of(ticket: SuspensionTicket, message: Message, *, actor: str) -> Decision:
    """The decision that a message makes. It is bound to the question and the arguments that were shown.

    Raises:
        InvalidParamsError: the question is whether to run the call, and the message neither approves nor denies it.
    """
    if _is_approval(ticket):
        action, result, reason = _approval(message)
    elif MessageToDict(message.metadata).get("action") == DecisionAction.CANCEL:
        action, result, reason = DecisionAction.CANCEL, None, text_of(message) or None
    else:
        action, result, reason = DecisionAction.RESUME, _fitting(value_of(message), ticket), None
    return Decision(
        target=ticket.suspension.id,
        action=action,
        result=result,
        reason=reason,
        decision_id=message.message_id,
        actor=actor,
        channel="a2a",
        arguments_digest=ticket.arguments_digest,
    )


def _is_approval(ticket: SuspensionTicket) -> bool:
    """Whether the question is only whether the call may run: then no other text may let it run.

    Gates and tools that ask for no particular answer have the tool itself as their action.
    """
    suspension = ticket.suspension
    asks_of_call = suspension.action in (ACTION_PERMISSION, f"tool:{ticket.pending.name}")
    is_replayed = ticket.resume_mode is ResumeMode.REPLAY_TOOL_CALL
    return asks_of_call and is_replayed and suspension.response_schema is None


def _approval(message: Message) -> tuple[DecisionAction, JsonValue, str | None]:
    value = value_of(message)
    if isinstance(value, dict) and isinstance(value.get("approved"), bool):
        reason = value.get("reason")
        action = DecisionAction.RESUME if value["approved"] else DecisionAction.CANCEL
        return action, value.get("result"), reason if isinstance(reason, str) else None
    if isinstance(value, bool):
        return DecisionAction.RESUME if value else DecisionAction.CANCEL, None, None
    words = value.split(maxsplit=1) if isinstance(value, str) else []
    word = words[0].strip(".,:;!").lower() if words else ""
    reason = words[1] if len(words) > 1 else None
    if word in APPROVING:
        return DecisionAction.RESUME, None, reason
    if word in DENYING:
        return DecisionAction.CANCEL, None, reason
    raise InvalidParamsError(f"the task waits for a permission: {HOW_TO_ANSWER}")


def _fitting(value: JsonValue, ticket: SuspensionTicket) -> JsonValue:
    """The value; of a text that is the JSON which the question asks for, that JSON."""
    schema = ticket.suspension.response_schema
    if not isinstance(value, str) or schema is None or mismatch(value, schema) is None:
        return value
    try:
        parsed: JsonValue = json.loads(value)
    except ValueError:
        return value
    return parsed if mismatch(parsed, schema) is None else value
