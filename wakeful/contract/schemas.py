"""Whether a JSON value matches a JSON schema: for the results that people and front ends decide.

The workflow accepts or rejects decisions by this check, so its answer must never change: a library could validate
differently in its next version, and sleeping runs could not be replayed. It implements the keywords that forms and tool
parameters use, and ignores the others. A change of its answer is a change of the loop: raise its revision.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from wakeful.contract.limits import cut

MAX_DEPTH = 64
MAX_STEPS = 100_000
"""Schemas that one check may visit: a schema that refers to itself twice takes exponential time."""

MAX_SEARCH = 1_000_000
"""Steps that a pattern may take in the worst case. A slower one is ignored: it would block the workflow task."""

Schema = JsonValue
Problems = Iterator[str]


def mismatch(value: JsonValue, schema: JsonValue) -> str | None:
    """Why `value` does not match `schema`, with the path; None if it matches."""
    return next(_Check(schema).problems(value, schema, "", 0), None)


@dataclass
class _Check:
    """One check: the schema that holds the definitions, and the steps taken so far."""

    root: Schema
    steps: int = field(default=0)

    def problems(self, value: JsonValue, schema: Schema, place: str, depth: int) -> Problems:
        self.steps += 1
        if depth > MAX_DEPTH or self.steps > MAX_STEPS:
            yield _at(place, "this is too deep or too long to be checked")
        elif schema is False:
            yield _at(place, f"{_shown(value)} may not be here")
        elif isinstance(schema, dict):
            for keyword, judge in _BY_VALUE.items():
                if keyword in schema and (problem := judge(value, schema[keyword])) is not None:
                    yield _at(place, problem)
            yield from self._properties(value, schema, place, depth + 1)
            yield from self._items(value, schema, place, depth + 1)
            yield from self._combined(value, schema, place, depth + 1)

    def _properties(self, value: JsonValue, schema: Mapping[str, JsonValue], place: str, depth: int) -> Problems:
        if not isinstance(value, dict):
            return
        properties = _mapping(schema.get("properties"))
        for name, below in properties.items():
            if name in value:
                yield from self.problems(value[name], below, f"{place}.{name}", depth)
        # `patternProperties` is not implemented, so with it the additional properties are unknown.
        if "additionalProperties" in schema and "patternProperties" not in schema:
            for name in value:
                if name not in properties:
                    yield from self.problems(value[name], schema["additionalProperties"], f"{place}.{name}", depth)

    def _items(self, value: JsonValue, schema: Mapping[str, JsonValue], place: str, depth: int) -> Problems:
        if not isinstance(value, list):
            return
        first = _list(schema.get("prefixItems"))
        for index, item in enumerate(value):
            below = first[index] if index < len(first) else schema.get("items")
            yield from self.problems(item, below, f"{place}[{index}]", depth)

    def _combined(self, value: JsonValue, schema: Mapping[str, JsonValue], place: str, depth: int) -> Problems:
        if (referred := self._referred(schema.get("$ref"))) is not None:
            yield from self.problems(value, referred, place, depth)
        for below in _list(schema.get("allOf")):
            yield from self.problems(value, below, place, depth)
        if (any_of := _list(schema.get("anyOf"))) and self._fitting(value, any_of, place, depth) == 0:
            yield _at(place, f"{_shown(value)} fits none of the {len(any_of)} shapes that are allowed")
        if one_of := _list(schema.get("oneOf")):
            fitting = self._fitting(value, one_of, place, depth)
            if fitting != 1:
                yield _at(place, f"{_shown(value)} fits {fitting} of the {len(one_of)} shapes, and must fit one")

    def _fitting(self, value: JsonValue, schemas: list[JsonValue], place: str, depth: int) -> int:
        return sum(next(self.problems(value, below, place, depth), None) is None for below in schemas)

    def _referred(self, ref: JsonValue) -> Schema:
        """The definition that a reference names. Other references are ignored."""
        if not isinstance(ref, str) or not isinstance(self.root, dict):
            return None
        start, _, name = ref.rpartition("/")
        definitions = {"#/$defs": "$defs", "#/definitions": "definitions"}.get(start, "")
        return _mapping(self.root.get(definitions)).get(name.replace("~1", "/").replace("~0", "~"))


def _type(value: JsonValue, wanted: JsonValue) -> str | None:
    names = wanted if isinstance(wanted, list) else [wanted]
    known = [name for name in names if isinstance(name, str) and name in _TYPES]
    if len(known) < len(names) or any(_TYPES[name](value) for name in known):
        return None
    return f"{_shown(value)} is not of type {' or '.join(known)}"


def _required(value: JsonValue, wanted: JsonValue) -> str | None:
    if not isinstance(value, dict):
        return None
    missing = [name for name in _list(wanted) if isinstance(name, str) and name not in value]
    return f"{', '.join(map(repr, missing))} is missing" if missing else None


def _enum(value: JsonValue, wanted: JsonValue) -> str | None:
    if not isinstance(wanted, list) or _canonical(value) in map(_canonical, wanted):
        return None
    return f"{_shown(value)} is not one of {_shown(wanted)}"


def _const(value: JsonValue, wanted: JsonValue) -> str | None:
    return None if _canonical(value) == _canonical(wanted) else f"{_shown(value)} is not {_shown(wanted)}"


def _pattern(value: JsonValue, wanted: JsonValue) -> str | None:
    if not (isinstance(value, str) and isinstance(wanted, str)) or not _can_be_searched(wanted, value):
        return None
    return None if re.search(wanted, value) else f"{_shown(value)} does not match {wanted!r}"


def _can_be_searched(pattern: str, text: str) -> bool:
    """Whether the pattern is valid and cannot backtrack for long: no repeated groups, and few repeats for the text."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return not _REPEATED_GROUP.search(pattern) and len(text) ** len(_REPEAT.findall(pattern)) <= MAX_SEARCH


def _unique(value: JsonValue, wanted: JsonValue) -> str | None:
    if wanted is not True or not isinstance(value, list):
        return None
    return None if len(set(map(_canonical, value))) == len(value) else f"{_shown(value)} has items that are alike"


def _bound(
    kinds: tuple[type, ...], measure: Callable[..., float], holds: Callable[[float, float], bool], words: str
) -> "_Judge":
    """A keyword that compares the size of values of some types with a number."""

    def judge(value: JsonValue, wanted: JsonValue) -> str | None:
        if not isinstance(value, kinds) or isinstance(value, bool) or not _is_number(wanted):
            return None
        assert isinstance(wanted, int | float)
        return None if holds(measure(value), wanted) else f"{_shown(value)} {words} {wanted}"

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


def _canonical(value: JsonValue) -> str:
    """The same text for values that are equal in JSON: 1 and 1.0 are, 1 and true are not."""
    return json.dumps(_whole(value), sort_keys=True)


def _whole(value: JsonValue) -> JsonValue:
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_whole(item) for item in value]
        case dict():
            return {name: _whole(item) for name, item in value.items()}
        case _:
            return value


def _at(place: str, problem: str) -> str:
    return f"{place.removeprefix('.')}: {problem}" if place else problem


def _shown(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return cut(text, 80)


_Judge = Callable[[JsonValue, JsonValue], str | None]

_REPEATED_GROUP = re.compile(r"\)[*+{]")
_REPEAT = re.compile(r"[*+{]")

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
