"""Permission rules: which tool calls are allowed, which need a decision, and which are denied."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from wakeful.contract.base import Written


class Behavior(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


BehaviorName = Literal["allow", "ask", "deny"]


class Rule(Written):
    """`tool` is a pattern: `read_file`, `read_*`, `/^read_/`, `shell(git *)`, `pay(amount =~ "^[0-9]{1,2}$")`."""

    tool: str = Field(min_length=1)
    behavior: Behavior

    if TYPE_CHECKING:

        def __init__(self, *, tool: str, behavior: Behavior | BehaviorName) -> None: ...


class PermissionPolicy(Written):
    """Deny rules win over allow rules, and those over ask rules; among equals the most specific rule wins."""

    default_behavior: Behavior = Behavior.ASK
    rules: tuple[Rule, ...] = ()

    if TYPE_CHECKING:

        def __init__(self, *, default_behavior: Behavior | BehaviorName = ..., rules: Sequence[Rule] = ...) -> None: ...
