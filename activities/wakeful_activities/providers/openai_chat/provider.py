"""The Chat Completions API of OpenAI, which Ollama, vLLM, LM Studio and many others implement too."""

from collections.abc import Iterator
from typing import assert_never

from pydantic import JsonValue

from wakeful.contract.inference import ModelRequest, OutputSpec
from wakeful.contract.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    Message,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from wakeful.contract.tools import ToolDescriptor
from wakeful_activities.providers.openai_chat.answers import ChatReader
from wakeful_activities.providers.shared.closed_schemas import OPENAI, closed_schema
from wakeful_activities.providers.shared.failures import Endpoint
from wakeful_activities.providers.shared.http import HttpProvider
from wakeful_activities.providers.shared.reading import Reader
from wakeful_activities.providers.shared.writing import (
    Json,
    MessageRef,
    arguments_of,
    as_json,
    document_text,
    effort_name,
    file_name,
    has_media,
    left_out,
    numbered,
    schema_name,
    sorted_tools,
    titled,
    url_of,
    without_nulls,
)

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_HOSTS = ("openai.com", "openai.azure.com")


class OpenAIChat(HttpProvider):
    """Models behind a Chat Completions API: OpenAI, Ollama, vLLM, LM Studio and others."""

    home = OPENAI_URL
    path = "/chat/completions"
    key_variable = "OPENAI_API_KEY"
    url_variable = "OPENAI_BASE_URL"
    vendor = "openai"

    def _headers(self, key: str | None) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def _reader(self, endpoint: Endpoint, request_id: str | None) -> Reader:
        return ChatReader(endpoint, request_id)

    def _body(self, request: ModelRequest) -> Json:
        messages: list[JsonValue] = []
        if request.instructions:
            messages.append({"role": "system", "content": request.instructions})
        messages.extend(_messages(request))
        settings, output = request.settings, request.output
        effort = settings.reasoning_effort
        body: Json = {
            "model": request.model,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            "tools": [_tool(tool) for tool in sorted_tools(request)] or None,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            self._limit_name: settings.max_tokens,
            "reasoning_effort": None if effort is None else effort_name(effort),
            "response_format": {"type": "json_schema", "json_schema": self._format(output)} if output else None,
            "prompt_cache_retention": "24h" if self._is_openai and settings.prompt_cache == "1h" else None,
        }
        return without_nulls(body)

    @property
    def _limit_name(self) -> str:
        # OpenAI's newer models reject the old name, and most other servers do not know the new one.
        return "max_completion_tokens" if self._is_openai else "max_tokens"

    @property
    def _is_openai(self) -> bool:
        """Whether the server is OpenAI's own: others may not know what it has added to the API."""
        return self._url.host.endswith(OPENAI_HOSTS)

    def _format(self, output: OutputSpec) -> Json:
        strict = closed_schema(output.json_schema, OPENAI) if self._is_openai else None
        if strict is None:
            return {"name": schema_name(output), "schema": output.json_schema}
        return {"name": schema_name(output), "schema": strict, "strict": True}


def _tool(tool: ToolDescriptor) -> JsonValue:
    function: Json = {"name": tool.id, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _messages(request: ModelRequest) -> Iterator[JsonValue]:
    """The messages. The API takes only text from a tool, so a user message follows a round of results with media."""
    media: list[JsonValue] = []
    for message, ref in numbered(request, "OpenAIChat"):
        if message.role is not Role.TOOL and media:
            yield {"role": "user", "content": media}
            media = []
        yield _message(message, ref)
        if message.role is Role.TOOL and has_media(message):
            note: JsonValue = {"type": "text", "text": f"[Content of the result of tool call {message.tool_call_id}:]"}
            media.extend((note, *(_part(block) for block in message.content if not isinstance(block, TextBlock))))
    if media:
        yield {"role": "user", "content": media}


def _message(message: Message, ref: MessageRef) -> JsonValue:
    match message.role:
        case Role.USER | Role.SYSTEM:
            return {"role": message.role.value, "content": _content(message)}
        case Role.ASSISTANT:
            text = ref.text_of(message)
            if not message.tool_calls:
                return {"role": "assistant", "content": text}
            calls: list[JsonValue] = [_call(call) for call in message.tool_calls]
            return {"role": "assistant", "content": text or None, "tool_calls": calls}
        case Role.TOOL:
            text = message.text if has_media(message) else ref.text_of(message)
            return {"role": "tool", "tool_call_id": ref.call_id_of(message), "content": text}
        case _:
            assert_never(message.role)


def _call(call: ToolCall) -> JsonValue:
    function: Json = {"name": call.name, "arguments": as_json(arguments_of(call))}
    return {"id": call.id, "type": "function", "function": function}


def _content(message: Message) -> JsonValue:
    parts: list[JsonValue] = [part for block in message.content if (part := _part(block))]
    match parts:
        case []:
            return ""
        case [{"type": "text", "text": text}]:  # a plain string: some servers do not support parts
            return text
        case _:
            return parts


def _part(block: ContentBlock) -> JsonValue:
    match block:
        case TextBlock(text=text):
            return {"type": "text", "text": text}
        case ImageBlock(source=source):
            return {"type": "image_url", "image_url": {"url": url_of(source)}}
        case DocumentBlock(source=source):
            content = document_text(block)
            if content is not None:
                return {"type": "text", "text": titled(block, content)}
            if isinstance(source, Base64Source):
                return {"type": "file", "file": {"filename": file_name(block), "file_data": url_of(source)}}
            return {"type": "text", "text": left_out(block)}
        case ThinkingBlock():
            return None
        case AudioBlock() | VideoBlock() | ToolUseBlock() | ToolResultBlock():
            return {"type": "text", "text": left_out(block)}
        case _:
            assert_never(block)
