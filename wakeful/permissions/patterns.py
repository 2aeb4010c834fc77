"""Patterns of tool calls: a tool's name, and conditions on its arguments. `parsing.py` parses them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Final, Literal, NamedTuple, assert_never

from pydantic import JsonValue

from wakeful.permissions.text_matcher import VALUE_COST, Kind, Search, TextMatcher, as_text
from wakeful.permissions.value_tests import NumberTest, OneOf, quoted


class Every(StrEnum):
    """A step of a path that matches every element or every field."""

    ELEMENT = "[*]"
    FIELD = "*"


Step = str | int | Every
"""A field's name, an element's number, or every one of them."""


class _Absent(Enum):
    ABSENT = "absent"


ABSENT: Final = _Absent.ABSENT
"""In the place of a value that a call does not have."""

Found = JsonValue | Literal[_Absent.ABSENT]

OPERATORS = {
    "~": (Kind.GLOB, False),
    "=": (Kind.EXACT, False),
    "=~": (Kind.REGEX, False),
    "!~": (Kind.GLOB, True),
    "!=": (Kind.EXACT, True),
    "!=~": (Kind.REGEX, True),
}
"""What compares a value as text."""

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
    """`path op value`: whether the values at a path match.

    The path leads into the call's arguments or, with a `$` before it, into the context of its run. A text is compared
    with every value as text: the condition holds if any value matches, and does not if there is none. Only in a run
    that has no value there, it holds as `when_unsure` says: a run that mail begins has no user, though one caused it.

    A number or a list is compared with values of its type alone. About any other value, and about one that is absent,
    the condition is unsure. In a rule that denies or asks (`when_unsure`), it holds unless it is sure that no value
    matches; in one that allows, if it is sure that there are values and all of them match.
    """

    path: tuple[Step, ...]
    test: TextMatcher | NumberTest | OneOf
    negated: bool = False
    of_run: bool = False

    def holds(
        self, arguments: JsonValue, context: JsonValue, *, when_unsure: bool, search: Search | None = None
    ) -> bool:
        if search is not None and search.is_over:
            return when_unsure
        found = self.values(arguments, context)
        if search is not None and not search.takes(VALUE_COST * len(found)):
            return when_unsure
        if isinstance(self.test, TextMatcher):
            there = [value for value in found if value is not ABSENT]
            if self.of_run and not there:
                return when_unsure
            return any(self._holds_of(value, when_unsure, search) for value in there)
        if when_unsure:
            return any(self.verdict(value, search) is not False for value in found)
        return bool(found) and all(self.verdict(value, search) is True for value in found)

    def values(self, arguments: JsonValue, context: JsonValue) -> list[Found]:
        """The values at its path, some of which may be absent; none in an empty list."""
        return values_at(context if self.of_run else arguments, self.path)

    def verdict(self, value: Found, search: Search | None = None) -> bool | None:
        """Whether it holds for this value; None if that is not known."""
        if value is ABSENT:
            return None
        matches = self._matches(value, search)
        return None if matches is None else matches is not self.negated

    def _matches(self, value: JsonValue, search: Search | None) -> bool | None:
        test = self.test
        if isinstance(test, TextMatcher):
            return test.matches(_text_of(value, search), search)
        if isinstance(test, OneOf) and search is not None and not search.takes(len(test.members)):
            return None
        return test.matches(value)

    def _holds_of(self, value: Found, when_unsure: bool, search: Search | None) -> bool:
        verdict = self.verdict(value, search)
        return when_unsure if verdict is None else verdict

    @property
    def precision(self) -> int:
        return self.test.kind if isinstance(self.test, TextMatcher) else self.test.precision

    @property
    def where(self) -> str:
        """Its path as patterns spell it."""
        return ("$" if self.of_run else "") + path_text(self.path)

    def __str__(self) -> str:
        match self.test:
            case TextMatcher(kind=kind, text=text):
                sign = next(sign for sign, meaning in OPERATORS.items() if meaning == (kind, self.negated))
                return f"{self.where} {sign} {quoted(text)}"
            case NumberTest(sign=sign):
                return f"{self.where} {'!=' if self.negated else sign} {self.test}"
            case OneOf():
                return f"{self.where} {'not in' if self.negated else 'in'} {self.test}"
            case _:
                assert_never(self.test)


@dataclass(frozen=True)
class ToolPattern:
    """Matches calls by the tool's name, and by its primary argument, by conditions, or with any arguments."""

    tool: TextMatcher
    arguments: TextMatcher | tuple[Condition, ...] | None = None

    def matches(
        self,
        tool_name: str,
        arguments: JsonValue,
        *,
        context: JsonValue = None,
        when_unsure: bool = False,
        search: Search | None = None,
    ) -> bool:
        """Whether the call matches, in a run with this context.

        `when_unsure` if an argument is too long to search, or the search is over, if a condition reads what the run
        does not have, or if one compares what is not a number with a number.
        """
        named = self.tool.matches(tool_name)
        if named is False:
            return False
        match self.arguments:
            case None:
                matches: bool | None = True
            case TextMatcher() as text:
                matches = text.matches(_text_of(_primary(arguments), search), search)
            case conditions:
                matches = all(
                    each.holds(arguments, context, when_unsure=when_unsure, search=search) for each in conditions
                )
        if matches is False:
            return False
        return when_unsure if named is None or matches is None else True

    def covers(self, other: "ToolPattern") -> bool:
        """Whether it has no conditions, and matches every call that `other` matches."""
        return self.arguments is None and self.tool.covers(other.tool)

    @property
    def compiling_cost(self) -> int:
        """What compiling its globs and regular expressions takes."""
        match self.arguments:
            case None:
                texts: list[object] = [self.tool]
            case TextMatcher() as text:
                texts = [self.tool, text]
            case conditions:
                texts = [self.tool, *(condition.test for condition in conditions)]
        return sum(text.compiling_cost for text in texts if isinstance(text, TextMatcher))

    @property
    def specificity(self) -> Specificity:
        match self.arguments:
            case None:
                return Specificity(self.tool.kind, False, 0, 0)
            case TextMatcher(kind=kind):
                return Specificity(self.tool.kind, True, 1, kind)
            case conditions:
                precision = sum(condition.precision for condition in conditions)
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
    return as_text(_primary(arguments))


