"""`OpenAIResponses`: the requests it sends."""

from pydantic import JsonValue

from tests.activities.providers.calls import HELLO, parts, text, user
from tests.activities.providers.openai_responses.wire import COMPLETED, CREATED, HELLO_ITEM, SIGNATURE
from tests.support.fake_provider.asked import Format
from tests.support.fake_provider.official import body_problem
from tests.support.fake_provider.script import Raw
from tests.support.fake_provider.server import FakeProvider
from wakeful.contract.inference import ModelRequest, OutputSpec
from wakeful.contract.messages import (
    AudioBlock,
    Base64Source,
    DocumentBlock,
    ImageBlock,
    Message,
    Role,
    ThinkingBlock,
    ToolCall,
    UrlSource,
)
from wakeful.contract.model_settings import ModelSettings, ReasoningBudget
from wakeful.contract.tools import ToolDescriptor
from wakeful_activities.providers.openai_responses.provider import OpenAIResponses


async def sent(responses: OpenAIResponses, fake: FakeProvider, request: ModelRequest) -> dict[str, JsonValue]:
    """The body that a request becomes, once OpenAI's own types have taken it."""
    fake.will(Raw.sse(CREATED, COMPLETED))
    await parts(responses, request)
    body = fake.asked[-1].body
    assert isinstance(body, dict)
    assert body_problem(Format.RESPONSES, body) is None
    return body


async def test_a_full_request_has_the_apis_form(responses: OpenAIResponses, fake: FakeProvider) -> None:
    """B-101, B-105: nothing is stored there, reasoning goes back with its id, null arguments as an empty object."""
    request = ModelRequest(
        model="test-model",
        instructions="Be brief.",
        messages=(
            Message(id="1", role=Role.SYSTEM, content=(text("Today is Monday."),)),
            user(text("Weather?")),
            Message(
                id="3",
                role=Role.ASSISTANT,
                content=(
                    ThinkingBlock(thinking="hm", signature=SIGNATURE),
                    ThinkingBlock(thinking="of another provider", signature="EqQB"),
                    ThinkingBlock(thinking="unsigned"),
                    text("One moment."),
                ),
                tool_calls=(ToolCall(id="c1", name="weather", arguments={"a": 1}), ToolCall(id="c2", name="clock")),
            ),
            Message(id="4", role=Role.TOOL, content=(text("sunny"),), tool_call_id="c1"),
            Message(id="5", role=Role.TOOL, content=(text("noon"),), tool_call_id="c2"),
            Message(id="6", role=Role.ASSISTANT, content=(ThinkingBlock(thinking="hm", signature=SIGNATURE),)),
        ),
        tools=(
            ToolDescriptor(id="weather", name="Weather", description="Look outside."),
            ToolDescriptor(id="clock", name="Clock"),
        ),
    )
    nothing: JsonValue = {"type": "object", "properties": {}}
    clock: dict[str, JsonValue] = {
        "type": "function",
        "name": "clock",
        "description": "",
        "parameters": nothing,
        "strict": False,
    }
    assert await sent(responses, fake, request) == {
        "model": "test-model",
        "instructions": "Be brief.",
        "stream": True,
        "store": False,
        "input": [
            {"role": "system", "content": [{"type": "input_text", "text": "Today is Monday."}]},
            {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "hm"}],
                "encrypted_content": "gAAA",
            },
            {"role": "assistant", "content": "One moment."},
            {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"a":1}'},
            {"type": "function_call", "call_id": "c2", "name": "clock", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
            {"type": "function_call_output", "call_id": "c2", "output": "noon"},
        ],
        "tools": [clock, clock | {"name": "weather", "description": "Look outside."}],
    }
    assert fake.asked[0].path == "/v1/responses"
    assert fake.asked[0].headers["authorization"] == "Bearer sk-1"


