"""What a rule says about a call, to people: its message with the arguments of the call in it.

`{amount}` is an argument, `{to.name}` and `{items[*].id}` are paths as in patterns, `{$user}` is of the run, and `{{`
is a brace. A model writes what is filled in, so each value is on one line and cut; people see the arguments themselves,
too.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from pydantic import JsonValue

from wakeful.contract.limits import cut
from wakeful.permissions.parsing import parse_path
from wakeful.permissions.patterns import ABSENT, Found, Step, values_at
from wakeful.permissions.text_matcher import PatternError, as_text

VALUE_LENGTH = 200
"""Characters of one value in a message."""

MOST_VALUES = 20
"""Of a path that leads to several."""

MESSAGE_LENGTH = 4_000
"""Characters of a message with its values."""

NOT_GIVEN = "(not given)"
"""In the place of an argument that the call does not have."""

_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+")


@dataclass(frozen=True)
class Placeholder:
    """A path in braces."""

    text: str
    path: tuple[Step, ...]
    of_run: bool


@lru_cache(maxsize=1024)
def parse_message(message: str) -> tuple[str | Placeholder, ...]:
    """The texts and the placeholders of a message.

    Raises:
        PatternError: a placeholder is malformed.
    """
    return tuple(_part(message, found) for found in _PART.finditer(message))


def _part(message: str, found: re.Match[str]) -> str | Placeholder:
    part, inner = found[0], found[1]
    if inner is not None:
        try:
            return Placeholder(inner, *parse_path(inner))
        except PatternError as error:
            raise PatternError(f"message {message!r}, character {found.start() + 1}: {part!r}: {error}") from error
    if part in ("{", "}"):
        problem = f"a single {part!r}: write {part * 2!r} for the character"
        raise PatternError(f"message {message!r}, character {found.start() + 1}: {problem}")
    return part[0] if part in ("{{", "}}") else part


def rendered(message: str, arguments: JsonValue, context: JsonValue) -> str:
    """The message about a call with these arguments, in a run with this context.

    Raises:
        PatternError: a placeholder is malformed.
    """
    parts = (
        part if isinstance(part, str) else _filled(values_at(context if part.of_run else arguments, part.path))
        for part in parse_message(message)
    )
    return cut("".join(parts), MESSAGE_LENGTH)


def _filled(values: list[Found]) -> str:
    shown = [_one_line(value) for value in values[:MOST_VALUES]]
    return ", ".join([*shown, "…"] if len(values) > MOST_VALUES else shown)


def _one_line(value: Found) -> str:
    return NOT_GIVEN if value is ABSENT else cut(" ".join(as_text(value).split()), VALUE_LENGTH)
