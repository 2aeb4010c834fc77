"""Schemas that people write, and values of models: no pattern and no value takes long."""

import time
from typing import Any

import pytest

from wakeful.authoring.json_schemas import schema_problem, value_problem
from wakeful.contract.schema_patterns import MAX_WORK


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "money"}, "'money' is not valid under any of the given schemas"),
        ({"items": {"pattern": "(?=a)"}}, "'(?=a)' is not a regular expression"),
        ({"patternProperties": {r"(a)\1": {}}}, "is not a regular expression"),
        ({"pattern": "(?:[a-z]{0,99}){0,99}"}, "is too large"),
    ],
)
def test_what_cannot_be_checked_is_refused_to_who_writes_it(schema: Any, words: str) -> None:
    assert words in (schema_problem(schema) or "")


def test_a_usual_schema_is_fine() -> None:
    assert schema_problem({"type": "string", "pattern": r"^\p{L}+$", "default": "("}) is None


@pytest.mark.parametrize(
    ("value", "schema", "words"),
    [
        ("b", {"pattern": "^a"}, "'b' does not match '^a'"),
        (1, {"pattern": "^a"}, None),
        ("b", {"pattern": "(?=a)"}, None),
        ({"x-a": 1}, {"patternProperties": {"^x-": {"type": "string"}}}, "1 is not of type 'string'"),
        ({"a": 1}, {"patternProperties": {"^x-": {"type": "string"}}}, None),
        ([1], {"patternProperties": {"^x-": False}, "additionalProperties": False}, None),
        ({"x-a": 1, "b": 1}, {"patternProperties": {"^x-": {}}, "additionalProperties": False}, "allowed: 'b'"),
        ({"a": 1, "b": 1}, {"properties": {"a": {}}, "additionalProperties": {"type": "string"}}, "1 is not of type"),
        ({"a": 1}, {"properties": {"a": {}}, "additionalProperties": False}, None),
        ({"a": 1}, {"patternProperties": {"(?=a)": {}}, "additionalProperties": False}, None),
        ({"a": 1}, {"unevaluatedProperties": False}, "'a' was unexpected"),
        ({"a": 1}, {"allOf": [{"patternProperties": {"a": {}}}], "unevaluatedProperties": False}, None),
        ([{"a": 1}, {"a": 1.0}], {"uniqueItems": True}, "items that are alike"),
        ([{"a": 1}, {"a": True}], {"uniqueItems": True}, None),
        ("a", {"uniqueItems": True}, None),
        ([1, 1], {"uniqueItems": False}, None),
        ("a" * MAX_WORK, {"pattern": "a"}, "too long for the patterns"),
    ],
)
def test_values_are_checked(value: Any, schema: Any, words: str | None) -> None:
    problem = value_problem(value, schema)
    assert (problem is None) == (words is None)
    assert words is None or words in str(problem.message if problem else "")


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ("a" * 60 + "c", {"pattern": ".?" * 40 + "\0"}),
        ({"a" * 60 + "c": 1}, {"patternProperties": {"(a|a)*b": {}}, "additionalProperties": False}),
        ([{"n": number} for number in range(20_000)], {"uniqueItems": True}),
    ],
)
def test_no_value_of_a_model_takes_long(value: Any, schema: Any) -> None:
    began = time.thread_time()
    value_problem(value, schema)
    assert time.thread_time() - began < 3
