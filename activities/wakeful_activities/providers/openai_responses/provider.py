"""The Responses API of OpenAI. It stores nothing there: each request contains the whole conversation."""

from collections.abc import Iterator
from typing import assert_never

from pydantic import JsonValue

from wakeful.contract.inference import ModelRequest
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
    ToolResultBlock,
    ToolUseBlock,
    UrlSource,
    VideoBlock,
)
from wakeful.contract.tools import ToolDescriptor
from wakeful_activities.providers.openai_chat.provider import OPENAI_URL
from wakeful_activities.providers.openai_responses.answers import ResponsesReader, reasoning_item
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


class OpenAIResponses(HttpProvider):
    """OpenAI's models behind its Responses API, which takes their reasoning back."""

    home = OPENAI_URL
    path = "/responses"
    key_variable = "OPENAI_API_KEY"
    url_variable = "OPENAI_BASE_URL"
    vendor = "openai"

    def _headers(self, key: str | None) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def _reader(self, endpoint: Endpoint, request_id: str | None) -> Reader:
        return ResponsesReader(endpoint, request_id)

    def _body(self, request: ModelRequest) -> Json:
        settings = request.settings
        items = [item for message, ref in numbered(request, "OpenAIResponses") for item in _items(message, ref)]
        body: Json = {
            "model": request.model,
            "instructions": request.instructions or None,
            "input": items,
            "stream": True,
            "store": False,
            "tools": [_tool(tool) for tool in sorted_tools(request)] or None,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "max_output_tokens": settings.max_tokens,
            "prompt_cache_retention": "24h" if settings.prompt_cache == "1h" else None,
        }
        return without_nulls(body) | _reasoning(request) | _format(request)


def _reasoning(request: ModelRequest) -> Json:
    effort = request.settings.reasoning_effort
    if effort is None:
        return {}
    if effort == "none":
        return {"reasoning": {"effort": "none"}}
    # Only with reasoning: models without it reject this.
    include: JsonValue = ["reasoning.encrypted_content"]
    return {"reasoning": {"effort": effort_name(effort), "summary": "auto"}, "include": include}


def _format(request: ModelRequest) -> Json:
    output = request.output
    if output is None:
        return {}
    strict = closed_schema(output.json_schema, OPENAI)
    format: Json = {"type": "json_schema", "name": schema_name(output), "schema": strict or output.json_schema}
    return {"text": {"format": format | {"strict": strict is not None}}}


def _tool(tool: ToolDescriptor) -> JsonValue:
    # Strict would be the default here, and rejects schemas with optional parameters.
    return {
        "type": "function",
        "name": tool.id,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


def _items(message: Message, ref: MessageRef) -> Iterator[JsonValue]:
    match message.role:
        case Role.USER | Role.SYSTEM:
            yield {"role": message.role.value, "content": _content(message)}
        case Role.ASSISTANT:
            yield from _assistant(message, ref)
        case Role.TOOL:
            output = _content(message) if has_media(message) else ref.text_of(message)
            yield {"type": "function_call_output", "call_id": ref.call_id_of(message), "output": output}
        case _:
            assert_never(message.role)


def _assistant(message: Message, ref: MessageRef) -> Iterator[JsonValue]:
    text = ref.text_of(message)
    if text or message.tool_calls:  # the API rejects reasoning that nothing follows
        yield from filter(None, (reasoning_item(b) for b in message.content if isinstance(b, ThinkingBlock)))
    if text:
        yield {"role": "assistant", "content": text}
    for call in message.tool_calls:
        arguments = as_json(arguments_of(call))
        yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}


def _content(message: Message) -> JsonValue:
    parts: list[JsonValue] = [part for block in message.content if (part := _part(block))]
    return parts or ""


def _part(block: ContentBlock) -> JsonValue:
    match block:
        case TextBlock(text=text):
            return {"type": "input_text", "text": text}
        case ImageBlock(source=source):
            return {"type": "input_image", "image_url": url_of(source), "detail": "auto"}
        case DocumentBlock():
            return _document(block)
        case ThinkingBlock():
            return None
        case AudioBlock() | VideoBlock() | ToolUseBlock() | ToolResultBlock():
            return {"type": "input_text", "text": left_out(block)}
        case _:
            assert_never(block)


def _document(document: DocumentBlock) -> JsonValue:
    text = document_text(document)
    if text is not None:
        return {"type": "input_text", "text": titled(document, text)}
    match document.source:
        case UrlSource(url=url):
            return {"type": "input_file", "file_url": url}
        case Base64Source():
            return {"type": "input_file", "filename": file_name(document), "file_data": url_of(document.source)}
        case _:
            assert_never(document.source)
