"""`PydanticAIModel`: what a model of pydantic-ai is sent."""

import base64
from collections.abc import AsyncIterator

import pytest
from pydantic import JsonValue
from pydantic_ai import messages as ai
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings as AISettings

from tests.activities.providers.calls import HELLO, parts, text, user
from wakeful.contract.errors import ProviderError, ProviderErrorKind
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
    ToolUseBlock,
    UrlSource,
    VideoBlock,
)
from wakeful.contract.model_settings import ModelSettings, PromptCache, ReasoningBudget, ReasoningEffort
from wakeful.contract.tools import ToolDescriptor
from wakeful_activities.providers.pydantic_ai.artifacts import Artifact
from wakeful_activities.providers.pydantic_ai.provider import PydanticAIModel
from wakeful_activities.providers.pydantic_ai.requests import ai_request

OBJECT: dict[str, JsonValue] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Sent:
    """A model that keeps what it was sent."""

    def __init__(self, *, profile: ModelProfile | None = None, settings: AISettings | None = None) -> None:
        self.messages: list[ai.ModelMessage] = []
        self._info: AgentInfo | None = None
        self.model = PydanticAIModel(FunctionModel(stream_function=self._stream, profile=profile, settings=settings))

    async def _stream(self, messages: list[ai.ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        self.messages, self._info = messages, info
        yield "{}"

    @property
    def info(self) -> AgentInfo:
        assert self._info is not None
        return self._info


async def sent(
    request: ModelRequest, *, profile: ModelProfile | None = None, settings: AISettings | None = None
) -> Sent:
    model = Sent(profile=profile, settings=settings)
    await parts(model.model, request)
    return model


def kinds(message: ai.ModelMessage) -> list[tuple[str, object]]:
    return [(part.part_kind, getattr(part, "content", None)) for part in message.parts]


async def test_a_conversation_keeps_its_order_its_calls_and_its_results() -> None:
    call = ToolCall(id="a", name="look", arguments={"city": "Rome"})
    request = ModelRequest(
        model="m",
        instructions="Be brief.",
        messages=(
            Message(id="1", role=Role.SYSTEM, content=(text("Today is Monday."),)),
            user(text("Weather?")),
            Message(
                id="3",
                role=Role.ASSISTANT,
                content=(ThinkingBlock(thinking="hm", signature="of another provider"), text("One moment.")),
                tool_calls=(call, ToolCall(id="b", name="clock")),
            ),
            Message(id="4", role=Role.TOOL, tool_call_id="a", content=(text("rain"),)),
            Message(id="5", role=Role.TOOL, tool_call_id="b", content=(text("noon"),)),
            user(text("And?")),
        ),
        tools=(ToolDescriptor(id="look", name="look"), ToolDescriptor(id="clock", name="clock", description="Time.")),
    )
    asked = await sent(request)
    first, answer, second = asked.messages
    assert kinds(first) == [("system-prompt", "Today is Monday."), ("user-prompt", "Weather?")]
    assert answer.parts == [
        ai.TextPart("One moment."),
        ai.ToolCallPart("look", {"city": "Rome"}, "a"),
        ai.ToolCallPart("clock", {}, "b"),
    ]
    assert kinds(second) == [("tool-return", "rain"), ("tool-return", "noon"), ("user-prompt", "And?")]
    assert [part.tool_name for part in second.parts if isinstance(part, ai.ToolReturnPart)] == ["look", "clock"]
    assert asked.info.instructions == "Be brief."
    assert [(tool.name, tool.description) for tool in asked.info.function_tools] == [("clock", "Time."), ("look", "")]


async def test_what_a_provider_must_be_sent_back_is_where_it_was() -> None:
    thinking = Artifact(pydantic_ai="thinking", id="t", signature="s", provider="google", system="google-cloud")
    written = Artifact(pydantic_ai="text", id="msg", provider="google")
    thought = Artifact(pydantic_ai="tool-call", call="g1", provider="google", details={"thought_signature": "x"})
    answer = Message(
        id="2",
        role=Role.ASSISTANT,
        content=(
            ThinkingBlock(thinking="Hm.", signature=thinking.as_signature()),
            ThinkingBlock(thinking="", signature=written.as_signature()),
            ThinkingBlock(thinking="", signature=thought.as_signature()),
            text("Well."),
        ),
        tool_calls=(ToolCall(id="g1", name="look", provider="m", provider_id="g1"),),
    )
    result = Message(id="3", role=Role.TOOL, tool_call_id="g1", content=(text("rain"),))
    asked = await sent(HELLO.model_copy(update={"messages": (*HELLO.messages, answer, result)}))
    response = asked.messages[1]
    assert isinstance(response, ai.ModelResponse)
    assert (response.provider_name, response.canonical_system) == ("google", "google-cloud")
    assert response.parts == [
        ai.ThinkingPart("Hm.", id="t", signature="s", provider_name="google"),
        ai.TextPart("Well.", id="msg", provider_name="google"),
        ai.ToolCallPart("look", {}, "g1", provider_name="google", provider_details={"thought_signature": "x"}),
    ]


async def test_pictures_and_files_are_sent_and_what_a_model_cannot_read_has_a_note_in_its_place() -> None:
    data = base64.b64encode(b"bytes").decode()
    picture = ImageBlock(source=Base64Source(media_type="image/png", data=data))
    message = user(
        text("Look:"),
        picture,
        ImageBlock(source=UrlSource(url="https://example.org/a.png")),
        DocumentBlock(source=Base64Source(media_type="text/plain", data=data), title="Notes"),
        DocumentBlock(source=Base64Source(media_type="application/pdf", data=data)),
        AudioBlock(source=UrlSource(url="https://example.org/a.mp3")),
        VideoBlock(source=UrlSource(url="https://example.org/a.mp4")),
        ImageBlock(source=Base64Source(media_type="image/png", data="?")),
        ToolUseBlock(id="x", name="look", input={}),
    )
    asked = await sent(HELLO.model_copy(update={"messages": (message,)}))
    [prompt] = asked.messages[0].parts
    assert isinstance(prompt, ai.UserPromptPart)
    assert not isinstance(prompt.content, str)
    *content, malformed, tool_use = prompt.content
    assert content == [
        "Look:",
        ai.BinaryContent(b"bytes", media_type="image/png"),
        ai.ImageUrl("https://example.org/a.png"),
        "Notes\n\nbytes",
        ai.BinaryContent(b"bytes", media_type="application/pdf"),
        ai.AudioUrl("https://example.org/a.mp3"),
        ai.VideoUrl("https://example.org/a.mp4"),
    ]
    assert "is not base64" in str(malformed)
    assert "was left out" in str(tool_use)
    blind = await sent(
        HELLO.model_copy(update={"messages": (user(picture),)}), profile=ModelProfile(supports_image_input=False)
    )
    [(_, note)] = kinds(blind.messages[0])
    assert "A block of type 'image' was left out" in str(note)


@pytest.mark.parametrize(
    ("effort", "thinking"),
    [("none", False), ("low", "low"), ("max", "max"), (ReasoningBudget(budget=20_000), "high"), (None, None)],
)
async def test_the_reasoning_effort_is_the_nearest_that_pydantic_ai_has(
    effort: ReasoningEffort | None, thinking: object
) -> None:
    profile = ModelProfile(supports_thinking=True)
    request = HELLO.model_copy(update={"settings": ModelSettings(reasoning_effort=effort)})
    asked = await sent(request, profile=profile)
    assert asked.info.model_request_parameters.thinking == thinking


async def test_settings_win_over_those_of_the_model_and_its_own_stay() -> None:
    own = AISettings(temperature=1, seed=7, max_retries=3)
    request = HELLO.model_copy(update={"settings": ModelSettings(temperature=0, top_p=0.5, max_tokens=9)})
    asked = await sent(request, settings=own)
    assert asked.info.model_settings == {"temperature": 0, "top_p": 0.5, "max_tokens": 9, "seed": 7, "max_retries": 3}


@pytest.mark.parametrize(
    ("is_cached", "wanted", "own", "cache"),
    [
        (True, None, None, True),
        (True, None, "1h", "1h"),
        (True, "5m", "1h", "5m"),
        (False, None, "1h", False),
    ],
)
async def test_the_prompt_is_cached_as_the_settings_or_else_the_model_says(
    *, is_cached: bool, wanted: PromptCache | None, own: str | None, cache: object
) -> None:
    settings = AISettings(cache=own) if own else None  # type: ignore[typeddict-item]  # a retention
    model = FunctionModel(stream_function=Sent()._stream, settings=settings)
    request = HELLO.model_copy(update={"prompt_cache": is_cached, "settings": ModelSettings(prompt_cache=wanted)})
    merged = {**(settings or {}), **ai_request(request, model).settings}
    assert merged["cache"] == cache


@pytest.mark.parametrize(
    ("schema", "profile", "mode"),
    [
        (OBJECT, ModelProfile(supports_json_schema_output=True), "native"),
        (OBJECT, ModelProfile(), "prompted"),
        ({"type": "array", "items": {"type": "integer"}}, ModelProfile(supports_json_schema_output=True), "text"),
    ],
)
async def test_an_output_type_is_enforced_by_the_provider_or_asked_for_in_the_instructions(
    schema: dict[str, JsonValue], profile: ModelProfile, mode: str
) -> None:
    output = OutputSpec(name="N", json_schema=schema)
    asked = await sent(HELLO.model_copy(update={"output": output, "instructions": "Count."}), profile=profile)
    parameters = asked.info.model_request_parameters
    assert parameters.output_mode == mode
    assert (parameters.output_object is not None) == (mode != "text")
    assert ("JSON" in (asked.info.instructions or "")) == (mode != "native")
    assert (asked.info.instructions or "").startswith("Count.")


class Choosy(FunctionModel):
    """A model that takes an output type or tools, not both, as Gemini 2.5 does."""

    def customize_request_parameters(self, model_request_parameters: ModelRequestParameters) -> ModelRequestParameters:
        if model_request_parameters.output_mode == "native" and model_request_parameters.function_tools:
            raise UserError("not both")
        return super().customize_request_parameters(model_request_parameters)


async def test_an_output_type_that_a_model_does_not_take_with_tools_is_in_the_instructions() -> None:
    modes: list[str] = []

    def answer(messages: list[ai.ModelMessage], info: AgentInfo) -> ai.ModelResponse:
        modes.append(info.model_request_parameters.output_mode)
        return ai.ModelResponse(parts=[ai.TextPart('{"n": 1}')])

    tools = (ToolDescriptor(id="look", name="look"),)
    request = HELLO.model_copy(update={"output": OutputSpec(name="N", json_schema=OBJECT), "tools": tools})
    await parts(PydanticAIModel(Choosy(answer)), request)
    assert modes == ["prompted"]


async def test_a_request_that_pydantic_ai_rejects_is_an_invalid_request() -> None:
    def answer(messages: list[ai.ModelMessage], info: AgentInfo) -> ai.ModelResponse:
        raise UserError("this model does not take videos")

    with pytest.raises(ProviderError, match="does not take videos") as caught:
        await parts(PydanticAIModel(FunctionModel(answer)))
    assert caught.value.kind is ProviderErrorKind.INVALID_REQUEST
