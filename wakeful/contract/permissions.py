"""Permission rules: which tool calls are allowed, which need a decision, and which are denied."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from wakeful.contract.base import Maybe, Written
from wakeful.contract.decisions import Expiry, ExpiryAction
from wakeful.contract.limits import REASON_LENGTH


class Behavior(StrEnum):
    """What a rule does with a tool call: `ask` suspends it for a person's decision."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


BehaviorName = Literal["allow", "ask", "deny"]


_OF_EVERY_RULE = {"tool", "behavior"}

RuleExpiry = Literal[ExpiryAction.CANCEL, ExpiryAction.DENY]
"""What happens to a call that is not decided in time: silence never approves one."""

RuleExpiryName = Literal["cancel", "deny"]


class Rule(Written):
    """`tool` is a pattern: `read_file`, `read_*`, `/^read_/`, `shell(git *)`, `pay(amount > 100)`."""

    tool: str = Field(min_length=1)
    behavior: Behavior
    message: Maybe[Annotated[str, Field(min_length=1, max_length=REASON_LENGTH)]] = None
    """Of a rule that asks, the question; of one that denies, the reason. `{amount}` is an argument of the call."""
    escalate_after: Maybe[Annotated[float, Field(gt=0, allow_inf_nan=False)]] = None
    """Of a rule that asks: seconds without a decision after which watchers get a `decision_overdue` event."""
    expires_after: Maybe[Annotated[float, Field(gt=0, allow_inf_nan=False)]] = None
    """Of a rule that asks: seconds after which the question expires."""
    on_expiry: Maybe[RuleExpiry] = None
    """Whether a call whose question has expired is cancelled, as by default, or denied."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            tool: str,
            behavior: Behavior | BehaviorName,
            message: str | None = ...,
            escalate_after: float | None = ...,
            expires_after: float | None = ...,
            on_expiry: RuleExpiry | RuleExpiryName | None = ...,
        ) -> None: ...

    @model_validator(mode="after")
    def _fits_its_behavior(self) -> Self:
        if self.model_fields_set <= _OF_EVERY_RULE:
            return self  # a request may have very many
        given = [name for name in ("escalate_after", "expires_after", "on_expiry") if getattr(self, name) is not None]
        if self.behavior is Behavior.ALLOW and self.message is not None:
            given = ["message", *given]
        if given and self.behavior is not Behavior.ASK:
            kinds = "'ask' or 'deny'" if given[0] == "message" else "'ask'"
            raise ValueError(f"a rule that says {self.behavior.value!r} has no {given[0]}: only {kinds} can have one")
        if self.on_expiry is not None and self.expires_after is None:
            raise ValueError(f"on_expiry={self.on_expiry.value!r} needs expires_after, in seconds")
        return self

    @property
    def expiry(self) -> Expiry | None:
        """The deadline of the question; None if it has none."""
        if self.expires_after is None:
            return None
        return Expiry(after_seconds=self.expires_after, then=self.on_expiry or ExpiryAction.CANCEL)


class PermissionPolicy(Written):
    """Deny rules win over allow rules, and those over ask rules; among equals the most specific rule wins."""

    default_behavior: Behavior = Behavior.ASK
    rules: tuple[Rule, ...] = ()

    if TYPE_CHECKING:

        def __init__(self, *, default_behavior: Behavior | BehaviorName = ..., rules: Sequence[Rule] = ...) -> None: ...
