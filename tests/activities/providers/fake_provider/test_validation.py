"""The fake provider rejects requests that the official types reject."""

from typing import Any

import httpx
import pytest

from tests.activities.providers.fake_provider.requests import ALL, PATHS, WORDS, body
from tests.support.fake_provider.asked import Format
from tests.support.fake_provider.official import body_problem
from tests.support.fake_provider.server import FakeProvider

NESTED: list[tuple[Format, dict[str, Any], str]] = [
    (Format.CHAT, {"messages": [{"role": "user", "content": [{"type": "text", "txt": "hi"}]}]}, "content.0.txt"),
    (Format.CHAT, {"messages": [{"role": "user", "content": 3}]}, "messages.0.content"),
    (Format.CHAT, {"messages": [{"role": "robot", "content": "hi"}]}, "messages.0.role"),
    (Format.CHAT, {"tools": [{"type": "function", "function": {"name": "f", "arguments": {}}}]}, "function.arguments"),
    (Format.CHAT, {"temperature": "1"}, "temperature"),
    (Format.RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "content.0.text"),
    (Format.RESPONSES, {"input": [{"type": "function_call_output", "call_id": "c"}]}, "input.0.output"),
    (Format.RESPONSES, {"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools.0.function"),
    (Format.RESPONSES, {"max_tokens": 5}, "max_tokens"),
    (Format.ANTHROPIC, {"messages": [{"role": "user", "content": [{"type": "text", "text": 3}]}]}, "content.0.text"),
    (Format.ANTHROPIC, {"system": [{"type": "text", "txt": "x"}]}, "system.0.txt"),
    (Format.ANTHROPIC, {"tools": [{"name": "f", "parameters": {}}]}, "tools.0.input_schema"),
    (Format.ANTHROPIC, {"max_tokens": None}, "max_tokens"),
]


@pytest.mark.parametrize(("format", "wrong", "place"), NESTED)
async def test_a_request_that_the_official_types_reject_is_rejected(
    fake: FakeProvider, http: httpx.AsyncClient, format: Format, wrong: dict[str, Any], place: str
) -> None:
    fake.will(WORDS)
    response = await http.post(PATHS[format], json=body(format) | wrong)
    assert response.status_code == 400
    assert place in response.json()["error"]["message"]
    assert [place in violation for violation in fake.violations] == [True]


def test_a_block_of_a_response_is_validated_as_one_of_a_request() -> None:
    block = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    fine = body(Format.ANTHROPIC) | {"messages": [{"role": "assistant", "content": [block]}]}
    wrong = body(Format.ANTHROPIC) | {"messages": [{"role": "assistant", "content": [block | {"extra": 1}]}]}
    assert body_problem(Format.ANTHROPIC, fine) is None
    assert body_problem(Format.ANTHROPIC, wrong) == "messages.0.content.0.extra: Extra inputs are not permitted"


@ALL
def test_full_conversations_match_the_official_types(format: Format) -> None:
    schema = {"type": "object", "properties": {"at": {"type": "string"}}, "additionalProperties": False}
    function = {"name": "look", "description": "Look.", "parameters": schema}
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    full: dict[Format, dict[str, Any]] = {
        Format.CHAT: {
            "messages": [
                {"role": "system", "content": "be kind"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c", "content": "seen"},
            ],
            "tools": [{"type": "function", "function": function}],
            "reasoning_effort": "low",
        },
        Format.RESPONSES: {
            "input": [
                {"role": "user", "content": [{"type": "input_image", "image_url": "data:,", "detail": "auto"}]},
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
                {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "seen"},
            ],
            "tools": [{"type": "function", "strict": False, **function}],
            "include": ["reasoning.encrypted_content"],
            "store": False,
        },
        Format.ANTHROPIC: {
            "system": [{"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "seen"}]},
            ],
            "tools": [{"name": "look", "description": "Look.", "input_schema": schema}],
            "thinking": {"type": "enabled", "budget_tokens": 2048},
        },
    }
    assert body_problem(format, body(format) | full[format]) is None
