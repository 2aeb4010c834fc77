"""Stop conditions: when a run ends although its model would go on. Declared on an agent; checked after every answer."""

from typing import Annotated, Literal

from pydantic import Field

from wakeful.contract.base import Written


class MaxRounds(Written):
    """So many rounds of tool calls."""

    type: Literal["max_rounds"] = "max_rounds"
    rounds: int = Field(ge=1)


class Timeout(Written):
    """So long since the run began."""

    type: Literal["timeout"] = "timeout"
    seconds: float = Field(gt=0, allow_inf_nan=False)


class TokenBudget(Written):
    """So many prompt and completion tokens in the run."""

    type: Literal["token_budget"] = "token_budget"
    max_total: int = Field(ge=1)


class ConsecutiveErrors(Written):
    """So many rounds in a row in which every tool call failed."""

    type: Literal["consecutive_errors"] = "consecutive_errors"
    max: int = Field(ge=1)


class StopOnTool(Written):
    """The model asks for this tool, which is then not run."""

    type: Literal["stop_on_tool"] = "stop_on_tool"
    tool_name: str = Field(min_length=1)


class ContentMatch(Written):
    """The model's text matches this regular expression."""

    type: Literal["content_match"] = "content_match"
    pattern: str = Field(min_length=1)


class LoopDetection(Written):
    """The model has said the same so many times in a row."""

    type: Literal["loop_detection"] = "loop_detection"
    window: int = Field(ge=2)


StopCondition = Annotated[
    MaxRounds | Timeout | TokenBudget | ConsecutiveErrors | StopOnTool | ContentMatch | LoopDetection,
    Field(discriminator="type"),
]
