"""Rules of the reminder: after which calls, with which results, the model is told what. Data, checked as it is read."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue, field_validator, model_validator

from wakeful import ContextTarget, ToolPattern, ToolResult, parse_pattern

Operator = Literal["~", "=", "=~", "!~", "!=", "!=~"]


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Field(Frozen):
    """A condition on a result's data, as in the conditions of a pattern: `path op "value"`."""

    path: str
    op: Operator = "~"
    value: str

    @model_validator(mode="after")
    def _can_be_read(self) -> "Field":
        _condition(self.path, self.op, self.value)
        return self

    def holds(self, data: JsonValue) -> bool:
        return _condition(self.path, self.op, self.value).matches(_TOOL, data)


class Output(Frozen):
    """Which results are meant."""

    status: Literal["success", "error", "any"] = "any"
    content: str | tuple[Field, ...] = "*"
    """A glob for the text that the model reads, or conditions on the data, all of which must hold."""

    @field_validator("content")
    @classmethod
    def _can_be_read(cls, content: str | tuple[Field, ...]) -> str | tuple[Field, ...]:
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
    """What the model is told with its next request."""

    content: str
    target: ContextTarget = ContextTarget.SUFFIX_SYSTEM
    cooldown_turns: int = 0
    """Say it again only after so many steps."""


class ReminderRule(Frozen):
    """`tool` is a pattern as permission rules have them: `shell(git *)`."""

    name: str | None = None
    tool: str
    output: Literal["any"] | Output = "any"
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
    """Besides the rules that the plugin itself has."""


_TOOL = "result"
"""Conditions are part of a pattern, and a pattern names a tool: this stands for it."""


def _condition(path: str, op: str, value: str) -> ToolPattern:
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    pattern = parse_pattern(f'{_TOOL}({path} {op} "{quoted}")')
    if not isinstance(pattern.arguments, tuple) or len(pattern.arguments) != 1:
        raise ValueError(f"{path!r} is no path; write it as a.b[0].c")  # it would be read as something else
    return pattern
