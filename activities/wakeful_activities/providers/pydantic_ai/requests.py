"""Requests to pydantic-ai's models: our messages, tools, output types and settings, in its types."""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, assert_never

from pydantic_ai import messages as ai
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings as AISettings
from pydantic_ai.settings import ThinkingLevel
from pydantic_ai.tools import ToolDefinition

from wakeful.contract.inference import ModelRequest, OutputSpec
from wakeful.contract.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    Message,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultBlock,
    ToolUseBlock,
    UrlSource,
    VideoBlock,
)
from wakeful.contract.model_settings import ReasoningBudget, ReasoningEffort
from wakeful_activities.providers.pydantic_ai.artifacts import Artifact, artifact_of
from wakeful_activities.providers.shared.writing import (
    MessageRef,
    arguments_of,
    document_text,
    effort_name,
    json_only,
    left_out,
    numbered,
    sorted_tools,
    titled,
)

_FLAGS = {
    "image": "supports_image_input",
    "document": "supports_document_input",
    "audio": "supports_audio_file_input",
    "video": "supports_video_input",
}
"""What a profile says of the files that its model reads; True if it does not say."""

_URLS: dict[str, Callable[[str], ai.UserContent]] = {
    "image": ai.ImageUrl,
    "document": ai.DocumentUrl,
    "audio": ai.AudioUrl,
    "video": ai.VideoUrl,
}


@dataclass(frozen=True)
class AIRequest:
    """The arguments of a call of `Model.request`."""

    messages: list[ai.ModelMessage]
    settings: AISettings
    parameters: ModelRequestParameters


def ai_request(request: ModelRequest, model: Model, *, has_native_output: bool = True) -> AIRequest:
    """The request as pydantic-ai's models take it.

    Args:
        has_native_output: let the provider enforce the output type, if the model's profile says that it can.
    """
    profile = _profile(model)
    parameters = _parameters(request, profile, has_native_output=has_native_output)
    messages = model.prepare_messages(_messages(request, profile), parameters)
    return AIRequest(messages, _settings(request, model), parameters)


def _profile(model: Model) -> ModelProfile:
    """What is known of the model; nothing of one that chooses among others at each call."""
    try:
        return model.profile
    except NotImplementedError:
        return ModelProfile()


def _settings(request: ModelRequest, model: Model) -> AISettings:
    own, wanted, settings = model.settings or {}, request.settings, AISettings()
    if wanted.temperature is not None:
        settings["temperature"] = wanted.temperature
    if wanted.top_p is not None:
        settings["top_p"] = wanted.top_p
    if wanted.max_tokens is not None:
        settings["max_tokens"] = wanted.max_tokens
    if wanted.reasoning_effort is not None:
        settings["thinking"] = _thinking(wanted.reasoning_effort)
    if not request.prompt_cache:
        settings["cache"] = False
    elif isinstance(wanted.prompt_cache, str):
        settings["cache"] = wanted.prompt_cache
    elif "cache" not in own:
        settings["cache"] = True
    if "max_retries" not in own and "max_retries" not in model.unsupported_settings:
        settings["max_retries"] = 0
    return settings


def _thinking(effort: ReasoningEffort) -> ThinkingLevel:
    levels: dict[str, ThinkingLevel] = {"none": False, "low": "low", "medium": "medium", "high": "high", "max": "max"}
    return levels[effort_name(effort) if isinstance(effort, ReasoningBudget) else effort]


def _parameters(request: ModelRequest, profile: ModelProfile, *, has_native_output: bool) -> ModelRequestParameters:
    tools = [
        ToolDefinition(name=tool.id, description=tool.description, parameters_json_schema=tool.parameters)
        for tool in sorted_tools(request)
    ]
    instructions = [request.instructions]
    mode: Literal["text", "native", "prompted"] = "text"
    output = request.output
    if output is not None and output.json_schema.get("type") != "object":
        instructions.append(json_only(output))  # neither way below has a form for other types
    elif output is not None:
        can_enforce = has_native_output and profile.get("supports_json_schema_output", False)
        mode = "native" if can_enforce else "prompted"
    return ModelRequestParameters(
        function_tools=tools,
        output_mode=mode,
        output_object=_output_object(output) if output is not None and mode != "text" else None,
        instruction_parts=[ai.InstructionPart(content=text) for text in instructions if text.strip()],
    )


def _output_object(output: OutputSpec) -> OutputObjectDefinition:
    return OutputObjectDefinition(name=output.name, json_schema=output.json_schema)


