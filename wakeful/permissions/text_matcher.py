"""Match a text exactly, by glob or by regular expression.

Globs and regular expressions run in linear time, and a search that would take too much work is not made: no pattern and
no argument can make a worker hang. There is no look-around and there are no backreferences.
"""

import json
import re
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

from pydantic import JsonValue

from wakeful.contract.errors import CallerError
from wakeful.contract.linear_regex import LacksPattern, check_pattern, compiling_cost, cost, is_match

TEXT_LIMIT = 100_000
"""The longest text that is searched, in characters; whether a longer one matches is not known."""

MAX_COST = 10_000_000
"""What a search may take, in the unit of `linear_regex.cost`; whether a costlier one would match is not known."""


MAX_JUDGING_COST = 20 * MAX_COST
"""What judging a call by all rules may take, 0.4 s at worst; whether those match that are not reached is not known."""

VALUE_COST = 200
"""What it takes to find a value of the arguments."""


class PatternError(CallerError, ValueError):
    """A pattern is malformed; the message says how, and where."""


class Kind(IntEnum):
    """How a text is matched. The more precise kind is the greater."""

    REGEX = 1
    GLOB = 2
    EXACT = 3


@dataclass
class Search:
    """What the judgement of a call may still take, whatever number of rules searches its arguments."""

    left: int
    texts: dict[int, str] = field(default_factory=dict)
    """Values as text, by identity: the arguments live as long as their judgement."""

    def takes(self, taken: int) -> bool:
        """Whether there is so much left, which it takes."""
        self.left -= taken
        return not self.is_over

    @property
    def is_over(self) -> bool:
        return self.left < 0

    def text_of(self, value: JsonValue) -> str:
        """The same as `as_text`, made once."""
        if isinstance(value, str):
            return value
        if (text := self.texts.get(id(value))) is None:
            text = self.texts[id(value)] = as_text(value)
            self.left -= len(text)
        return text


@dataclass(frozen=True)
class TextMatcher:
    """Matches a tool's name or an argument.

    Raises:
        PatternError: the glob or the regular expression is malformed.
    """

    kind: Kind
    text: str

    def __post_init__(self) -> None:
        if self.kind is not Kind.EXACT:
            _ = self._expression

    def matches(self, value: str, search: Search | None = None) -> bool | None:
        """Whether `value` matches; None if it is too long to search, or if nothing is left of the search for it."""
        if self.kind is Kind.EXACT:
            return value == self.text
        taken = cost(self._expression, value)
        if len(value) > TEXT_LIMIT or taken > MAX_COST:
            return None
        if search is not None and not search.takes(len(value) if self._is_plain else taken):
            return None
        return is_match(self._expression, value)

    @property
    def compiling_cost(self) -> int:
        """What compiling it takes, in the unit of `linear_regex.cost`."""
        return 0 if self.kind is Kind.EXACT else compiling_cost(self._expression)

    def covers(self, other: "TextMatcher") -> bool:
        """Whether it matches every text that `other` matches; False if the two do not show that it does."""
        if other.kind is Kind.EXACT:
            return self.matches(other.text) is True
        if self == other or (self.kind is Kind.GLOB and not self.text.strip("*")):
            return True
        plain = {self.kind, other.kind} == {Kind.GLOB} and not {*"?["} & {*self.text}
        if not plain or "[" in other.text or "**/" in other.text:
            return False
        # The wildcards of this glob are stars, which match whatever is in their place, also the other's wildcards.
        return self.matches(other.text) is True

    @cached_property
    def _is_plain(self) -> bool:
        """Whether it is a glob whose wildcards are stars: the engine reads each character once."""
        return self.kind is Kind.GLOB and not {*"?["} & {*self.text}

    @cached_property
    def _expression(self) -> str:
        expression = self.text if self.kind is Kind.REGEX else glob_expression(self.text)
        try:
            check_pattern(expression)
        except LacksPattern as error:
            raise PatternError(str(error)) from error
        return expression


def as_text(value: JsonValue) -> str:
    """A JSON value as patterns match it: a string as it is, null as an empty string, other values as compact JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def glob_expression(glob: str) -> str:
    """The glob as a regular expression.

    `*` matches anything (also `/`), `?` one character, `[a-z]` and `[!a-z]` one of a set, and `**/` any number of
    directories, including none.
    """
    parts, position = [r"(?s)\A"], 0
    while position < len(glob):
        char = glob[position]
        if char == "*":
            stars = len(glob) - position - len(glob[position:].lstrip("*"))
            begins = position == 0 or glob[position - 1] == "/"
            position += stars
            if stars == 2 and begins and glob.startswith("/", position):
                parts.append("(?:.*/)?")
                position += 1
            else:
                parts.append(".*")
        elif char == "[":
            end = glob.find("]", position + (3 if glob[position + 1 : position + 2] in ("!", "^") else 2))
            if end < 0:
                raise PatternError(f"the glob {glob!r} has a '[' without a ']'; write '[[]' to match the character")
            parts.append(_one_of(glob[position + 1 : end], glob))
            position = end + 1
        else:
            parts.append("." if char == "?" else re.escape(char))
            position += 1
    return "".join((*parts, r"\z"))


def _one_of(members: str, glob: str) -> str:
    negated = members[0] in "!^"
    ranges = re.findall(r"(.)-(.)|(.)", members[negated:], re.DOTALL)
    if backwards := next((f"{low}-{high}" for low, high, _ in ranges if low > high), None):
        raise PatternError(f"the glob {glob!r} has the range {backwards!r}, which is backwards")
    inside = "".join(_code(one) if one else f"{_code(low)}-{_code(high)}" for low, high, one in ranges)
    return f"[{'^' if negated else ''}{inside}]"


def _code(char: str) -> str:
    return f"\\x{{{ord(char):x}}}"
