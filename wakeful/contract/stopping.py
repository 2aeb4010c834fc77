"""Stop conditions of an agent. The loop checks them after every answer and ends the run if one is met.

`MaxRounds` is the exception: it is the same limit as an agent's `max_rounds`, checked before the model is called.
"""

from typing import Annotated, Literal

from pydantic import Field

from wakeful.contract.base import Written


class MaxRounds(Written):
    """The run has made this many rounds of tool calls: `max_rounds=3` of an agent is short for it."""

    type: Literal["max_rounds"] = "max_rounds"
    rounds: int = Field(ge=1)


class Timeout(Written):
    """More time than this has passed since the run started. It interrupts nothing; `Budget(seconds=…)` does."""

    type: Literal["timeout"] = "timeout"
    seconds: float = Field(gt=0, allow_inf_nan=False)


class TokenBudget(Written):
    """The run has used more tokens than this, without its sub-agents; `Budget(tokens=…)` counts theirs, too."""

    type: Literal["token_budget"] = "token_budget"
    max_total: int = Field(ge=1)


class ConsecutiveErrors(Written):
    """Every tool call failed in this many rounds in a row."""

    type: Literal["consecutive_errors"] = "consecutive_errors"
    max: int = Field(ge=1)


class StopOnTool(Written):
    """The model calls this tool; the call is not executed."""

    type: Literal["stop_on_tool"] = "stop_on_tool"
    tool_name: str = Field(min_length=1)


class ContentMatch(Written):
    """The model's text matches this regular expression."""

    type: Literal["content_match"] = "content_match"
    pattern: str = Field(min_length=1)


class LoopDetection(Written):
    """The model has given the same answer this many times in a row."""

    type: Literal["loop_detection"] = "loop_detection"
    window: int = Field(ge=2)


StopCondition = Annotated[
    MaxRounds | Timeout | TokenBudget | ConsecutiveErrors | StopOnTool | ContentMatch | LoopDetection,
    Field(discriminator="type"),
]
