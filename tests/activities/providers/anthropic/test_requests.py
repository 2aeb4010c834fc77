"""`AnthropicMessages`: the requests it sends."""

import pytest
from pydantic import JsonValue

from tests.activities.providers.anthropic.wire import CACHED, HELLO_CLAUDE, assistant, result, sent, system, turns
from tests.activities.providers.calls import text, user
from tests.support.fake_provider.server import FakeProvider
from wakeful.contract.inference import ModelRequest
from wakeful.contract.messages import (
    Base64Source,
    DocumentBlock,
    ImageBlock,
    ThinkingBlock,
    ToolCall,
    UrlSource,
    VideoBlock,
)
from wakeful.contract.model_settings import ModelSettings, ReasoningBudget, ReasoningEffort
from wakeful.contract.tools import ToolDescriptor
from wakeful_activities.providers.anthropic.provider import AnthropicMessages


async def test_a_full_request_has_the_apis_form(anthropic: AnthropicMessages, fake: FakeProvider) -> None:
    """B-101, B-105: thoughts first, results together, and what does not change from step to step is cached."""
    request = ModelRequest(
        model="claude-opus-5",
        instructions="Be brief.",
        messages=(
            system("Today is Monday."),
            user(text("Weather?")),
            assistant(
                text("One moment."),
                ThinkingBlock(thinking="hm", signature="EqQB"),
                ThinkingBlock(thinking="", signature="redacted_thinking:Zm9v"),
                ThinkingBlock(thinking="of another provider", signature='{"id":"rs_1"}'),
                ThinkingBlock(thinking="unsigned"),
                calls=(ToolCall(id="functions.f:0", name="weather", arguments={"a": 1}), ToolCall(id="c2", name="f")),
            ),
            result("sunny", "functions.f:0"),
            result("noon", "c2"),
            user(text("And now?")),
        ),
        tools=(
            ToolDescriptor(id="weather", name="Weather", description="Look outside."),
            ToolDescriptor(id="f", name="F"),
        ),
    )
    schema: JsonValue = {"type": "object", "properties": {}}
    assert await sent(anthropic, fake, request) == {
        "model": "claude-opus-5",
        "max_tokens": 8_192,
        "stream": True,
        "system": [
            {"type": "text", "text": "Be brief."},
            {"type": "text", "text": "Today is Monday.", "cache_control": CACHED},
        ],
        "tools": [
            {"name": "f", "description": "", "input_schema": schema},
            {"name": "weather", "description": "Look outside.", "input_schema": schema, "cache_control": CACHED},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "EqQB"},
                    {"type": "redacted_thinking", "data": "Zm9v"},
                    {"type": "text", "text": "One moment."},
                    {"type": "tool_use", "id": "functions_f_0", "name": "weather", "input": {"a": 1}},
                    {"type": "tool_use", "id": "c2", "name": "f", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "functions_f_0", "content": "sunny"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "noon"},
                    {"type": "text", "text": "And now?", "cache_control": CACHED},
                ],
            },
        ],
    }
    assert fake.asked[0].path == "/v1/messages"
    headers = fake.asked[0].headers
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("sk-1", "2023-06-01")
    assert "authorization" not in headers


async def test_the_cache_lasts_as_long_as_wanted(anthropic: AnthropicMessages, fake: FakeProvider) -> None:
    settings = ModelSettings(prompt_cache="1h")
    request = HELLO_CLAUDE.model_copy(update={"prompt_cache": True, "settings": settings})
    body = await sent(anthropic, fake, request)
    cached: JsonValue = {"type": "ephemeral", "ttl": "1h"}
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "hello", "cache_control": cached}]}
    ]


async def test_results_directly_follow_their_calls_whatever_came_between(
    anthropic: AnthropicMessages, fake: FakeProvider
) -> None:
    assert await turns(
        anthropic,
        fake,
        user(text("one")),
        user(text("two"), text(" ")),
        assistant(calls=(ToolCall(id="c", name="f", arguments=[1]),)),
        system("Hurry."),
        result("", "c"),
        assistant(text("\n")),
        user(text("three")),
    ) == [
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {"arguments": [1]}}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c", "content": ""},
                {"type": "text", "text": "<system>\nHurry.\n</system>"},
                {"type": "text", "text": "three"},
            ],
        },
    ]


async def test_a_conversation_whose_beginning_is_omitted_starts_with_the_user(
    anthropic: AnthropicMessages, fake: FakeProvider
) -> None:
    """The window of a long conversation may begin with an answer."""
    assert await turns(anthropic, fake, assistant(text("Hello.")), user(text("And now?"))) == [
        {"role": "user", "content": [{"type": "text", "text": "[Earlier messages of this conversation are omitted.]"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]},
        {"role": "user", "content": [{"type": "text", "text": "And now?"}]},
    ]


async def test_images_and_documents_have_the_apis_form(anthropic: AnthropicMessages, fake: FakeProvider) -> None:
    blocks = (
        ImageBlock(source=UrlSource(url="https://example.com/a.png")),
        ImageBlock(source=Base64Source(media_type="image/png", data="iVBO")),
        DocumentBlock(source=UrlSource(url="https://example.com/a.pdf"), title="A"),
        DocumentBlock(source=Base64Source(media_type="application/pdf", data="JVBE")),
        DocumentBlock(source=Base64Source(media_type="text/markdown", data="SGk=")),
    )
    pdf: JsonValue = {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}
    content: JsonValue = [
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}},
        {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}, "title": "A"},
        {"type": "document", "source": pdf},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Hi"}},
    ]
    assert await turns(anthropic, fake, user(*blocks)) == [{"role": "user", "content": content}]


