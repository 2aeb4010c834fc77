"""How an output type reaches Claude: by structured outputs, or in the instructions."""

import pytest
from pydantic import JsonValue

from tests.activities.providers.anthropic.wire import (
    HELLO_CLAUDE,
    sent,
)
from tests.support.fake_provider.server import FakeProvider
from wakeful.contract.inference import (
    OutputSpec,
)
from wakeful_activities.providers.anthropic.provider import AnthropicMessages
from wakeful_activities.providers.anthropic.schemas import output_format
from wakeful_activities.providers.shared.writing import as_json

SCHEMA: dict[str, JsonValue] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def test_an_output_type_uses_structured_outputs_if_they_support_it(
    anthropic: AnthropicMessages, fake: FakeProvider
) -> None:
    output = OutputSpec(name="N", json_schema=SCHEMA)
    body = await sent(anthropic, fake, HELLO_CLAUDE.model_copy(update={"output": output}))
    schema: JsonValue = {**SCHEMA, "additionalProperties": False}
    assert body["output_config"] == {"format": {"type": "json_schema", "schema": schema}}
    assert "system" not in body


@pytest.mark.parametrize(("model", "schema"), [("claude-opus-5", {"type": "object"}), ("other", SCHEMA)])
async def test_an_output_type_that_structured_outputs_do_not_support_is_in_the_instructions(
    anthropic: AnthropicMessages, fake: FakeProvider, model: str, schema: dict[str, JsonValue]
) -> None:
    output = OutputSpec(name="N", json_schema=schema)
    body = await sent(anthropic, fake, HELLO_CLAUDE.model_copy(update={"model": model, "output": output}))
    instruction = f"Respond only with JSON that matches this JSON Schema, without any other text:\n{as_json(schema)}"
    assert body["system"] == [{"type": "text", "text": instruction}]
    assert "output_config" not in body


def test_constraints_that_structured_outputs_do_not_support_go_into_the_description() -> None:
    schema: dict[str, JsonValue] = {
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
    assert output_format(schema) == {
        "type": "json_schema",
        "schema": {
            "type": "object",
            "properties": {
                "day": {"enum": ["mo", "tu"]},
                "at": {
                    "anyOf": [{"type": "string", "format": "date"}, {"type": "null"}],
                    "description": '{"default":null}',
                },
                "tags": {
                    "type": "array",
                    "items": {"type": "string", "description": '{"format":"color"}'},
                    "description": '{"maxItems":3}',
                },
                "n": {"type": "integer", "description": 'How many.\n\n{"minimum":1}'},
            },
            "additionalProperties": False,
            "required": ["day"],
        },
    }


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
def test_unsupported_schemas_have_no_output_format(schema: dict[str, JsonValue]) -> None:
    assert output_format(schema) is None