async def test_images_and_documents_have_the_apis_form(responses: OpenAIResponses, fake: FakeProvider) -> None:
    message = user(
        ImageBlock(source=UrlSource(url="https://example.com/a.png")),
        ImageBlock(source=Base64Source(media_type="image/png", data="iVBO")),
        DocumentBlock(source=UrlSource(url="https://example.com/a.pdf")),
        DocumentBlock(source=Base64Source(media_type="application/pdf", data="JVBE"), title="a.pdf"),
        DocumentBlock(source=Base64Source(media_type="text/plain", data="SGk=")),
    )
    body = await sent(responses, fake, ModelRequest(model="m", messages=(message,)))
    content: JsonValue = [
        {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "auto"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBO", "detail": "auto"},
        {"type": "input_file", "file_url": "https://example.com/a.pdf"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"},
        {"type": "input_text", "text": "Hi"},
    ]
    assert body["input"] == [{"role": "user", "content": content}]


async def test_a_block_that_cannot_be_sent_is_left_out_with_a_note(
    responses: OpenAIResponses, fake: FakeProvider
) -> None:
    request = ModelRequest(model="m", messages=(user(AudioBlock(source=UrlSource(url="https://example.com/a"))),))
    body = await sent(responses, fake, request)
    note = (
        "[A block of type 'audio' was left out: you cannot read it here."
        " If it matters, say so, and ask for it as text.]"
    )
    assert body["input"] == [{"role": "user", "content": [{"type": "input_text", "text": note}]}]


async def test_settings_and_the_output_type_are_sent(responses: OpenAIResponses, fake: FakeProvider) -> None:
    """B-103"""
    settings = ModelSettings(temperature=0.2, top_p=0.9, max_tokens=50, reasoning_effort=ReasoningBudget(budget=20_000))
    output = OutputSpec(name="Weather", json_schema={"type": "object"})
    request = HELLO.model_copy(update={"settings": settings, "output": output})
    assert await sent(responses, fake, request) == {
        "model": "test-model",
        "input": [HELLO_ITEM],
        "stream": True,
        "store": False,
        "temperature": 0.2,
        "top_p": 0.9,
        "max_output_tokens": 50,
        "reasoning": {"effort": "high", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "text": {"format": {"type": "json_schema", "name": "Weather", "schema": {"type": "object"}, "strict": False}},
    }


async def test_an_output_type_is_strict_if_openai_can_enforce_it_and_the_cache_lasts_as_long_as_wanted(
    responses: OpenAIResponses, fake: FakeProvider
) -> None:
    output = OutputSpec(name="N", json_schema={"type": "object", "properties": {"n": {"type": "integer"}}})
    request = HELLO.model_copy(update={"output": output, "settings": ModelSettings(prompt_cache="1h")})
    body = await sent(responses, fake, request)
    closed: JsonValue = {**output.json_schema, "additionalProperties": False, "required": ["n"]}
    assert body["text"] == {"format": {"type": "json_schema", "name": "N", "schema": closed, "strict": True}}
    assert body["prompt_cache_retention"] == "24h"


async def test_no_reasoning_is_requested_of_a_model_that_must_not_reason(
    responses: OpenAIResponses, fake: FakeProvider
) -> None:
    request = HELLO.model_copy(update={"settings": ModelSettings(reasoning_effort="none")})
    body = await sent(responses, fake, request)
    assert body == {
        "model": "test-model",
        "input": [HELLO_ITEM],
        "stream": True,
        "store": False,
        "reasoning": {"effort": "none"},
    }


async def test_a_picture_in_a_tools_result_is_part_of_the_result(
    responses: OpenAIResponses, fake: FakeProvider
) -> None:
    """B-830"""
    image = ImageBlock(source=Base64Source(media_type="image/png", data="iVBO"))
    result = Message(id="2", role=Role.TOOL, content=(text("a map"), image), tool_call_id="c1")
    body = await sent(responses, fake, ModelRequest(model="m", messages=(user(text("?")), result)))
    assert isinstance(body["input"], list)
    assert body["input"][1] == {
        "type": "function_call_output",
        "call_id": "c1",
        "output": [
            {"type": "input_text", "text": "a map"},
            {"type": "input_image", "image_url": "data:image/png;base64,iVBO", "detail": "auto"},
        ],
    }
