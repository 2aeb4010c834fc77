"""Whether a rule fits the parameters of the tools that it matches: its argument paths, its numbers and its message.

A condition on a path that a tool does not have never holds, or, if it compares a number or a list, always does in a
rule that denies or asks. A schema that does not say what a value holds may hold any path: only a path that cannot exist
is reported. It looks at every schema of a node once for each step of a path, so its time is bounded by the size of the
schema.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import assert_never

from pydantic import JsonValue

from wakeful.contract.limits import cut
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.suggestions import did_you_mean
from wakeful.permissions.messages import Placeholder, parse_message
from wakeful.permissions.parsing import parse_pattern
from wakeful.permissions.patterns import Condition, Every, Step, ToolPattern, path_text
from wakeful.permissions.text_matcher import TextMatcher
from wakeful.permissions.value_tests import NumberTest, OneOf

_COMBINATORS = ("allOf", "anyOf", "oneOf")
_CONDITIONAL = frozenset({"if", "not", "dependentSchemas", "$dynamicRef", "$recursiveRef"})
"""The keywords that are not followed: what such a schema holds is not known."""
_OF_OBJECTS = ("properties", "additionalProperties", "patternProperties")
_OF_ARRAYS = ("items", "prefixItems")
_SHAPES = frozenset({"type", "$ref", *_OF_OBJECTS, *_OF_ARRAYS, *_COMBINATORS, *_CONDITIONAL})
"""The keywords that say what a value is; a schema with none of them allows any value, or restricts one elsewhere."""


MAX_NODES = 1_000
"""Schemas that a step of a path may lead to. Where there are more, any value is taken to be allowed."""

NAMED_FIELDS = 20
"""Of those that a schema has, in a message."""

SUGGESTED_FROM = 100
"""Fields, among which there may be the one that was meant."""


class _Open(Exception):
    """The schema allows any value here."""


def fit_problem(rule: Rule, schemas: Mapping[str, JsonValue]) -> str | None:
    """Why the rule does not fit these tools, by their parameters; None if it does.

    Args:
        schemas: the parameters of each tool, by its name. Those whose name the pattern does not match are left out.

    Raises:
        PatternError: the pattern or the message is malformed.
    """
    problem = _fit_problem(rule, schemas)
    return None if problem is None else cut(problem)


def _fit_problem(rule: Rule, schemas: Mapping[str, JsonValue]) -> str | None:
    parsed = parse_pattern(rule.tool)
    matched = {name: schema for name, schema in schemas.items() if parsed.tool.matches(name)}
    problems = {name: next(_problems(parsed, schema), None) for name, schema in matched.items()}
    if not problems:
        return None
    if None not in problems.values():
        name, problem = next(iter(problems.items()))
        others = f", and {len(problems) - 1} more tools that it matches have no such path" if len(problems) > 1 else ""
        verb = "matches" if all(isinstance(each.test, TextMatcher) for each in _of_call(parsed)) else "fits"
        return f"permission rule {rule.tool!r} {verb} no call: tool {name!r} {problem}{others}"
    fitting = {name: schema for name, schema in matched.items() if problems[name] is None}
    return _too_wide(rule, parsed, matched) or _message_problem(rule, fitting)


def _problems(pattern: ToolPattern, schema: JsonValue) -> Iterator[str]:
    for condition in _of_call(pattern):
        if (problem := _missing(condition.path, schema) or _other_type(condition, schema)) is not None:
            yield problem


def _of_call(pattern: ToolPattern) -> list[Condition]:
    """The conditions on arguments."""
    conditions = pattern.arguments if isinstance(pattern.arguments, tuple) else ()
    return [condition for condition in conditions if not condition.of_run]


def _too_wide(rule: Rule, pattern: ToolPattern, schemas: Mapping[str, JsonValue]) -> str | None:
    """Which tool the rule restricts although it does not have the argument: what is absent counts as a match."""
    if rule.behavior is Behavior.ALLOW:
        return None
    for condition in _of_call(pattern):
        for name, schema in schemas.items() if not isinstance(condition.test, TextMatcher) else ():
            if (problem := _missing(condition.path, schema) or _other_type(condition, schema)) is not None:
                remedy = f"the rule would {rule.behavior.value} all its calls; name the tools that have it"
                return f"permission rule {rule.tool!r} also matches tool {name!r}, which {problem}: {remedy}"
    return None


def _message_problem(rule: Rule, schemas: Mapping[str, JsonValue]) -> str | None:
    """Which placeholder of the rule's message a tool that it matches cannot fill in."""
    placeholders = [part for part in parse_message(rule.message or "") if isinstance(part, Placeholder)]
    for part in placeholders:
        for name, schema in schemas.items() if not part.of_run else ():
            if (problem := _missing(part.path, schema)) is not None:
                return f"permission rule {rule.tool!r}: its message has {{{part.text}}}, and tool {name!r} {problem}"
    return None


