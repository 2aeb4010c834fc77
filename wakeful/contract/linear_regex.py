"""Search with regular expressions that others write: in linear time, and with a bound on the work.

The Rust engine in pydantic does not backtrack, so it has no look-around and no backreferences. Its time is the product
of the pattern's positions and the text: `(?:[a-z]{0,99}){0,400}` takes half a minute for 20,000 characters. So the size
of a pattern is bounded here, before it is compiled, and callers bound `cost`. Both are computed from the texts and not
measured, because the workflow decides by them.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from pydantic_core import SchemaError, SchemaValidator, core_schema

MAX_POSITIONS = 2_000
"""Positions of a pattern that a text is compared with: `[a-z]{0,9}` has ten of them."""

MAX_WEIGHT = 10_000
"""What compiling a pattern may take, in the same unit; a class of Unicode letters takes as much as fifty characters."""

UNICODE_CLASS = 50
COMPILING = 200
"""How much one unit of weight takes, compared with one position at one byte of text (35 ns at worst)."""

CACHED_WEIGHT = 150_000
"""Of the patterns that stay compiled, together, at most, and half of it at least; a unit takes about a kilobyte."""

_EACH_CACHED = 20
"""The weight of any pattern beside that of its text."""


class LacksPattern(ValueError):
    """The engine does not have what the pattern needs, the pattern is malformed, or it is too large."""


class _Size(NamedTuple):
    positions: int
    weight: int

    def __mul__(self, count: object) -> "_Size":
        assert isinstance(count, int)
        return _Size(self.positions * count, self.weight * count)

    def plus(self, other: "_Size") -> "_Size":
        return _Size(self.positions + other.positions, self.weight + other.weight)


def check_pattern(pattern: str) -> None:
    """Whether the engine has the pattern.

    Raises:
        LacksPattern: it has not; the message says why, and what to write instead.
    """
    _compiled(pattern)


def is_match(pattern: str, text: str) -> bool:
    """Whether the text contains a match.

    Raises:
        LacksPattern: the engine does not have the pattern.
    """
    # The engine rejects lone surrogates, and a text that it rejects would slip through a rule that denies.
    return _compiled(pattern).isinstance_python(text.encode(errors="replace").decode())


def cost(pattern: str, text: str) -> int:
    """What a search takes at most: positions of the pattern times the text's bytes."""
    return size(pattern).positions * (len(text) if text.isascii() else 4 * len(text))


def compiling_cost(pattern: str) -> int:
    """What compiling takes at most, in the unit of `cost`; also if the pattern is malformed."""
    return COMPILING * min(size(pattern).weight, MAX_WEIGHT)


def _compiled(pattern: str) -> SchemaValidator:
    measured = size(pattern)
    if measured.positions > MAX_POSITIONS or measured.weight > MAX_WEIGHT:
        raise LacksPattern(
            f"{_shown(pattern)} is too large: repetitions with counts multiply; use smaller counts, * or +, or check "
            "the length apart from the pattern"
        )
    return _cached.get(pattern) or _cached.put(pattern, _compile(pattern), measured.weight + _EACH_CACHED)


def _compile(pattern: str) -> SchemaValidator:
    try:
        pattern.encode()  # the engine would read a lone surrogate as another character
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except (SchemaError, UnicodeEncodeError) as error:
        problem = str(error).rpartition("error: ")[2].rpartition("SchemaError: ")[2]
        raise LacksPattern(f"{_shown(pattern)} is not a regular expression: {problem}") from error


def _shown(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 200 else pattern[:199] + "…")


