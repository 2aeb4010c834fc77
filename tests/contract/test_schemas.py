"""The JSON schema check: its messages, its bounds, and that it agrees with the jsonschema library."""

import time
from itertools import pairwise
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import JsonValue

from wakeful.contract.schema_patterns import MAX_WORK, unusable_patterns
from wakeful.contract.schemas import judged, mismatch

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 1.0, 1.5, 0.0, 10**20, 1e300),
    *("", "a", "abc", "Paris", "äöü", "7", "a b", "long" * 9),
    *([], [1], [1, 1], [1, 1.0], [1, True], [0, False], [1, "a"], ["a", 1], ["a", "b", "c"], [[1], [1]], [{}, {}]),
    *({}, {"a": 1}, {"a": "x"}, {"a": None}, {"a": 1, "b": 2}, {"b": 2}, {"a": {"a": {"a": 1}}}, {"a/b": 1}),
    *({"next": None}, {"next": {"next": {}}}, {"next": {"next": 7}}, [{"a": 1}, {"a": "x"}]),
)

SCHEMAS: tuple[Any, ...] = (
    *(True, False, {}),
    *({"type": name} for name in ("null", "boolean", "integer", "number", "string", "array", "object")),
    *({"type": ["string", "null"]}, {"type": ["integer", "array", "boolean"]}, {"type": []}),
    *({"enum": [1, "a", None]}, {"enum": [True]}, {"enum": [1.0, [1], {"a": 1}]}, {"enum": []}),
    *({"const": 1}, {"const": True}, {"const": {"a": 1.0}}, {"const": None}, {"const": [1, 1]}),
    *({"minimum": 1}, {"maximum": 1}, {"exclusiveMinimum": 1}, {"exclusiveMaximum": 1}, {"minimum": 0.5, "maximum": 7}),
    *({"minLength": 1}, {"maxLength": 3}, {"minLength": 3, "maxLength": 3}),
    *({"pattern": "^a"}, {"pattern": "[a-z]+$"}, {"pattern": "^[A-Z][a-z]{2,4}$"}, {"pattern": "^(abc)?$"}),
    *({"minItems": 1}, {"maxItems": 1}, {"minItems": 2, "maxItems": 2}, {"uniqueItems": True}, {"uniqueItems": False}),
    *({"items": {"type": "integer"}}, {"items": False}, {"items": {"items": {"type": "string"}}}),
    {"prefixItems": [{"type": "string"}, {"type": "integer"}]},
    {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
    {"prefixItems": [{"type": "integer"}], "items": False},
    *({"required": ["a"]}, {"required": ["a", "b"]}, {"required": []}),
    *({"properties": {"a": {"type": "integer"}}}, {"properties": {"a": False}}),
    {"properties": {"a": {}}, "additionalProperties": False},
    {"additionalProperties": {"type": "integer"}},
    {"properties": {"b": {"minimum": 2}}, "additionalProperties": {"type": "string"}, "required": ["b"]},
    {"type": "object", "properties": {"a": {"type": "object", "properties": {"a": {"required": ["a"]}}}}},
    *({"anyOf": [{"type": "string"}, {"minimum": 2}]}, {"anyOf": [False, {"type": "integer"}]}),
    *({"oneOf": [{"type": "integer"}, {"minimum": 1}]}, {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
    *({"allOf": [{"type": "number"}, {"maximum": 1}]}, {"allOf": [True, {"required": ["a"]}]}),
    {"$ref": "#/$defs/city", "$defs": {"city": {"type": "string", "minLength": 2}}},
    {"$ref": "#/definitions/a~1b", "definitions": {"a/b": {"type": "array"}}, "maxItems": 1},
    {
        "$ref": "#/$defs/node",
        "$defs": {"node": {"properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}},
    },
    {"$defs": {"node": {"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}}}}, "$ref": "#/$defs/node"},
    {"title": "City", "description": "Where", "default": "Paris", "examples": ["Rome"], "type": "string"},
)


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_it_agrees_with_the_library(schema: bool | dict[str, JsonValue]) -> None:
    library = Draft202012Validator(schema)
    judged = [(value, mismatch(value, schema) is None) for value in VALUES]
    assert judged == [(value, library.is_valid(value)) for value in VALUES]


def test_it_agrees_with_the_library_on_combined_schemas() -> None:
    simple = [schema for schema in SCHEMAS if isinstance(schema, dict) and not schema.keys() & {"$ref", "$defs"}]
    for one, other in pairwise(simple):
        both: dict[str, JsonValue] = {"anyOf": [one, {"items": other}], "properties": {"a": other}}
        library = Draft202012Validator(both)
        for value in VALUES:
            assert (mismatch(value, both) is None) == library.is_valid(value), (value, both)


@pytest.mark.parametrize(
    ("value", "schema", "words"),
    [
        ("x", {"type": "integer"}, '"x" is not of type integer'),
        (1, {"type": ["string", "null"]}, "1 is not of type string or null"),
        ({}, {"required": ["a", "b"]}, "'a', 'b' is missing"),
        ({"a": {"b": [1, "x"]}}, {"properties": {"a": {"properties": {"b": {"items": {"type": "integer"}}}}}}, None),
        ({"c": 1}, {"additionalProperties": False}, "c: 1 may not be here"),
        ("x" * 99, {"enum": ["a"]}, f'"{"x" * 78}… is not one of ["a"]'),
        (2, {"const": 1}, "2 is not 1"),
        (2, {"maximum": 1}, "2 is more than 1"),
        ("a", {"minLength": 2}, '"a" is shorter than 2'),
        ([1, 1], {"uniqueItems": True}, "[1, 1] has items that are alike"),
        ("b", {"pattern": "^a"}, "\"b\" does not match '^a'"),
        (1, {"anyOf": [False, {"type": "string"}]}, "1 fits none of the 2 shapes that are allowed"),
        (1, {"oneOf": [True, {"type": "integer"}]}, "1 fits 2 of the 2 shapes, and must fit one"),
        (1, False, "1 may not be here"),
    ],
)
def test_a_mismatch_is_reported_with_its_path(value: JsonValue, schema: JsonValue, words: str | None) -> None:
    assert mismatch(value, schema) == (words or 'a.b[1]: "x" is not of type integer')


@pytest.mark.parametrize(
    "schema",
    [
        "not a schema",
        {"type": "money"},
        {"type": ["string", "money"]},
        {"type": 7},
        {"enum": "a"},
        {"minimum": "1"},
        {"minimum": True},
        {"format": "date", "multipleOf": 7, "not": {}, "if": {}, "then": False},
        {"pattern": "("},
        {"pattern": 7},
        {"properties": "a", "prefixItems": "a", "anyOf": {}, "required": "a"},
        {"$ref": "https://example.com/city.json"},
        {"$ref": "#/$defs/missing"},
        {"$ref": 7},
    ],
    ids=str,
)
@pytest.mark.parametrize("value", ["b", 3, {"b": 1}, ["b"]], ids=str)
def test_unknown_keywords_and_malformed_schemas_are_ignored(schema: JsonValue, value: JsonValue) -> None:
    assert mismatch(value, schema) is None


def test_with_pattern_properties_additional_properties_are_not_checked() -> None:
    schema: JsonValue = {"patternProperties": {"^x-": {}}, "additionalProperties": False}
    assert mismatch({"x-a": 1}, schema) is None


SLOW = ("^(a+)+$", "^(a|a){2,}$", "a*a*a*a*a*b", "(.|.)" * 40 + "!", "a?" * 61 + "a" * 62, ".?" * 40 + "\0")


@pytest.mark.parametrize("pattern", SLOW)
def test_a_pattern_that_makes_other_engines_backtrack_for_ever_is_matched(pattern: str) -> None:
    assert mismatch("a" * 60 + "c", {"pattern": pattern}) is not None


@pytest.mark.parametrize("pattern", SLOW)
def test_for_older_runs_such_a_pattern_is_ignored_or_matched_in_linear_time(pattern: str) -> None:
    found = mismatch("a" * 60 + "c", {"pattern": pattern}, linear=False)
    assert (found is None) == (pattern in SLOW[:3])  # these were recognised before


def test_older_runs_keep_what_pythons_engine_says_of_a_pattern_that_cannot_take_long() -> None:
    line: JsonValue = {"pattern": "^[a-z]+$"}
    assert mismatch("abc\n", line, linear=False) is None  # `$` matches before the last line break
    assert mismatch("abc\n", line) is not None
    assert mismatch("ab1", line, linear=False) == "\"ab1\" does not match '^[a-z]+$'"
    assert mismatch("x", {"pattern": "["}, linear=False) is None
    assert mismatch("a" * 1_000_000, {"pattern": "a*b"}, linear=False) is not None  # a million times a million steps


@pytest.mark.parametrize("pattern", ["(?=a)b", r"(a)\1", "(?<!a)b", "(", "[a-z]{0,99}" * 30, "a{9999}"])
@pytest.mark.parametrize("linear", [True, False])
def test_a_pattern_that_the_engine_lacks_is_ignored(pattern: str, linear: bool) -> None:
    assert mismatch("xyz" * 30, {"pattern": pattern}, linear=linear) is None
    assert len(list(unusable_patterns({"items": {"pattern": pattern}}))) == 1


def test_patterns_are_found_wherever_a_schema_has_them() -> None:
    lacking: JsonValue = {"pattern": "(?=a)"}
    schema: JsonValue = {
        "properties": {"pattern": lacking, "properties": {"anyOf": [{"pattern": "(?=b)"}, {"pattern": "ok"}]}},
        "patternProperties": {"(?=c)": True, "x": {}},
        "const": {"pattern": "(?=not a schema)"},
        "$defs": {"enum": {"pattern": "(?=d)"}, "again": lacking},
    }
    found = list(unusable_patterns(schema))
    assert [problem.partition(" ")[0] for problem in found] == ["'(?=c)'", "'(?=a)'", "'(?=b)'", "'(?=d)'"]
    many: JsonValue = {"anyOf": [{"pattern": rf"\w{{190}}{number}"} for number in range(1_000)]}
    (problem,) = unusable_patterns(many)
    assert problem == "its 4 patterns are too large together"


def test_patterns_that_are_too_large_together_are_a_mismatch_before_they_are_compiled() -> None:
    many: JsonValue = {"allOf": [{"pattern": rf"(\w{{190}}{number})?"} for number in range(1_000)]}
    assert mismatch("x", many) == "this is too deep or too long to be checked"


def _referring(count: int, below: JsonValue) -> JsonValue:
    return {"anyOf": [{"$ref": "#/$defs/a"}] * count, "$defs": {"a": below}}


def _nested(value: JsonValue, depth: int) -> JsonValue:
    for _ in range(depth):
        value = [value]
    return value


AB = "".join("ab"[number * number % 7 % 2] for number in range(20_000))
LOOP: JsonValue = {"anyOf": [{"enum": [1]}, {"items": {"$ref": "#/$defs/a"}}]}
HOSTILE: tuple[tuple[str, JsonValue, JsonValue], ...] = (
    ("counted repetition", AB, {"pattern": "(?:[a-z]{0,9}){0,99}!"}),
    ("large counts", AB, {"pattern": "[ab]*a[ab]{900}!"}),
    ("unicode classes", "ä" * 20_000, {"pattern": r"(?:\w|ä){90}!"}),
    ("many patterns", {f"p{n}": "ä" * 50 for n in range(999)}, {"additionalProperties": _referring(999, False)}),
    ("patterns of properties", AB, {"allOf": [{"pattern": rf"^(?:\w{{1,{n}}})*$"} for n in range(1, 200)]}),
    ("a long enum at every level", _nested("x" * 900_000, 60), {"$ref": "#/$defs/a", "$defs": {"a": LOOP}}),
    ("many required names", {}, _referring(3_000, {"required": [f"n{n}" for n in range(20_000)]})),
    ("many properties", {"q": 1}, _referring(3_000, {"properties": {f"n{n}": {} for n in range(20_000)}, "items": 1})),
    ("many types", 1, _referring(3_000, {"type": ["string"] * 20_000})),
    ("items that are alike", [{"a": n} for n in range(99_000)], _referring(99, {"uniqueItems": True, "maxItems": 0})),
    ("long names", {"n" * 400_000: {str(n): [n] for n in range(20_000)}}, {"additionalProperties": {"items": False}}),
    ("combinations of itself", 1, _referring(2, {"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]})),
)


@pytest.mark.parametrize(("value", "schema"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE])
@pytest.mark.parametrize("linear", [True, False])
def test_no_schema_and_no_value_take_much_longer_than_the_limit(
    value: JsonValue, schema: JsonValue, linear: bool
) -> None:
    began = time.thread_time()
    assert judged(value, schema, linear=linear).work < 2 * MAX_WORK
    assert time.thread_time() - began < 3  # seconds; 0.12 at most on a quiet machine


def test_the_work_grows_with_the_value_and_not_with_its_square() -> None:
    schema: JsonValue = {
        "items": {"properties": {"name": {"pattern": "^[a-z]{1,20}$"}, "kind": {"enum": ["x", "y"]}}, "minItems": 1}
    }

    def work(count: int) -> int:
        values: JsonValue = [{"name": f"{'n' * (number % 9)}x", "kind": "y"} for number in range(count)]
        found = judged(values, schema)
        assert found.problem is None
        return found.work

    assert work(4_000) < 4.5 * work(1_000)


def test_a_value_that_is_too_long_for_its_pattern_is_a_mismatch() -> None:
    assert mismatch("a" * 1_000_000, {"pattern": "^[a-z]{1,99}$"}) == "this is too deep or too long to be checked"
    assert mismatch("a" * 50, {"pattern": "^[a-z]{1,99}$"}) is None


def test_the_check_of_a_recursive_schema_ends() -> None:
    loop: JsonValue = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    tree: JsonValue = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}}
    assert mismatch(1, loop) == "this is too deep or too long to be checked"
    assert mismatch(1, tree) == "1 fits none of the 2 shapes that are allowed"


def test_a_reference_within_a_malformed_schema_is_ignored() -> None:
    assert mismatch([1], [{"$ref": "#/$defs/a"}]) is None
