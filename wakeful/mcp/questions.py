"""A pending decision as a form for a person, and what the person filled in as a decision.

Forms of the protocol are flat: texts, numbers, booleans and choices. What does not fit is asked for as JSON. The thread
itself checks every answer against the whole schema.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from wakeful.client.approvals import PendingDecision
from wakeful.contract.decisions import DecisionAction
from wakeful.contract.errors import CallerError
from wakeful.contract.ids import ticket_id

ANSWER = "answer"
ALWAYS = "always"

_PRIMITIVES = ("string", "number", "integer", "boolean")
_KEYWORDS = ("type", "title", "description", "default", "enum", "minLength", "maxLength", "minimum", "maximum")
"""Those of a form's fields that clients know. Others are left out: the thread checks them."""


@dataclass(frozen=True)
class Answer:
    """A decision, without what it is about."""

    action: DecisionAction
    result: JsonValue = None
    reason: str | None = None
    always: bool = False


def ticket_of(pending: PendingDecision) -> str:
    """How a client names a pending decision.

    By its suspension, because a call may suspend twice: a repeated answer to its first question must not answer the
    second.
    """
    return ticket_id(pending.thread_id, pending.suspension_id or pending.call_id)


def question_text(pending: PendingDecision, *, problem: str | None = None) -> str:
    """What a person reads: the call with its arguments, and the question of the tool or the rule."""
    asked = f"The agent {pending.agent_id!r} wants to call {pending.tool_name!r} with {_json(pending.arguments)}."
    if pending.needs_result:
        asked = f"The agent {pending.agent_id!r} asks, by {pending.tool_name!r} with {_json(pending.arguments)}."
    said = f"\n{pending.message}" if pending.message else ""
    return f"{asked}{said}" + (f"\nThe last answer was refused: {problem}" if problem else "")


def form(pending: PendingDecision) -> dict[str, Any]:
    """The form that asks for a decision: to accept it approves or answers, to decline it denies."""
    if not pending.needs_result:
        rule = {"type": "boolean", "title": f"Always allow {pending.remember}", "default": False}
        return _object({ALWAYS: rule} if pending.remember else {}, required=[])
    schema = pending.response_schema
    if (fields := _fields(schema)) is not None:
        required = schema.get("required") if isinstance(schema, dict) else None
        return _object(fields, required=[*required] if isinstance(required, list) else [])
    field = {"type": "string"} if schema is None else _field(schema)
    return _object({ANSWER: field or _json_field(schema)}, required=[ANSWER])


def parse_form(pending: PendingDecision, content: Mapping[str, Any] | None) -> Answer:
    """The decision that a filled-in form means. Raises `CallerError` if a field that should have JSON has not."""
    given = dict(content or {})
    if not pending.needs_result:
        return Answer(DecisionAction.RESUME, always=bool(pending.remember and given.get(ALWAYS)))
    schema = pending.response_schema
    if _fields(schema) is not None:
        return Answer(DecisionAction.RESUME, result=given)
    if schema is None or _field(schema) is not None:
        return Answer(DecisionAction.RESUME, result=given.get(ANSWER))
    try:
        return Answer(DecisionAction.RESUME, result=json.loads(str(given.get(ANSWER))))
    except json.JSONDecodeError as error:
        raise CallerError(f"the answer is not JSON: {error}; a text needs quotes") from None


def _fields(schema: JsonValue) -> dict[str, Any] | None:
    """The fields of a form for an object; None if it has others than a form may have."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return None
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return None
    fields = {name: _field(each) for name, each in properties.items()}
    return fields if all(fields.values()) else None


def _field(schema: JsonValue) -> dict[str, Any] | None:
    if not isinstance(schema, dict) or schema.get("type") not in _PRIMITIVES:
        return None
    field = {name: schema[name] for name in _KEYWORDS if name in schema}
    choices = field.get("enum", [])
    is_plain = isinstance(choices, list) and all(isinstance(choice, str) for choice in choices)
    return field if is_plain and (not choices or field["type"] == "string") else None


def _json_field(schema: JsonValue) -> dict[str, Any]:
    return {"type": "string", "description": f"JSON that matches this schema: {_json(schema)}"}


def _object(properties: dict[str, Any], *, required: list[Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return {**schema, "required": required} if required else schema


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)
