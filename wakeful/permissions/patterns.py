"""Patterns of tool calls: a tool's name, and conditions on its arguments. `parsing.py` parses them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, assert_never

from pydantic import JsonValue

from wakeful.permissions.text_matcher import Kind, TextMatcher, as_text


class Every(StrEnum):
    """A step of a path that matches every element or every field."""

    ELEMENT = "[*]"
    FIELD = "*"


Step = str | int | Every
"""A field's name, an element's number, or every one of them."""

OPERATORS = {
    "~": (Kind.GLOB, False),
    "=": (Kind.EXACT, False),
    "=~": (Kind.REGEX, False),
    "!~": (Kind.GLOB, True),
    "!=": (Kind.EXACT, True),
    "!=~": (Kind.REGEX, True),
}


CONTEXT_FIELDS = ("tenant", "user", "metadata")
"""What patterns can read of the run that makes a call."""


class Specificity(NamedTuple):
    """How specific a pattern is; the greater wins."""

    tool: Kind
    has_conditions: bool
    conditions: int
    precision: int


@dataclass(frozen=True)
class Condition:
    """`path op "text"`: holds if any value at the path matches; does not hold if there is none.

    The path leads into the call's arguments or, with a `$` before it, into the context of its run. In a run
    that has no value there, it holds as `when_unsure` says: a run that mail begins has no user, though one caused it.
    """

    path: tuple[Step, ...]
    text: TextMatcher
    negated: bool = False
    of_run: bool = False

    def holds(self, arguments: JsonValue, context: JsonValue, *, when_unsure: bool) -> bool:
        values = list(_values_at(context if self.of_run else arguments, self.path))
        if self.of_run and not values:
            return when_unsure
        return any(self._holds_of(value, when_unsure) for value in values)

    def _holds_of(self, value: JsonValue, when_unsure: bool) -> bool:
        matches = self.text.matches(as_text(value))
        return when_unsure if matches is None else matches is not self.negated

    def __str__(self) -> str:
        path = ("$" if self.of_run else "") + "".join(_step_text(step) for step in self.path).removeprefix(".")
        operator = next(sign for sign, meaning in OPERATORS.items() if meaning == (self.text.kind, self.negated))
        quoted = self.text.text.replace("\\", "\\\\").replace('"', '\\"')
        return f'{path} {operator} "{quoted}"'


@dataclass(frozen=True)
class ToolPattern:
    """Matches calls by the tool's name, and by its primary argument, by conditions, or with any arguments."""

    tool: TextMatcher
    arguments: TextMatcher | tuple[Condition, ...] | None = None

    def matches(
        self, tool_name: str, arguments: JsonValue, *, context: JsonValue = None, when_unsure: bool = False
    ) -> bool:
        """Whether the call matches, in a run with this context.

        `when_unsure` if an argument is too long to search, or if a condition reads what the run does not have.
        """
        named = self.tool.matches(tool_name)
        if named is False:
            return False
        match self.arguments:
            case None:
                matches: bool | None = True
            case TextMatcher() as text:
                matches = text.matches(primary(arguments))
            case conditions:
                matches = all(each.holds(arguments, context, when_unsure=when_unsure) for each in conditions)
        if matches is False:
            return False
        return when_unsure if named is None or matches is None else True

    def covers(self, other: "ToolPattern") -> bool:
        """Whether it has no conditions, and matches every call that `other` matches."""
        return self.arguments is None and self.tool.covers(other.tool)

    @property
    def specificity(self) -> Specificity:
        match self.arguments:
            case None:
                return Specificity(self.tool.kind, False, 0, 0)
            case TextMatcher(kind=kind):
                return Specificity(self.tool.kind, True, 1, kind)
            case conditions:
                precision = sum(condition.text.kind for condition in conditions)
                return Specificity(self.tool.kind, True, len(conditions), precision)

    @property
    def whole_tool(self) -> str | None:
        """The tool's name, if the pattern matches exactly this tool with any arguments."""
        return self.tool.text if self.tool.kind is Kind.EXACT and self.arguments is None else None

    def whole_tool_in(self, context: JsonValue) -> str | None:
        """The tool's name, if the pattern matches exactly this tool with any arguments in a run with this context."""
        match self.arguments:
            case tuple() as conditions if all(condition.of_run for condition in conditions):
                holds = all(each.holds(None, context, when_unsure=True) for each in conditions)
                return replace(self, arguments=None).whole_tool if holds else None
            case _:
                return self.whole_tool

    def __str__(self) -> str:
        tool = f"/{self.tool.text}/" if self.tool.kind is Kind.REGEX else self.tool.text
        match self.arguments:
            case None:
                return tool
            case TextMatcher(text=text):
                return f"{tool}({text})"
            case conditions:
                return f"{tool}({', '.join(map(str, conditions))})"


def primary(arguments: JsonValue) -> str:
    """The primary argument as text: the only field, or all arguments if there is not exactly one."""
    if isinstance(arguments, dict) and len(arguments) == 1:
        return as_text(*arguments.values())
    return as_text(arguments)


def _values_at(value: JsonValue, path: tuple[Step, ...]) -> Iterator[JsonValue]:
    """Every value at the path."""
    if not path:
        yield value
        return
    step, rest = path[0], path[1:]
    match step:
        case Every.ELEMENT:
            inner = value if isinstance(value, list) else []
        case Every.FIELD:
            inner = list(value.values()) if isinstance(value, dict) else []
        case int():
            inner = value[step : step + 1] if isinstance(value, list) else []
        case str():
            inner = [value[step]] if isinstance(value, dict) and step in value else []
        case _:
            assert_never(step)
    for one in inner:
        yield from _values_at(one, rest)


def _step_text(step: Step) -> str:
    match step:
        case Every.ELEMENT:
            return "[*]"
        case int():
            return f"[{step}]"
        case _:
            return f".{step}"
