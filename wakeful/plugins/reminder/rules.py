"""The rules of reminders: after which tool calls, with which results, the model reads which message."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, JsonValue, field_validator, model_validator

from wakeful import ContextTarget, ToolPattern, ToolResult, parse_pattern

Operator = Literal["~", "=", "=~", "!~", "!=", "!=~"]


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class ReminderCondition(Frozen):
    """A condition on a result's data, as in permission patterns: `path op "value"`."""

    path: str
    op: Operator = "~"
    value: str

    @model_validator(mode="after")
    def _is_valid(self) -> "ReminderCondition":
        _condition(self.path, self.op, self.value)
        return self

    def holds(self, data: JsonValue) -> bool:
        return _condition(self.path, self.op, self.value).matches(_TOOL, data)


class ReminderOutput(Frozen):
    """Which results match."""

    status: Literal["success", "error", "any"] = "any"
    content: str | tuple[ReminderCondition, ...] = "*"
    """A glob for the text of the result, or conditions on its data, all of which must hold."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            status: Literal["success", "error", "any"] = ...,
            content: str | Sequence[ReminderCondition] = ...,
        ) -> None: ...

    @field_validator("content")
    @classmethod
    def _is_valid(cls, content: str | tuple[ReminderCondition, ...]) -> str | tuple[ReminderCondition, ...]:
        if isinstance(content, str):
            _condition("text", "~", content)
        return content

    def matches(self, result: ToolResult) -> bool:
        if self.status not in ("any", result.status.value):
            return False
        if isinstance(self.content, str):
            return _condition("text", "~", self.content).matches(_TOOL, {"text": result.text})
        return all(field.holds(result.data) for field in self.content)


class ReminderMessage(Frozen):
    """The message that the model reads in its next request."""

    content: str
    target: ContextTarget = ContextTarget.SUFFIX_SYSTEM
    cooldown_turns: int = 0
    """Send it again only after this many steps."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            content: str,
            target: ContextTarget | Literal["system", "session", "conversation", "suffix_system"] = ...,
            cooldown_turns: int = ...,
        ) -> None: ...


class ReminderRule(Frozen):
    """After which calls to remind. `tool` is a pattern as in permission rules, such as `shell(git *)`."""

    name: str | None = None
    tool: str
    output: Literal["any"] | ReminderOutput = "any"
    message: ReminderMessage

    @field_validator("tool")
    @classmethod
    def _is_a_pattern(cls, tool: str) -> str:
        parse_pattern(tool)
        return tool

    def matches(self, tool_name: str, arguments: JsonValue, result: ToolResult) -> bool:
        if not parse_pattern(self.tool).matches(tool_name, arguments):
            return False
        return self.output == "any" or self.output.matches(result)


class ReminderSettings(BaseModel):
    rules: tuple[ReminderRule, ...] = ()
    """In addition to the rules of the plugin's constructor."""

    if TYPE_CHECKING:

        def __init__(self, *, rules: Sequence[ReminderRule] = ...) -> None: ...


_TOOL = "result"
"""Patterns need a tool's name; this one is a placeholder."""


def _condition(path: str, op: str, value: str) -> ToolPattern:
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    pattern = parse_pattern(f'{_TOOL}({path} {op} "{quoted}")')
    if not isinstance(pattern.arguments, tuple) or len(pattern.arguments) != 1:
        raise ValueError(f"{path!r} is not a path; write it as a.b[0].c")  # it would be parsed as something else
    return pattern