def _messages(request: ModelRequest, profile: ModelProfile) -> list[ai.ModelMessage]:
    """The conversation, in turns: pydantic-ai has one message for everything between two answers."""
    turns: list[ai.ModelMessage] = []
    names = {call.id: call.name for message in request.messages for call in message.tool_calls}
    for message, ref in numbered(request, "PydanticAIModel"):
        if message.role is Role.ASSISTANT:
            turns.append(_response(message, ref))
            continue
        part = _request_part(message, ref, names, profile)
        if turns and isinstance(turns[-1], ai.ModelRequest):
            turns[-1] = ai.ModelRequest(parts=[*turns[-1].parts, part])
        else:
            turns.append(ai.ModelRequest(parts=[part]))
    return turns


def _request_part(
    message: Message, ref: MessageRef, names: dict[str, str], profile: ModelProfile
) -> ai.ModelRequestPart:
    match message.role:
        case Role.SYSTEM:
            return ai.SystemPromptPart(ref.text_of(message))
        case Role.TOOL:
            id = ref.call_id_of(message)
            return ai.ToolReturnPart(names.get(id, "tool"), ref.text_of(message), id)
        case Role.USER | Role.ASSISTANT:
            content = [part for block in message.content for part in _user_content(block, profile)]
            match content:
                case [str(text)]:
                    return ai.UserPromptPart(text)
                case _:
                    return ai.UserPromptPart(content)
        case _:
            assert_never(message.role)


def _user_content(block: ContentBlock, profile: ModelProfile) -> Iterator[ai.UserContent]:
    match block:
        case TextBlock(text=text):
            yield text
        case ThinkingBlock():
            pass
        case ToolUseBlock() | ToolResultBlock():
            yield left_out(block)
        case DocumentBlock() if (written := document_text(block)) is not None:
            yield titled(block, written)
        case ImageBlock() | DocumentBlock() | AudioBlock() | VideoBlock():
            is_readable = profile.get(_FLAGS[block.type], True)
            yield _media(block, block.source) if is_readable else left_out(block)
        case _:
            assert_never(block)


def _media(block: ImageBlock | DocumentBlock | AudioBlock | VideoBlock, source: MediaSource) -> ai.UserContent:
    match source:
        case UrlSource(url=url):
            return _URLS[block.type](url)
        case Base64Source(media_type=media_type, data=data):
            try:
                return ai.BinaryContent(base64.b64decode(data, validate=True), media_type=media_type)
            except ValueError:
                return left_out(block, f"its source is not base64 of {media_type!r}")
        case _:
            assert_never(source)


def _response(message: Message, ref: MessageRef) -> ai.ModelResponse:
    """An answer, with what its provider must be sent back."""
    artifacts = [
        (block.thinking, artifact)
        for block in message.content
        if isinstance(block, ThinkingBlock) and (artifact := artifact_of(block)) is not None
    ]
    parts: list[ai.ModelResponsePart] = [
        _thinking_part(text, artifact) for text, artifact in artifacts if artifact.pydantic_ai == "thinking"
    ]
    if text := ref.text_of(message):
        of_text = [artifact for _, artifact in artifacts if artifact.pydantic_ai == "text"]
        parts.append(_text_part(text, of_text[0] if len(of_text) == 1 else Artifact(pydantic_ai="text")))
    by_call = {artifact.call: artifact for _, artifact in artifacts if artifact.pydantic_ai == "tool-call"}
    parts.extend(_call_part(call, by_call.get(call.provider_id)) for call in message.tool_calls)
    provider = next((artifact.provider for _, artifact in artifacts if artifact.provider), None)
    system = next((artifact.system for _, artifact in artifacts if artifact.system), None)
    return ai.ModelResponse(parts=parts, provider_name=provider, canonical_system=system)


def _thinking_part(text: str, artifact: Artifact) -> ai.ThinkingPart:
    return ai.ThinkingPart(
        text,
        id=artifact.id,
        signature=artifact.signature,
        provider_name=artifact.provider,
        provider_details=artifact.details or None,
    )


def _text_part(text: str, artifact: Artifact) -> ai.TextPart:
    details = artifact.details or None
    return ai.TextPart(text, id=artifact.id, provider_name=artifact.provider, provider_details=details)


def _call_part(call: ToolCall, artifact: Artifact | None) -> ai.ToolCallPart:
    arguments = arguments_of(call)
    part = ai.ToolCallPart(call.name, arguments if isinstance(arguments, dict) else {"arguments": arguments}, call.id)
    if artifact is not None:
        part.id, part.provider_name = artifact.id, artifact.provider
        part.provider_details = artifact.details or None
    return part
