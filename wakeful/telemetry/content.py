"""Prompts, answers, arguments and results as attributes, in the form of the conventions, cut to a limit.

They are recorded only if the standard variable asks for it: they are what people and models said, and perhaps secret.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

from pydantic import JsonValue

from wakeful.contract.inference import ModelRequest, ModelResponse
from wakeful.contract.messages import (
    AudioBlock,
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
    UrlSource,
    VideoBlock,
)
from wakeful.telemetry import names

VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
ASKING = frozenset({"true", "1", "span_only", "span_and_event"})
"""The variable's values with which spans have contents: what older and newer instrumentations take."""

LIMIT = 32_000
"""Characters of one attribute, about: of a conversation, the newest messages are kept."""

Part = dict[str, JsonValue]


def is_captured(environ: Mapping[str, str]) -> bool:
    """Whether the environment asks for contents."""
    return environ.get(VARIABLE, "").strip().lower() in ASKING


def request_content(request: ModelRequest) -> dict[str, str]:
    """The instructions and the newest messages of a request."""
    content = {names.INPUT_MESSAGES: _dumped(_newest(request.messages, LIMIT))}
    if request.instructions:
        content[names.SYSTEM_INSTRUCTIONS] = _dumped([{"type": "text", "content": _cut(request.instructions, LIMIT)}])
    return content


def response_content(response: ModelResponse, finish_reason: str) -> dict[str, str]:
    """An answer."""
    room = _Room(LIMIT)
    reasoning = response.reasoning or "".join(block.thinking for block in response.thinking)
    parts: list[JsonValue] = [room.text("reasoning", reasoning)] if reasoning else []
    parts += [room.text("text", response.text)] if response.text else []
    parts += [room.call(call) for call in response.tool_calls]
    return {names.OUTPUT_MESSAGES: _dumped([{"role": "assistant", "parts": parts, "finish_reason": finish_reason}])}


def tool_content(arguments: JsonValue, result: object) -> dict[str, str]:
    """The arguments and the result of a call."""
    content = {names.TOOL_ARGUMENTS: _cut(_dumped(arguments), LIMIT)}
    if result is not None:
        content[names.TOOL_RESULT] = _cut(result if isinstance(result, str) else _dumped(result), LIMIT)
    return content


class _Room:
    """What is left of a limit; each text takes what it needs, and is cut to what there is."""

    def __init__(self, limit: int) -> None:
        self.left = limit

    def take(self, text: str) -> str:
        taken = _cut(text, max(0, self.left))
        self.left -= len(taken)
        return taken

    def text(self, kind: str, text: str) -> Part:
        return {"type": kind, "content": self.take(text)}

    def call(self, call: ToolCall) -> Part:
        return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": self.take(_dumped(call.arguments))}


def _newest(messages: Sequence[Message], limit: int) -> list[JsonValue]:
    room, newest = _Room(limit), list[JsonValue]()
    for message in reversed(messages):
        if room.left <= 0:
            break
        newest.append({"role": message.role.value, "parts": list(_parts(message, room))})
    return newest[::-1]


def _parts(message: Message, room: _Room) -> Iterable[JsonValue]:
    if message.role is Role.TOOL:
        yield {"type": "tool_call_response", "id": message.tool_call_id, "response": room.take(message.text)}
        return
    for block in message.content:
        yield _part(block, room)
    for call in message.tool_calls:
        yield room.call(call)


def _part(block: ContentBlock, room: _Room) -> Part:
    match block:
        case TextBlock(text=text):
            return room.text("text", text)
        case ThinkingBlock(thinking=text):
            return room.text("reasoning", text)
        case ToolUseBlock(id=id, name=name, input=arguments):
            return room.call(ToolCall(id=id, name=name, arguments=arguments))
        case ToolResultBlock(tool_use_id=id, content=text):
            return {"type": "tool_call_response", "id": id, "response": room.take(text)}
        case ImageBlock() | DocumentBlock() | AudioBlock() | VideoBlock():
            if isinstance(block.source, UrlSource):
                return {"type": "uri", "modality": block.type, "uri": room.take(block.source.url)}
            return {"type": "blob", "modality": block.type, "mime_type": block.source.media_type, "content": ""}
        case _:
            assert_never(block)


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"
