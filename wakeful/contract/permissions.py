"""Permission rules: which tool calls may be made, which need a person, and which are out of the question."""

from enum import StrEnum

from pydantic import Field

from wakeful.contract.base import Written


class Behavior(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Rule(Written):
    """`tool` is a pattern: `read_file`, `read_*`, `/^read_/`, `shell(git *)`, `pay(amount =~ "^[0-9]{1,2}$")`."""

    tool: str = Field(min_length=1)
    behavior: Behavior


class PermissionPolicy(Written):
    """Any rule that denies wins, then one that allows, then one that asks; of equals the most specific counts."""

    default_behavior: Behavior = Behavior.ASK
    rules: tuple[Rule, ...] = ()
