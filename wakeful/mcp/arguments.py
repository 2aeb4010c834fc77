"""What a client passes to a tool: the models that check it, and the schemas that models read.

A repeated request must find its run, and a client has little that survives a new connection: the numbers of its
requests begin anew. So `request_id`, an argument or an entry of the request's `_meta`, names the request.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import Field, JsonValue, ValidationError

from wakeful.contract.base import Written
from wakeful.contract.errors import CallerError, validation_problems

META_REQUEST = "wakeful/request_id"
META_THREAD = "wakeful/thread_id"
META_RUN = "wakeful/run_id"
META_STATUS = "wakeful/status"
"""Keys of `_meta`: the first two of requests, and all but the first of results."""

RequestId = Field(default=None, min_length=1, max_length=1000)


class AgentArguments(Written):
    """The arguments of an agent's tool."""

    message: str = Field(min_length=1)
    thread_id: str | None = Field(default=None, min_length=1)
    request_id: str | None = RequestId


class ContinueArguments(Written):
    """The arguments of `continue`: without a decision or an answer, it only waits."""

    thread_id: str = Field(min_length=1)
    ticket: str | None = Field(default=None, min_length=1)
    decision: Literal["approve", "deny"] | None = None
    answer: JsonValue = None
    reason: str | None = None

    @property
    def decides(self) -> bool:
        return self.decision is not None or self.answer is not None


class CancelArguments(Written):
    """The arguments of `cancel`."""

    thread_id: str = Field(min_length=1)
    reason: str | None = None


A = TypeVar("A", bound=Written)


def parse_arguments(kind: type[A], tool: str, written: Mapping[str, Any] | None) -> A:
    """The arguments of a call. Raises `CallerError` with everything that is wrong with them."""
    try:
        return kind.model_validate(dict(written or {}))
    except ValidationError as error:
        raise CallerError(f"the arguments of {tool!r} are wrong: {'; '.join(validation_problems(error))}") from None


def parse_agent_arguments(
    tool: str, written: Mapping[str, Any] | None, meta: Mapping[str, Any] | None
) -> AgentArguments:
    """The arguments of an agent's tool; what they leave out may be in the request's `_meta`."""
    given = {"thread_id": (meta or {}).get(META_THREAD), "request_id": (meta or {}).get(META_REQUEST)}
    return parse_arguments(AgentArguments, tool, {**given, **(written or {})})


def agent_schema() -> dict[str, Any]:
    """The input schema of an agent's tool."""
    return _object(
        {
            "message": _text(
                "The task or question, with everything the agent needs to know: it sees nothing of this conversation."
            ),
            "thread_id": _text(
                "Continue the conversation on this thread, which an earlier result named. Leave it out to start a new "
                "one."
            ),
            "request_id": _text(
                "An id of your choice for this request. If you call again with the same id, because you lost the "
                "answer, you get the same run instead of a second one."
            ),
        },
        required=["message"],
    )


def continue_schema(*, decisions: bool) -> dict[str, Any]:
    """The input schema of `continue`."""
    properties = {"thread_id": _text("The thread, as the result that is not finished named it.")}
    if decisions:
        properties |= {
            "ticket": _text("Which decision this is, if the run waits for several: its ticket."),
            "decision": {
                **_text("The person's decision on the call that the run waits with."),
                "enum": ["approve", "deny"],
            },
            "answer": {
                "description": "The person's answer, if the run waits for one: JSON that matches the given schema."
            },
            "reason": _text("Why, in the person's words. The agent reads it."),
        }
    return _object(properties, required=["thread_id"])


def cancel_schema() -> dict[str, Any]:
    """The input schema of `cancel`."""
    properties = {"thread_id": _text("The thread whose run to cancel."), "reason": _text("Why.")}
    return _object(properties, required=["thread_id"])


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _object(properties: dict[str, Any], *, required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
