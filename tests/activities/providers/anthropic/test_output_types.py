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
