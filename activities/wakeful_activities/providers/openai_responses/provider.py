"""The Responses API of OpenAI. Nothing is stored there: the thread is ours, and each request tells all of it."""

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
from wakeful_activities.providers.shared.failures import Callee
from wakeful_activities.providers.shared.http import HttpProvider
from wakeful_activities.providers.shared.reading import Reader
from wakeful_activities.providers.shared.writing import (
    Json,
    Place,
    address,
    arguments_of,
    as_json,
    effort_of,
    file_name,
    no_nulls,
    placed,
    schema_name,
    sorted_tools,
    text_within,
    titled,
)


class OpenAIResponses(HttpProvider):
    """OpenAI's models behind its Responses API, whose reasoning can be sent back to them."""

    home = OPENAI_URL
    path = "/responses"
    key_variable = "OPENAI_API_KEY"
    url_variable = "OPENAI_BASE_URL"

    def _headers(self, key: str | None) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def _reader(self, callee: Callee, request_id: str | None) -> Reader:
        return ResponsesReader(callee, request_id)

    def _body(self, request: ModelRequest) -> Json:
        settings = request.settings
        items = [item for message, place in placed(request, "OpenAIResponses") for item in _items(message, place)]
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
        }
        return no_nulls(body) | _reasoning(request) | _format(request)


def _reasoning(request: ModelRequest) -> Json:
    effort = request.settings.reasoning_effort
    if effort is None:
        return {}
    if effort == "none":
        return {"reasoning": {"effort": "none"}}
    # Asked for only with reasoning: a model that has none refuses it.
    include: JsonValue = ["reasoning.encrypted_content"]
    return {"reasoning": {"effort": effort_of(effort), "summary": "auto"}, "include": include}


def _format(request: ModelRequest) -> Json:
    output = request.output
    if output is None:
        return {}
    return {"text": {"format": {"type": "json_schema", "name": schema_name(output), "schema": output.json_schema}}}


def _tool(tool: ToolDescriptor) -> JsonValue:
    # Strict would be the default here, and refuse every schema that has an optional parameter.
    return {
        "type": "function",
        "name": tool.id,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


def _items(message: Message, place: Place) -> Iterator[JsonValue]:
    match message.role:
        case Role.USER | Role.SYSTEM:
            yield {"role": message.role.value, "content": _content(message, place)}
        case Role.ASSISTANT:
            yield from _assistant(message, place)
        case Role.TOOL:
            output = place.text_of(message)
            yield {"type": "function_call_output", "call_id": place.call_of(message), "output": output}
        case _:
            assert_never(message.role)


def _assistant(message: Message, place: Place) -> Iterator[JsonValue]:
    text = place.text_of(message)
    if text or message.tool_calls:  # a thought that nothing follows is refused
        yield from filter(None, (reasoning_item(b) for b in message.content if isinstance(b, ThinkingBlock)))
    if text:
        yield {"role": "assistant", "content": text}
    for call in message.tool_calls:
        arguments = as_json(arguments_of(call))
        yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}


def _content(message: Message, place: Place) -> JsonValue:
    parts: list[JsonValue] = [part for block in message.content if (part := _part(block, place))]
    return parts or ""


def _part(block: ContentBlock, place: Place) -> JsonValue:
    match block:
        case TextBlock(text=text):
            return {"type": "input_text", "text": text}
        case ImageBlock(source=source):
            return {"type": "input_image", "image_url": address(source), "detail": "auto"}
        case DocumentBlock():
            return _document(block, place)
        case ThinkingBlock():
            return None
        case AudioBlock() | VideoBlock() | ToolUseBlock() | ToolResultBlock():
            raise place.cannot_hold(block)
        case _:
            assert_never(block)


def _document(document: DocumentBlock, place: Place) -> JsonValue:
    text = text_within(document, place)
    if text is not None:
        return {"type": "input_text", "text": titled(document, text)}
    match document.source:
        case UrlSource(url=url):
            return {"type": "input_file", "file_url": url}
        case Base64Source():
            return {"type": "input_file", "filename": file_name(document), "file_data": address(document.source)}
        case _:
            assert_never(document.source)
