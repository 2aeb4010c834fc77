"""The patterns of JSON schemas: matched in linear time, and found before they are used.

Decisions of runs that began with Python's own engine are judged by it, but only where it cannot take long.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from pydantic import JsonValue

from wakeful.contract.linear_regex import LacksPattern, check_pattern, compiling_cost, cost, is_match, size

MAX_WORK = 6_000_000
"""What one check of a value may take, in the unit of `linear_regex.cost`: some 0.2 s at worst."""

MAX_BACKTRACKING = 1_000_000
"""Steps that Python's engine may take at worst."""

PYTHON_SEARCH = 30
"""The work of a search by Python's engine, beside that of its steps."""


@dataclass(kw_only=True)
class PatternSearch:
    """Searches texts for the patterns of a schema, and counts the work."""

    linear: bool
    """False for runs whose decisions Python's engine judges."""
    work: int = field(default=0)
    used: set[str] = field(default_factory=set)
    """The patterns that it has compiled, which takes time, too."""

    def matches(self, pattern: str, text: str) -> bool | None:
        """Whether the text matches; None if the engine lacks the pattern, or if there is no work left for it."""
        return self._search(pattern, text) if self.linear else self._search_as_before(pattern, text)

    def _search(self, pattern: str, text: str) -> bool | None:
        if pattern not in self.used:
            self.used.add(pattern)
            self.work += compiling_cost(pattern)
        if self.work > MAX_WORK:
            return None
        try:
            check_pattern(pattern)
            self.work += min(cost(pattern, text), MAX_WORK + 1)
            return is_match(pattern, text) if self.work <= MAX_WORK else None
        except LacksPattern:
            return None

    def _search_as_before(self, pattern: str, text: str) -> bool | None:
        """What was ignored is ignored; what Python's engine may take long for is a matter of the other one."""
        if _REPEATED_GROUP.search(pattern) or _exceeds(len(text), len(_REPEAT.findall(pattern))):
            return None
        steps = _steps(pattern, len(text))
        if steps is None:
            return self._search(pattern, text)
        self.work += PYTHON_SEARCH + steps
        try:
            return re.search(pattern, text) is not None
        except (re.error, OverflowError, RecursionError):
            return None


def unusable_patterns(schema: JsonValue) -> Iterator[str]:
    """Why patterns of the schema cannot be checked: the engine lacks them, or they are too large together."""
    waiting: list[tuple[JsonValue, bool]] = [(schema, False)]
    work, seen = 0, set[str]()
    while waiting:
        part, are_names = waiting.pop()
        if isinstance(part, list):
            waiting.extend((each, False) for each in reversed(part))
        elif isinstance(part, dict):
            for pattern in [] if are_names else _patterns(part):
                if pattern in seen:
                    continue
                seen.add(pattern)
                work += compiling_cost(pattern)
                if work > MAX_WORK:
                    yield f"its {len(seen)} patterns are too large together"
                    return
                try:
                    check_pattern(pattern)
                except LacksPattern as lacking:
                    yield str(lacking)
            below = [
                (each, not are_names and name in _NAMED)
                for name, each in part.items()
                if are_names or name not in _DATA
            ]
            waiting.extend(reversed(below))


def _patterns(schema: dict[str, JsonValue]) -> list[str]:
    names = schema.get("patternProperties")
    written = [schema.get("pattern"), *(names if isinstance(names, dict) else ())]
    return [pattern for pattern in written if isinstance(pattern, str)]


def _exceeds(length: int, repeats: int) -> bool:
    return length > 1 and (repeats > MAX_BACKTRACKING.bit_length() or length**repeats > MAX_BACKTRACKING)


def _steps(pattern: str, length: int) -> int | None:
    """The steps of Python's engine at worst, which tries every beginning, and every length for each open repetition.

    None if these are too many, or if the pattern has parts that multiply them.
    """
    repeats = 1 + len(_OPEN_REPEAT.findall(pattern))
    if _BRANCHES.search(pattern) or _exceeds(length + 1, repeats):
        return None
    steps: int = (length + 1) ** repeats * size(pattern).positions
    return steps if steps <= MAX_BACKTRACKING else None


_REPEATED_GROUP = re.compile(r"\)[*+{]")
_REPEAT = re.compile(r"[*+{]")
_OPEN_REPEAT = re.compile(r"[*+]|\{\d*,")
_BRANCHES = re.compile(r"[?|()]|\\[0-9]")
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose members are names that people choose, with a schema each."""
_DATA = frozenset({"enum", "const", "default", "examples"})
"""Keywords whose values are not schemas."""