def _primary(arguments: JsonValue) -> JsonValue:
    return next(iter(arguments.values())) if isinstance(arguments, dict) and len(arguments) == 1 else arguments


def _text_of(value: JsonValue, search: Search | None) -> str:
    return as_text(value) if search is None else search.text_of(value)


def values_at(value: JsonValue, path: tuple[Step, ...]) -> list[Found]:
    """The values at the path, some of which may be absent; none for the elements of an empty list."""
    return list(_values_at(value, path))


def _values_at(value: JsonValue, path: tuple[Step, ...]) -> Iterator[Found]:
    if not path:
        yield value
        return
    inner = _inner(value, path[0])
    if inner is None:
        yield ABSENT
        return
    for one in inner:
        yield from _values_at(one, path[1:])


def _inner(value: JsonValue, step: Step) -> list[JsonValue] | None:
    """The values that a step leads to; None if it leads nowhere."""
    match step:
        case Every.ELEMENT:
            return value if isinstance(value, list) else None
        case Every.FIELD:
            return list(value.values()) if isinstance(value, dict) else None
        case int():
            return value[step : step + 1] or None if isinstance(value, list) else None
        case str():
            return [value[step]] if isinstance(value, dict) and step in value else None
        case _:
            assert_never(step)


def path_text(path: tuple[Step, ...]) -> str:
    """The path as patterns spell it."""
    return "".join(_step_text(step) for step in path).removeprefix(".")


def _step_text(step: Step) -> str:
    match step:
        case Every.ELEMENT:
            return "[*]"
        case int():
            return f"[{step}]"
        case _:
            return f".{step}"