async def test_a_block_that_cannot_be_sent_is_left_out_with_a_note(
    anthropic: AnthropicMessages, fake: FakeProvider
) -> None:
    note = (
        "[A block of type 'video' was left out: you cannot read it here."
        " If it matters, say so, and ask for it as text.]"
    )
    assert await turns(anthropic, fake, user(VideoBlock(source=UrlSource(url="https://example.com/a")))) == [
        {"role": "user", "content": [{"type": "text", "text": note}]}
    ]


ADAPTIVE: JsonValue = {"type": "adaptive", "display": "summarized"}
OFF: JsonValue = {"type": "disabled"}


def budget(tokens: int) -> JsonValue:
    return {"type": "enabled", "budget_tokens": tokens}


@pytest.mark.parametrize(
    ("model", "effort", "room", "expected"),
    [
        ("claude-opus-5", None, None, (8_192, None, None)),
        ("claude-opus-5", "none", 50, (50, OFF, None)),
        ("claude-opus-5", "max", None, (40_960, ADAPTIVE, "max")),
        ("claude-opus-4-6", "low", 50, (50, ADAPTIVE, "low")),
        ("claude-sonnet-5", ReasoningBudget(budget=9_000), None, (17_192, ADAPTIVE, "medium")),
        ("claude-haiku-4-5", "low", None, (10_240, budget(2_048), None)),
        ("claude-sonnet-4-20250514", "high", 16_384, (32_768, budget(16_384), None)),
        ("claude-opus-4-5-20251101", "medium", 10_000, (10_000, budget(8_192), None)),
        ("anthropic.claude-3-7-sonnet", ReasoningBudget(budget=5), None, (9_216, budget(1_024), None)),
        ("some-other-model", "low", None, (10_240, budget(2_048), None)),
    ],
)
async def test_thinking_has_the_form_that_the_model_supports(
    anthropic: AnthropicMessages,
    fake: FakeProvider,
    model: str,
    effort: ReasoningEffort | None,
    room: int | None,
    expected: tuple[int, JsonValue, str | None],
) -> None:
    """B-103: newer models think as they see fit, older ones by a budget that leaves room for the answer."""
    settings = ModelSettings(temperature=0.2, top_p=0.9, max_tokens=room, reasoning_effort=effort)
    body = await sent(anthropic, fake, HELLO_CLAUDE.model_copy(update={"model": model, "settings": settings}))
    max_tokens, thinking, named = expected
    messages: JsonValue = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
    assert body == {
        "model": model,
        "max_tokens": max_tokens,
        "stream": True,
        "messages": messages,
        **({} if thinking is None else {"thinking": thinking}),
        **({} if named is None else {"output_config": {"effort": named}}),
        **({"temperature": 0.2, "top_p": 0.9} if thinking in (None, OFF) else {}),
    }


@pytest.mark.parametrize(("signature", "thinks"), [("EqQB", True), ("redacted_thinking:Zm9v", True), (None, False)])
async def test_a_budget_is_left_out_if_the_turn_began_without_thinking(
    anthropic: AnthropicMessages, fake: FakeProvider, signature: str | None, thinks: bool
) -> None:
    """Another model may have started the turn, or its thinking was lost with its connection."""
    thought = ThinkingBlock(thinking="hm", signature=signature)
    calls = (ToolCall(id="c", name="f"),)
    request = ModelRequest(
        model="claude-haiku-4-5",
        messages=(user(text("hi")), assistant(thought, calls=calls), result("x", "c")),
        settings=ModelSettings(reasoning_effort="low"),
    )
    assert ("thinking" in await sent(anthropic, fake, request)) is thinks


async def test_a_picture_in_a_tools_result_is_part_of_the_result(
    anthropic: AnthropicMessages, fake: FakeProvider
) -> None:
    """B-830"""
    image = ImageBlock(source=Base64Source(media_type="image/png", data="iVBO"))
    drawn = result("a map", "c1")
    drawn = drawn.model_copy(update={"content": (*drawn.content, image)})
    asked = assistant(calls=(ToolCall(id="c1", name="draw"),))
    sent_turns = await turns(anthropic, fake, user(text("?")), asked, drawn)
    assert isinstance(sent_turns, list)
    assert sent_turns[-1] == {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "c1",
                "content": [
                    {"type": "text", "text": "a map"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}},
                ],
            }
        ],
    }
