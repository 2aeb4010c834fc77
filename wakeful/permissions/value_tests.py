"""Compare a value of a call with a number or with a list; `text_matcher.py` compares it as text.

What a model writes is not always of the type that a rule expects: what "5 EUR" or "5" is as a number, or `["DE"]` as a
country, is not known. Such a value is not converted: the rule is unsure about it.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeGuard

from pydantic import JsonValue

Number = int | float

COMPARISONS: dict[str, Callable[[Number, Number], bool]] = {
    "=": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}

MAX_MEMBERS = 1_000
"""Of a list in a pattern."""


@dataclass(frozen=True)
class NumberTest:
    """Compares a value with a number: 5, 5.0 and 5e0 are the same."""

    sign: str
    number: Number

    def matches(self, value: JsonValue) -> bool | None:
        """Whether the value compares so; None if it is not a number."""
        return COMPARISONS[self.sign](value, self.number) if is_number(value) else None

    @property
    def precision(self) -> int:
        return 3 if self.sign == "=" else 2

    def __str__(self) -> str:
        return number_text(self.number)


@dataclass(frozen=True)
class OneOf:
    """Whether a value is one of several texts and numbers."""

    members: tuple[str | Number, ...]

    def matches(self, value: JsonValue) -> bool | None:
        """Whether the value is in the list; None if nothing in the list is of its type."""
        kind = next((kind for kind in (_is_text, is_number) if kind(value)), None)
        if kind is None or not any(map(kind, self.members)):
            return None
        return value in self.members

    @property
    def precision(self) -> int:
        return 3

    def __str__(self) -> str:
        return f"[{', '.join(quoted(each) if isinstance(each, str) else number_text(each) for each in self.members)}]"


def is_number(value: object) -> TypeGuard[Number]:
    """Whether a value is a JSON number. JSON has no infinity, and nothing is greater than what is no number."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def number_text(number: Number) -> str:
    """The number as patterns spell it, without an exponent."""
    return str(number) if isinstance(number, int) else f"{Decimal(repr(number)):f}"


def quoted(text: str) -> str:
    """The text as patterns spell it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
