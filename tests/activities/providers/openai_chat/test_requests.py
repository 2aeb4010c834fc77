"""`OpenAIChat`: the requests it sends."""

import json

import httpx
import pytest
from pydantic import JsonValue

from tests.activities.providers.calls import HELLO, parts, text, user
from tests.activities.providers.openai_chat.wire import ANSWER, CANARY, completion, sent
from tests.support.fake_provider.asked import Format
from tests.support.fake_provider.official import body_problem
from tests.support.fake_provider.server import FakeProvider
from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.inference import ModelRequest, OutputSpec
from wakeful.contract.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    Message,
    Role,
    ThinkingBlock,
    ToolCall,
    ToolResultBlock,
    ToolUseBlock,
    UrlSource,
    VideoBlock,
    Visibility,
)
from wakeful.contract.model_settings import ModelSettings, ReasoningBudget, ReasoningEffort
from wakeful.contract.tools import ToolDescriptor
from wakeful_activities.providers.openai_chat.provider import OpenAIChat
from wakeful_activities.providers.shared.writing import effort_name


async def sent_messages(chat: OpenAIChat, fake: FakeProvider, *messages: Message) -> JsonValue:
    fake.will(ANSWER)
    await parts(chat, ModelRequest(model="m", messages=messages))
    assert body_problem(Format.CHAT, sent(fake)) is None
    return sent(fake)["messages"]


async def test_a_full_request_has_the_apis_form(chat: OpenAIChat, fake: FakeProvider) -> None:
    """B-100, B-101, B-105, B-200: instructions first, every message, tools sorted, nothing of our own."""
    schema: dict[str, JsonValue] = {"type": "object", "properties": {"city": {"type": "string"}}}
    call = ToolCall(id="c1", name="weather", arguments={"city": "Zürich"})
    request = ModelRequest(
        model="test-model",
        instructions="Be brief.",
        messages=(
            Message(id="1", role=Role.SYSTEM, content=(text("Today is Monday."),), visibility=Visibility.INTERNAL),
            user(text("Weather and time?")),
            Message(
                id="3",
                role=Role.ASSISTANT,
                content=(ThinkingBlock(thinking="hm", signature="s"), text("One moment.")),
                tool_calls=(call, ToolCall(id="c2", name="clock")),
            ),
            Message(id="4", role=Role.TOOL, content=(text("sunny"),), tool_call_id="c1"),
            Message(id="5", role=Role.TOOL, content=(text("noon"),), tool_call_id="c2"),
            Message(id="6", role=Role.ASSISTANT, content=(text("Sunny, "), text("noon."))),
            user(text("Thanks.")),
        ),
        tools=(
            ToolDescriptor(id="weather", name="Weather", description="Look outside.", parameters=schema),
            ToolDescriptor(id="clock", name="Clock", category="time", metadata={"secret": 1}, frontend=True),
        ),
    )
    fake.will(ANSWER)
    await parts(chat, request)
    [asked] = fake.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {CANARY}"
    assert asked.headers["content-type"] == "application/json"
    assert body_problem(Format.CHAT, sent(fake)) is None
    assert asked.body == {
        "model": "test-model",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "system", "content": "Today is Monday."},
            {"role": "user", "content": "Weather and time?"},
            {
                "role": "assistant",
                "content": "One moment.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Zürich"}'}},
                    {"id": "c2", "type": "function", "function": {"name": "clock", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
            {"role": "tool", "tool_call_id": "c2", "content": "noon"},
            {"role": "assistant", "content": "Sunny, noon."},
            {"role": "user", "content": "Thanks."},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "clock",
                    "description": "",
                    "parameters": {"type": "object", "properties": {}},
                },
            },
            {
                "type": "function",
                "function": {"name": "weather", "description": "Look outside.", "parameters": schema},
            },
        ],
    }


async def test_without_instructions_and_tools_neither_is_sent(chat: OpenAIChat, fake: FakeProvider) -> None:
    """B-101"""
    fake.will(ANSWER)
    await parts(chat)
    assert fake.asked[0].body == {
        "model": "test-model",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_images_are_sent_as_parts_in_order(chat: OpenAIChat, fake: FakeProvider) -> None:
    message = user(
        text("compare"),
        ImageBlock(source=UrlSource(url="https://example.com/a.png")),
        ImageBlock(source=Base64Source(media_type="image/png", data="iVBO")),
    )
    assert await sent_messages(chat, fake, message) == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "compare"},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}},
            ],
        }
    ]


async def test_documents_are_sent_as_files_and_plain_text_as_text(chat: OpenAIChat, fake: FakeProvider) -> None:
    message = user(
        DocumentBlock(source=Base64Source(media_type="application/pdf", data="JVBE")),
        DocumentBlock(source=Base64Source(media_type="text/markdown", data="IyBIaQ=="), title="Notes"),
    )
    pdf: JsonValue = {"filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBE"}
    parts: JsonValue = [{"type": "file", "file": pdf}, {"type": "text", "text": "Notes\n\n# Hi"}]
    assert await sent_messages(chat, fake, message) == [{"role": "user", "content": parts}]