def _other_type(condition: Condition, root: JsonValue) -> str | None:
    """Why no value at the path can be compared with a number or a list; None if one may be."""
    match condition.test:
        case TextMatcher():
            return None
        case NumberTest():
            wanted = _NUMBERS
        case OneOf(members=members):
            wanted = frozenset().union(*(_TEXTS if isinstance(member, str) else _NUMBERS for member in members))
        case _:
            assert_never(condition.test)
    types = _types_at(condition.path, root)
    if types is None or types & wanted:
        return None
    has, needs = (" or ".join(sorted(names)) for names in (types, wanted - {"integer"}))
    return f"has an argument {condition.where!r} of type {has}, which is never compared with a {needs}"


_NUMBERS, _TEXTS = frozenset({"number", "integer"}), frozenset({"string"})


def _types_at(path: tuple[Step, ...], root: JsonValue) -> frozenset[str] | None:
    """The JSON types of the values that a path leads to; None if the schema does not say all of them."""
    here, types = [root], set[str]()
    try:
        for step in path:
            here = [below for node in _expanded(here, root) for below in _below(node, step) if below is not False]
        for node in _expanded(here, root):
            if "type" in node:
                types.update(str(each) for each in _each(node["type"]))
            elif not node.keys() & {"$ref", *_COMBINATORS}:
                return None
    except _Open:
        return None
    return frozenset(types - {"null"}) or None


def _each(types: JsonValue) -> list[JsonValue]:
    return types if isinstance(types, list) else [types]


def _missing(path: tuple[Step, ...], root: JsonValue) -> str | None:
    """Which step of the path leads nowhere, and what there is instead; None if the path may exist."""
    here = [root]
    try:
        for taken, step in enumerate(path):
            nodes = list(_expanded(here, root))
            here = [below for node in nodes for below in _below(node, step) if below is not False]
            if not here:
                return _described(path, taken, nodes)
        return None
    except _Open:
        return None


def _described(path: tuple[Step, ...], taken: int, nodes: list[Mapping[str, JsonValue]]) -> str:
    count = sum(len(_mapping(node.get("properties"))) for node in nodes)
    names = (name for node in nodes for name in _mapping(node.get("properties")))
    fields = sorted({*islice(names, SUGGESTED_FROM)})
    where = f" in {path_text(path[:taken])!r}" if taken else ""
    others = ", …" if len(fields) > NAMED_FIELDS or count > SUGGESTED_FROM else ""
    has = f"it has: {', '.join(fields[:NAMED_FIELDS])}{others}" if fields else "there are no fields"
    step = path[taken]
    meant = did_you_mean(step, fields) if isinstance(step, str) else ""
    return f"has no argument {path_text(path)!r}; {has}{where}{meant}"


def _expanded(schemas: Iterable[JsonValue], root: JsonValue) -> Iterator[Mapping[str, JsonValue]]:
    """The schemas with those that they refer to and combine, each once.

    Raises:
        _Open: one of them allows any value.
    """
    left, seen = list(schemas), set[int]()
    while left:
        schema = left.pop()
        if schema is False or id(schema) in seen:
            continue
        if (
            len(seen) > MAX_NODES
            or not isinstance(schema, dict)
            or not _SHAPES & schema.keys()
            or _CONDITIONAL & schema.keys()
        ):
            raise _Open
        seen.add(id(schema))
        yield schema
        combined = [each for word in _COMBINATORS for each in _list(schema.get(word))]
        if schema.keys() & _SHAPES - {*_COMBINATORS}:
            # Beside properties, {"required": […]} says nothing about what there is.
            combined = [each for each in combined if not isinstance(each, dict) or _SHAPES & each.keys()]
        left += combined
        if "$ref" in schema:
            left.append(_referred(schema["$ref"], root))


def _below(node: Mapping[str, JsonValue], step: Step) -> list[JsonValue]:
    """The schemas of the values that a step leads to.

    Raises:
        _Open: the schema does not say what they are.
    """
    match step:
        case Every.ELEMENT | int():
            return _elements(node, step) if _may_be(node, "array", _OF_ARRAYS) else []
        case str():
            return _fields(node, step) if _may_be(node, "object", _OF_OBJECTS) else []
        case _:
            assert_never(step)


def _may_be(node: Mapping[str, JsonValue], kind: str, words: tuple[str, ...]) -> bool:
    types = node.get("type")
    if types is None:
        return any(word in node for word in words)
    return kind in _each(types)


def _elements(node: Mapping[str, JsonValue], step: Step) -> list[JsonValue]:
    first, rest = _list(node.get("prefixItems")), node.get("items", True)
    if isinstance(step, int) and step < len(first):
        return [first[step]]
    return [rest] if isinstance(step, int) else [*first, rest]


def _fields(node: Mapping[str, JsonValue], step: str) -> list[JsonValue]:
    known = _mapping(node.get("properties"))
    if "patternProperties" in node:
        raise _Open
    # Without the keyword JSON Schema allows more properties, but tools read those that their schema lists.
    more = node.get("additionalProperties", not known)
    if step == Every.FIELD:
        return [*known.values(), more]
    return [known[step]] if step in known else [more]


def _referred(ref: JsonValue, root: JsonValue) -> JsonValue:
    """The part of the schema that a reference names; any value, if it names none."""
    if not isinstance(ref, str) or not ref.startswith("#"):
        return True
    found = root
    for name in ref.split("/")[1:]:
        found = _mapping(found).get(name.replace("~1", "/").replace("~0", "~"), True)
    return found


def _mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
