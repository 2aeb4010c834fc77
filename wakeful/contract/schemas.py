"""Whether a JSON value matches a JSON schema: for the results that people and front ends decide.

The workflow accepts or rejects decisions by this check, so its answer must never change: a library could validate
differently in its next version, and sleeping runs could not be replayed. It implements the keywords that forms and tool
parameters use, and ignores the others. A change of its answer is a change of the loop: raise its revision.

Tool servers and front ends write schemas, so the check counts its work, whatever they repeat, nest or refer to: work
beyond the limit is a mismatch. Patterns are matched in linear time. One that the engine lacks is ignored here;
`schema_patterns` finds it where a person writes the schema, or a program brings it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from pydantic import JsonValue

from wakeful.contract.base import Identical
from wakeful.contract.limits import cut
from wakeful.contract.schema_patterns import MAX_WORK, PatternSearch

MAX_DEPTH = 64
MAX_STEPS = 100_000
"""Schemas that one check may visit: a schema that refers to itself twice takes exponential time."""

TOO_LONG = "this is too deep or too long to be checked"

Schema = JsonValue
Place = tuple["Place", str | int] | None
"""Where in the value a schema applies: the place above, and a name or a position there."""


class Judged(NamedTuple):
    """What a check found, and what it took."""

    problem: str | None
    work: int
    patterns: frozenset[str] = frozenset()
    """Those that it has compiled, which is a part of the work."""


class _Problem(NamedTuple):
    """What does not match. Its text is only made if it is shown: a combined schema has many that are not."""

    place: Place
    words: Callable[[], str]

    def __str__(self) -> str:
        parts, place = list[str](), self.place
        while place is not None:
            place, part = place
            parts.append(f".{part}" if isinstance(part, str) else f"[{part}]")
        path = "".join(reversed(parts)).removeprefix(".")
        return f"{path}: {self.words()}" if parts else self.words()


def mismatch(value: JsonValue, schema: JsonValue, *, linear: bool = True) -> str | None:
    """Why `value` does not match `schema`, with the path; None if it matches.

    Args:
        linear: False for runs that are pinned to Python's own engine. It runs where it cannot take long.
    """
    return judged(value, schema, linear=linear).problem


def judged(value: JsonValue, schema: JsonValue, *, linear: bool = True) -> Judged:
    """The same, with the work that it took. A decision that is held is judged after every fact: it is checked once."""
    return _judged(Identical(value), Identical(schema), linear)


@lru_cache(maxsize=32)
def _judged(value: Identical[JsonValue], schema: Identical[JsonValue], linear: bool) -> Judged:
    check = _Check(root=schema.value, linear=linear)
    problem = check.problem(value.value, schema.value, None, 0)
    return Judged(None if problem is None else str(problem), check.work, frozenset(check.used))


class _Combined(NamedTuple):
    """The schemas that a value must match: all of the first, one of the second, exactly one of the third."""

    every: list[JsonValue]
    any_of: list[JsonValue]
    one_of: list[JsonValue]


@dataclass(kw_only=True)
class _Check(PatternSearch):
    """One check: the schema that holds the definitions, and what has been done so far."""

    root: Schema
    steps: int = field(default=0)
    judges: dict[int, list[tuple["_Judge", JsonValue]]] = field(default_factory=dict)
    canonical: dict[int, str] = field(default_factory=dict)
    """The canonical texts of values, by identity: the values live as long as the check."""
    types: dict[int, "_Types"] = field(default_factory=dict)
    """The types that lists of a schema allow, by identity."""
    combined: dict[int, "_Combined"] = field(default_factory=dict)
    """The schemas that schemas combine, by identity."""

    def problem(self, value: JsonValue, schema: Schema, place: Place, depth: int) -> _Problem | None:
        """The first problem."""
        self.steps += 1
        self.work += VISIT if self.linear else VISIT_BEFORE
        if depth > MAX_DEPTH or self.steps > MAX_STEPS or self.work > MAX_WORK:
            return _Problem(place, lambda: TOO_LONG)
        if schema is False:
            return _Problem(place, lambda: f"{_shown(value)} may not be here")
        if not isinstance(schema, dict):
            return None
        for judge, wanted in self._judges(schema):
            if (words := judge(self, value, wanted)) is not None:
                return _Problem(place, words)
        found = None
        if isinstance(value, dict):
            found = self._in_properties(value, schema, place, depth + 1)
        elif isinstance(value, list):
            found = self._in_items(value, schema, place, depth + 1)
        if found is None and not _COMBINED.isdisjoint(schema):
            found = self._in_combined(value, schema, place, depth + 1)
        if found is None and self.work > MAX_WORK:
            found = _Problem(place, lambda: TOO_LONG)
        return found

    def _judges(self, schema: dict[str, JsonValue]) -> list[tuple["_Judge", JsonValue]]:
        """The keywords of a schema that read the value alone, found once: a value may have very many items."""
        if (known := self.judges.get(id(schema))) is None:
            known = [(judge, schema[keyword]) for keyword, judge in _BY_VALUE.items() if keyword in schema]
            self.judges[id(schema)] = known
        return known

    def _in_properties(
        self, value: dict[str, JsonValue], schema: Mapping[str, JsonValue], place: Place, depth: int
    ) -> _Problem | None:
        properties = _mapping(schema.get("properties"))
        self.work += EACH * (len(properties) + len(value))
        for name, below in properties.items():
            if name in value and (found := self.problem(value[name], below, (place, name), depth)) is not None:
                return found
        # `patternProperties` is not implemented, so with it the additional properties are unknown.
        if "additionalProperties" not in schema or "patternProperties" in schema:
            return None
        below = schema["additionalProperties"]
        more = (self.problem(value[name], below, (place, name), depth) for name in value if name not in properties)
        return next(filter(None, more), None)

    def _in_items(
        self, value: list[JsonValue], schema: Mapping[str, JsonValue], place: Place, depth: int
    ) -> _Problem | None:
        first, items = _list(schema.get("prefixItems")), schema.get("items")
        for index, item in enumerate(value):
            below = first[index] if index < len(first) else items
            if (found := self.problem(item, below, (place, index), depth)) is not None:
                return found
        return None

    def _in_combined(
        self, value: JsonValue, schema: Mapping[str, JsonValue], place: Place, depth: int
    ) -> _Problem | None:
        every, any_of, one_of = self._combined(schema)
        for below in every:
            if (found := self.problem(value, below, place, depth)) is not None:
                return found
        if any_of and self._fitting(value, any_of, place, depth) == 0:
            return _Problem(place, lambda: f"{_shown(value)} fits none of the {len(any_of)} shapes that are allowed")
        if one_of and (fitting := self._fitting(value, one_of, place, depth)) != 1:
            words = f"fits {fitting} of the {len(one_of)} shapes, and must fit one"
            return _Problem(place, lambda: f"{_shown(value)} {words}")
        return None

    def _combined(self, schema: Mapping[str, JsonValue]) -> "_Combined":
        """The schemas that this one combines, found once: a schema may refer to itself very often."""
        if (known := self.combined.get(id(schema))) is None:
            referred = self._referred(schema.get("$ref"))
            every = [*(() if referred is None else (referred,)), *_list(schema.get("allOf"))]
            known = _Combined(every, _list(schema.get("anyOf")), _list(schema.get("oneOf")))
            self.combined[id(schema)] = known
        return known

    def _fitting(self, value: JsonValue, schemas: list[JsonValue], place: Place, depth: int) -> int:
        fitting = 0
        for below in schemas:
            fitting += self.problem(value, below, place, depth) is None
        return fitting

    def _referred(self, ref: JsonValue) -> Schema:
        """The definition that a reference names. Other references are ignored."""
        if not isinstance(ref, str) or not isinstance(self.root, dict):
            return None
        self.work += EACH + len(ref) // TEXT_PER_WORK
        start, _, name = ref.rpartition("/")
        definitions = {"#/$defs": "$defs", "#/definitions": "definitions"}.get(start, "")
        return _mapping(self.root.get(definitions)).get(name.replace("~1", "/").replace("~0", "~"))

    def canonical_text(self, value: JsonValue) -> str:
        """The same text for values that are equal in JSON: 1 and 1.0 are, 1 and true are not."""
        if (known := self.canonical.get(id(value))) is None:
            known = self.canonical[id(value)] = json.dumps(whole_numbers(value), sort_keys=True)
            self.work += VISIT + len(known)
        self.work += EACH + len(known) // TEXT_PER_WORK
        return known

    def types_of(self, wanted: JsonValue) -> "_Types":
        """The types that `type` allows, read once: a list may repeat them very often."""
        if (known := self.types.get(id(wanted))) is None:
            names = wanted if isinstance(wanted, list) else [wanted]
            self.work += EACH * len(names)
            listed = [name for name in names if isinstance(name, str) and name in _TYPES]
            kinds = [_TYPES[name] for name in dict.fromkeys(listed)]
            known = self.types[id(wanted)] = _Types(listed, kinds, complete=len(listed) == len(names))
        return known


VISIT, EACH, TEXT_PER_WORK = 150, 3, 100
"""The work of visiting a schema, of reading a name or an item, and the bytes that are compared in one unit of work."""

VISIT_BEFORE = 50
"""The same for older runs, whose checks may have made `MAX_STEPS` visits."""

_Words = Callable[[], str]
_Judge = Callable[[_Check, JsonValue, JsonValue], _Words | None]


class _Types(NamedTuple):
    """The types that a schema allows: their names as it lists them, and what tells whether a value is of one."""

    names: list[str]
    kinds: list[Callable[[JsonValue], bool]]
    complete: bool
    """False if the list has names that are not types: then it is ignored."""


def _type(check: _Check, value: JsonValue, wanted: JsonValue) -> _Words | None:
    allowed = check.types_of(wanted)
    if not allowed.complete or any(is_kind(value) for is_kind in allowed.kinds):
        return None
    return lambda: f"{_shown(value)} is not of type {' or '.join(allowed.names)}"


def _required(check: _Check, value: JsonValue, wanted: JsonValue) -> _Words | None:
    if not isinstance(value, dict):
        return None
    names = _list(wanted)
    check.work += EACH * len(names)
    missing = [name for name in names if isinstance(name, str) and name not in value]
    return (lambda: f"{', '.join(map(repr, missing))} is missing") if missing else None


def _enum(check: _Check, value: JsonValue, wanted: JsonValue) -> _Words | None:
    if not isinstance(wanted, list):
        return None
    text = check.canonical_text(value)
    if any(check.canonical_text(allowed) == text for allowed in wanted):
        return None
    return lambda: f"{_shown(value)} is not one of {_shown(wanted)}"


def _const(check: _Check, value: JsonValue, wanted: JsonValue) -> _Words | None:
    if check.canonical_text(value) == check.canonical_text(wanted):
        return None
    return lambda: f"{_shown(value)} is not {_shown(wanted)}"


def _pattern(check: _Check, value: JsonValue, wanted: JsonValue) -> _Words | None:
    if not (isinstance(value, str) and isinstance(wanted, str)):
        return None
    return (lambda: f"{_shown(value)} does not match {wanted!r}") if check.matches(wanted, value) is False else None


def _unique(check: _Check, value: JsonValue, wanted: JsonValue) -> _Words | None:
    if wanted is not True or not isinstance(value, list):
        return None
    seen = set[str]()
    for item in value:
        if check.work > MAX_WORK or (text := check.canonical_text(item)) in seen:
            break
        seen.add(text)
    else:
        return None
    return lambda: TOO_LONG if check.work > MAX_WORK else f"{_shown(value)} has items that are alike"


def _bound(
    kinds: tuple[type, ...], measure: Callable[..., float], holds: Callable[[float, float], bool], words: str
) -> _Judge:
    """A keyword that compares the size of values of some types with a number."""

    def judge(_: _Check, value: JsonValue, wanted: JsonValue) -> _Words | None:
        if not isinstance(value, kinds) or isinstance(value, bool) or not _is_number(wanted):
            return None
        assert isinstance(wanted, int | float)
        return None if holds(measure(value), wanted) else lambda: f"{_shown(value)} {words} {wanted}"

    return judge


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: JsonValue) -> bool:
    return _is_number(value) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


def _at_least(size: float, bound: float) -> bool:
    return size >= bound


def _at_most(size: float, bound: float) -> bool:
    return size <= bound


def _same(value: float) -> float:
    return value


def _mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def whole_numbers(value: JsonValue) -> JsonValue:
    """The value with 1 for 1.0, which are equal in JSON."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [whole_numbers(item) for item in value]
        case dict():
            return {name: whole_numbers(item) for name, item in value.items()}
        case _:
            return value


def _shown(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return cut(text, 80)


_COMBINED = frozenset({"$ref", "allOf", "anyOf", "oneOf"})
_TYPES: Mapping[str, Callable[[JsonValue], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "number": _is_number,
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}

_BY_VALUE: Mapping[str, _Judge] = {
    "type": _type,
    "required": _required,
    "enum": _enum,
    "const": _const,
    "minimum": _bound((int, float), _same, _at_least, "is less than"),
    "maximum": _bound((int, float), _same, _at_most, "is more than"),
    "exclusiveMinimum": _bound((int, float), _same, lambda size, bound: size > bound, "is not more than"),
    "exclusiveMaximum": _bound((int, float), _same, lambda size, bound: size < bound, "is not less than"),
    "minLength": _bound((str,), len, _at_least, "is shorter than"),
    "maxLength": _bound((str,), len, _at_most, "is longer than"),
    "pattern": _pattern,
    "minItems": _bound((list,), len, _at_least, "has fewer items than"),
    "maxItems": _bound((list,), len, _at_most, "has more items than"),
    "uniqueItems": _unique,
}
