"""Output types in the parts of JSON Schema that providers enforce."""

import pytest
from pydantic import JsonValue

from wakeful_activities.providers.shared.closed_schemas import ANTHROPIC, OPENAI, Dialect, closed_schema

WEEK: dict[str, JsonValue] = {
    "$defs": {"Day": {"type": "string", "enum": ["mo", "tu"]}},
    "type": "object",
    "title": "Week",
    "properties": {
        "day": {"$ref": "#/$defs/Day"},
        "at": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
        "tags": {"type": "array", "items": {"type": "string", "format": "color"}, "maxItems": 3},
        "n": {"type": "integer", "minimum": 1, "description": "How many."},
    },
    "required": ["day"],
}
AT: JsonValue = {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "description": '{"default":null}'}
TAG: JsonValue = {"type": "string", "description": '{"format":"color"}'}


def test_constraints_that_structured_outputs_do_not_support_go_into_the_description() -> None:
    assert closed_schema(WEEK, ANTHROPIC) == {
        "type": "object",
        "properties": {
            "day": {"enum": ["mo", "tu"]},
            "at": AT,
            "tags": {"type": "array", "items": TAG, "description": '{"maxItems":3}'},
            "n": {"type": "integer", "description": 'How many.\n\n{"minimum":1}'},
        },
        "additionalProperties": False,
        "required": ["day"],
    }


def test_a_strict_schema_requires_every_property_and_keeps_what_openai_enforces() -> None:
    assert closed_schema(WEEK, OPENAI) == {
        "type": "object",
        "properties": {
            "day": {"type": "string", "enum": ["mo", "tu"]},
            "at": AT,
            "tags": {"type": "array", "items": TAG, "maxItems": 3},
            "n": {"type": "integer", "minimum": 1, "description": "How many."},
        },
        "additionalProperties": False,
        "required": ["day", "at", "tags", "n"],
    }


def nested(levels: int) -> dict[str, JsonValue]:
    inner: JsonValue = {"type": "integer"}
    for _ in range(levels):
        inner = {"type": "object", "properties": {"x": inner}}
    assert isinstance(inner, dict)
    return inner


def test_a_schema_that_is_nested_too_deeply_for_openai_is_not_strict() -> None:
    assert closed_schema(nested(10), OPENAI) is not None
    assert closed_schema(nested(11), OPENAI) is None
    assert closed_schema(nested(11), ANTHROPIC) is not None


@pytest.mark.parametrize("dialect", [ANTHROPIC, OPENAI], ids=["anthropic", "openai"])
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"x": {}}},
        {"type": "object", "properties": {"x": True}},
        {"type": "object", "properties": {"x": {"type": ["string", "null"]}}},
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/Gone"}}},
        {"$ref": "#/$defs/T", "$defs": {"T": {"type": "object", "properties": {"t": {"$ref": "#/$defs/T"}}}}},
    ],
)
def test_unsupported_schemas_have_no_translation(schema: dict[str, JsonValue], dialect: Dialect) -> None:
    assert closed_schema(schema, dialect) is None
