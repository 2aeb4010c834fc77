"""How a tool or a gate asks somebody to decide about its call: one question, and two ways to put it.

A tool puts it by raising (it stops where it is), a gate by returning it as its verdict.
"""

import math
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import JsonValue

from wakeful.contract.decisions import Expiry, ExpiryAction, ResumeMode, Suspension, SuspensionTicket
from wakeful.contract.ids import suspension_id
from wakeful.contract.messages import ToolCall
from wakeful.contract.runs import RunIdentity

Asked = TypeVar("Asked")


@dataclass(frozen=True)
class OneCall(Generic[Asked]):
    """A tool call that can be suspended. `Asked` is what becomes of the question."""

    identity: RunIdentity
    call_id: str
    tool_name: str
    arguments: JsonValue
    """What the tool runs with: the model's arguments, or those that a decision put in their place."""

    @property
    def call(self) -> ToolCall:
        return ToolCall(id=self.call_id, name=self.tool_name, arguments=self.arguments)

    def suspend(
        self,
        message: str,
        *,
        action: str | None = None,
        parameters: JsonValue = None,
        response_schema: JsonValue = None,
        resume_mode: ResumeMode = ResumeMode.REPLAY_TOOL_CALL,
        expires_after: float | None = None,
        on_expiry: ExpiryAction | Literal["cancel", "deny", "resume"] = ExpiryAction.CANCEL,
        default_result: JsonValue = None,
        escalate_after: float | None = None,
    ) -> Asked:
        """Let the call wait until somebody decides; no worker is busy meanwhile.

        Args:
            message: what is asked, for people.
            action: what is asked, for programs; `tool:<name>` unless it is given.
            parameters: what there is to see for whoever decides; the call's arguments unless they are given.
            response_schema: a JSON schema that the decision's result has to fit.
            resume_mode: what a decision to resume does; unless it is given, the call is made with its own arguments.
            expires_after: seconds after which nobody need decide any more.
            on_expiry: what becomes of the call then: it is cancelled, denied, or resumed with `default_result`.
            escalate_after: seconds after which watchers are told again that a decision is missing.

        Raises:
            ValueError: the question makes no sense, as with a schema that is none.
        """
        expiry = _expiry(expires_after, ExpiryAction(on_expiry), default_result)
        _check_seconds("escalate_after", escalate_after)
        if response_schema is not None:
            _check_schema(response_schema)
        suspension = Suspension(
            id=suspension_id(self.call_id),
            action=action or f"tool:{self.tool_name}",
            message=message,
            parameters=self.arguments if parameters is None else parameters,
            response_schema=response_schema,
            expiry=expiry,
            escalate_after_seconds=escalate_after,
        )
        return self._asked(SuspensionTicket(suspension=suspension, pending=self.call, resume_mode=resume_mode))

    def _asked(self, ticket: SuspensionTicket) -> Asked:
        raise NotImplementedError


def _expiry(after: float | None, then: ExpiryAction, result: JsonValue) -> Expiry | None:
    if result is not None and then is not ExpiryAction.RESUME:
        raise ValueError("default_result is what an expired call goes on with; say on_expiry='resume' as well")
    _check_seconds("expires_after", after)
    if after is not None:
        return Expiry(after_seconds=after, then=then, result=result)
    if then is not ExpiryAction.CANCEL:
        raise ValueError(f"on_expiry={then.value!r} needs expires_after, in seconds")
    return None


def _check_seconds(name: str, seconds: float | None) -> None:
    if seconds is not None and not 0 < seconds < math.inf:
        raise ValueError(f"{name} is {seconds!r}; it must be more than 0 seconds, and not for ever")


def _check_schema(schema: JsonValue) -> None:
    if not isinstance(schema, dict | bool):
        raise ValueError(f"response_schema must be a JSON schema, not a {type(schema).__name__}")
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"response_schema is no JSON schema: {error.message}") from error
