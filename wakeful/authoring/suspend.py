"""Suspend a tool call until someone decides about it: the same question for tools, gates and `tool_gate` hooks.

A tool suspends by raising, so it stops where it is; a gate by returning a verdict; a hook by recording one.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pydantic import JsonValue

from wakeful.authoring.json_schemas import schema_problem
from wakeful.contract.choices import member_named
from wakeful.contract.decisions import (
    Expiry,
    ExpiryAction,
    ExpiryActionName,
    ResumeMode,
    ResumeModeName,
    Suspension,
    SuspensionTicket,
)
from wakeful.contract.ids import suspension_id
from wakeful.contract.messages import ToolCall
from wakeful.contract.runs import RunIdentity

Suspended = TypeVar("Suspended")


@dataclass(frozen=True)
class SuspendableCall(Generic[Suspended]):
    """A tool call that can be suspended. `Suspended` is what `suspend` returns."""

    identity: RunIdentity
    call_id: str
    tool_name: str
    arguments: JsonValue
    """What the tool runs with: the model's arguments, or those of a decision that replaced them."""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict, kw_only=True)
    """Of the message that began the run."""

    @property
    def tenant(self) -> str | None:
        """The tenant that the thread belongs to."""
        return self.identity.tenant

    @property
    def user(self) -> str | None:
        """The user for whom the run acts."""
        return self.identity.user

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
        resume_mode: ResumeMode | ResumeModeName = ResumeMode.REPLAY_TOOL_CALL,
        expires_after: float | None = None,
        on_expiry: ExpiryAction | ExpiryActionName = ExpiryAction.CANCEL,
        default_result: JsonValue = None,
        escalate_after: float | None = None,
    ) -> Suspended:
        """Suspend the call until someone decides. It waits in Temporal; no worker is busy meanwhile.

        Args:
            message: the question, for people.
            action: the question, for programs; `tool:<name>` by default.
            parameters: what the decider is shown; the call's arguments by default.
            response_schema: a JSON schema that the decision's result must match.
            resume_mode: what a decision to resume does; by default the call runs with its own arguments.
            expires_after: seconds after which the question expires.
            on_expiry: whether an expired call is cancelled, denied, or resumed with `default_result`.
            escalate_after: seconds without a decision after which watchers get a `decision_overdue` event.

        Raises:
            ValueError: the arguments do not go together, or `response_schema` is not a JSON schema.
        """
        then = member_named(ExpiryAction, on_expiry, parameter="on_expiry")
        expiry = _expiry(expires_after, then, default_result)
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
        mode = member_named(ResumeMode, resume_mode, parameter="resume_mode")
        return self._suspended(SuspensionTicket(suspension=suspension, pending=self.call, resume_mode=mode))

    def _suspended(self, ticket: SuspensionTicket) -> Suspended:
        raise NotImplementedError


def _expiry(after: float | None, then: ExpiryAction, result: JsonValue) -> Expiry | None:
    if result is not None and then is not ExpiryAction.RESUME:
        raise ValueError("default_result is the result of a call that is resumed on expiry: pass on_expiry='resume'")
    _check_seconds("expires_after", after)
    if after is not None:
        return Expiry(after_seconds=after, then=then, result=result)
    if then is not ExpiryAction.CANCEL:
        raise ValueError(f"on_expiry={then.value!r} needs expires_after, in seconds")
    return None


def _check_seconds(name: str, seconds: float | None) -> None:
    if seconds is not None and not 0 < seconds < math.inf:
        raise ValueError(f"{name} is {seconds!r}; it must be a finite number of seconds above 0")


def _check_schema(schema: JsonValue) -> None:
    if not isinstance(schema, dict | bool):
        raise ValueError(f"response_schema must be a JSON schema, not a {type(schema).__name__}")
    if (problem := schema_problem(schema)) is not None:
        raise ValueError(f"response_schema is not a valid JSON schema: {problem}")