async def test_settings_and_the_output_type_are_sent(chat: OpenAIChat, fake: FakeProvider) -> None:
    """B-103"""
    fake.will(ANSWER)
    settings = ModelSettings(temperature=0.2, top_p=0.9, max_tokens=50, reasoning_effort="low")
    output = OutputSpec(name="List[Weather]", json_schema={"type": "object"})
    await parts(chat, HELLO.model_copy(update={"settings": settings, "output": output}))
    assert body_problem(Format.CHAT, sent(fake)) is None
    format: JsonValue = {"name": "List_Weather_", "schema": {"type": "object"}}
    assert sent(fake) == {
        "model": "test-model",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.2,
        "top_p": 0.9,
        "max_tokens": 50,
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": format},
    }


async def test_openai_gets_what_only_it_knows() -> None:
    """The newer name of the token limit, strict output types, and the retention of the cache."""
    asked: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.content)
        return httpx.Response(200, json=completion({"content": "hi"}))

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        settings = ModelSettings(max_tokens=50, prompt_cache="1h")
        output = OutputSpec(name="N", json_schema={"type": "object", "properties": {"n": {"type": "integer"}}})
        request = HELLO.model_copy(update={"settings": settings, "output": output})
        await parts(OpenAIChat(api_key=None, client=http), request)
    body = json.loads(asked[0])
    assert body_problem(Format.CHAT, body) is None
    assert (body["max_completion_tokens"], body["prompt_cache_retention"]) == (50, "24h")
    closed: JsonValue = {**output.json_schema, "additionalProperties": False, "required": ["n"]}
    assert body["response_format"]["json_schema"] == {"name": "N", "schema": closed, "strict": True}


@pytest.mark.parametrize(
    ("effort", "named"),
    [("none", "none"), ("max", "max"), (ReasoningBudget(budget=1), "low"), (ReasoningBudget(budget=10_000), "medium")],
)
def test_an_effort_is_sent_by_name(effort: ReasoningEffort, named: str) -> None:
    """B-103"""
    assert effort_name(effort) == named


async def test_a_message_without_content_is_sent_empty(chat: OpenAIChat, fake: FakeProvider) -> None:
    silent = Message(id="a", role=Role.ASSISTANT, tool_calls=(ToolCall(id="c", name="f", arguments=[1]),))
    function: JsonValue = {"name": "f", "arguments": "[1]"}
    assert await sent_messages(chat, fake, user(), user(ThinkingBlock(thinking="hm")), silent) == [
        {"role": "user", "content": ""},
        {"role": "user", "content": ""},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]},
    ]


MEDIA = UrlSource(url="https://example.com/file")


@pytest.mark.parametrize(
    ("role", "block"),
    [
        (Role.USER, DocumentBlock(source=MEDIA)),
        (Role.USER, AudioBlock(source=MEDIA)),
        (Role.SYSTEM, VideoBlock(source=MEDIA)),
        (Role.USER, ToolUseBlock(id="c", name="f", input={})),
        (Role.USER, ToolResultBlock(tool_use_id="c", content="x")),
        (Role.ASSISTANT, ImageBlock(source=MEDIA)),
        (Role.TOOL, AudioBlock(source=MEDIA)),
    ],
    ids=lambda value: value.type if isinstance(value, DocumentBlock | AudioBlock | VideoBlock) else None,
)
async def test_a_block_that_cannot_be_sent_is_left_out_with_a_note(
    chat: OpenAIChat, fake: FakeProvider, role: Role, block: ContentBlock
) -> None:
    message = Message(id="m", role=role, content=(text("look"), block), tool_call_id="c")
    written = json.dumps(await sent_messages(chat, fake, message))
    assert "look" in written
    assert f"[A block of type {block.type.replace('_', ' ')!r} was left out: " in written


async def test_a_tool_result_without_its_call_is_rejected(chat: OpenAIChat) -> None:
    orphan = Message(id="m", role=Role.TOOL, content=(text("x"),))
    with pytest.raises(ProviderError, match="message 1 is a tool's result without a tool call") as caught:
        await parts(chat, ModelRequest(model="m", messages=(orphan,)))
    assert caught.value.kind is ProviderErrorKind.INVALID_REQUEST


async def test_pictures_in_tool_results_follow_the_round_in_a_message_of_their_own(
    chat: OpenAIChat, fake: FakeProvider
) -> None:
    """B-830: the API takes only text from a tool, and nothing between the results of a round."""
    image = ImageBlock(source=Base64Source(media_type="image/png", data="iVBO"))
    calls = (ToolCall(id="c1", name="draw"), ToolCall(id="c2", name="look"))
    asked = Message(id="1", role=Role.ASSISTANT, tool_calls=calls)
    drawn = Message(id="2", role=Role.TOOL, content=(text("a map"), image), tool_call_id="c1")
    looked = Message(id="3", role=Role.TOOL, content=(text("sunny"),), tool_call_id="c2")
    picture: JsonValue = {
        "role": "user",
        "content": [
            {"type": "text", "text": "[Content of the result of tool call c1:]"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}},
        ],
    }
    messages = await sent_messages(chat, fake, user(text("?")), asked, drawn, looked, user(text("and?")))
    assert isinstance(messages, list)
    assert messages[2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "a map"},
        {"role": "tool", "tool_call_id": "c2", "content": "sunny"},
        picture,
        {"role": "user", "content": "and?"},
    ]
    last = await sent_messages(chat, fake, user(text("?")), asked, drawn, looked)
    assert isinstance(last, list)
    assert last[-1] == picture