class _Cache:
    """Compiled patterns: those that were used last, in two generations.

    Workflows run in several threads, and the loop may have no lock: each change is one that Python makes as a whole.
    """

    def __init__(self) -> None:
        self._newest: dict[str, tuple[SchemaValidator, int]] = {}
        self._older: dict[str, tuple[SchemaValidator, int]] = {}
        self._weight = 0

    def get(self, pattern: str) -> SchemaValidator | None:
        if (found := self._newest.get(pattern)) is None:
            if (found := self._older.get(pattern)) is None:
                return None
            self.put(pattern, *found)
        return found[0]

    def put(self, pattern: str, compiled: SchemaValidator, weight: int) -> SchemaValidator:
        if self._weight + weight > CACHED_WEIGHT // 2:
            self._older, self._newest, self._weight = self._newest, {}, 0
        self._newest[pattern] = compiled, weight
        self._weight += weight
        return compiled


_cached = _Cache()


@lru_cache(maxsize=4096)
def size(pattern: str) -> _Size:
    """An upper bound of the pattern's size, from its text alone.

    Everything that is not known to be something else counts as a character. In a pattern with free white space and
    comments, every count applies to everything.
    """
    if len(pattern) > MAX_WEIGHT:
        return _Size(len(pattern), len(pattern))
    if _EXTENDED.search(pattern):
        return _unstructured(pattern)
    open_groups, group, last = list[_Size](), _Size(1, 1), _Size(0, 0)
    position = 0
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        assert token is not None  # the last alternative matches any character
        position = token.end()
        if token["count"] is not None:
            copies = _count(token["count"])
            more = (last * (copies - 1)).plus(_Size(copies, copies))
            group, last = group.plus(more), last.plus(more)
        elif token["open"]:
            open_groups.append(group)
            group = last = _Size(1, 1)
        elif token["close"]:
            if not open_groups:
                return _unstructured(pattern)
            last, group = group, open_groups.pop().plus(group)
        else:
            if token["class"]:
                end = _class_end(pattern, token.start())
                last, position = _class_size(pattern[token.start() : end]), end
            else:
                last = _Size(1, UNICODE_CLASS if token["unicode"] else 1)
            group = group.plus(last)
        if group.weight > 1_000 * MAX_WEIGHT:
            break  # large enough, and numbers without a bound take time themselves
    return group if not open_groups else _unstructured(pattern)


_TOKEN = re.compile(
    r"(?P<count>\{[\s\d,]*\}|[*+?])|(?P<open>\()|(?P<close>\))|(?P<class>\[)|(?P<unicode>\\(?:[wWdD]|[pP](?:\{[^}]*\})?))"
    r"|\\[xuU]\{[0-9A-Fa-f]*\}|\\.|.",
    re.DOTALL,
)
_EXTENDED = re.compile(r"\(\?[A-Za-z]*x")
_COUNT = re.compile(r"\d+")
_UNICODE = re.compile(r"\\[wWdDpPsS]|\[:|\(\?")


def _count(text: str) -> int:
    """How many copies the engine makes of what is repeated."""
    return max(1, *(int(number[:9]) for number in _COUNT.findall(text)), 1)


def _class_end(pattern: str, start: int) -> int:
    """Where the class that begins here ends; classes nest, and a `]` that comes first is a character."""
    position, depth = start, 0
    while position < len(pattern):
        opening = _CLASS_OPEN.match(pattern, position)
        if opening is not None:
            depth += 1
            position = opening.end()
        elif pattern[position] == "]":
            depth -= 1
            position += 1
            if depth == 0:
                break
        else:
            position += 2 if pattern[position] == "\\" else 1
    return min(position, len(pattern))


_CLASS_OPEN = re.compile(r"\[\^?(?:\]|-*)")


def _class_size(text: str) -> _Size:
    unicode = len(_UNICODE.findall(text))
    return _Size(1, len(text) + UNICODE_CLASS * (unicode + text.count("[", 1)))


def _unstructured(pattern: str) -> _Size:
    counts = 1
    for found in re.findall(r"\{[\s\d,]*\}", pattern):
        counts = min(counts * 2 * _count(found), 1_000 * MAX_WEIGHT)
    return _Size(len(pattern) * counts, len(pattern) * UNICODE_CLASS * counts)
