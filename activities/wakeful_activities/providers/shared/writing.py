"""What writing a request has in common for all APIs."""

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from pydantic import JsonValue

from wakeful.context.rejected import block_note
from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.inference import ModelRequest, OutputSpec
from wakeful.contract.messages import (
    Base64Source,
    ContentBlock,
    DocumentBlock,
    MediaSource,
    Message,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    UrlSource,
)
from wakeful.contract.model_settings import ReasoningBudget, ReasoningEffort
from wakeful.contract.tools import ToolDescriptor

Json = dict[str, JsonValue]

BUDGETS = {"low": 2_048, "medium": 8_192, "high": 16_384, "max": 32_768}
"""The tokens of each effort, for APIs that take a budget; and the effort of a budget, for the others."""


@dataclass(frozen=True, slots=True)
class MessageRef:
    """A message of a request, as errors name it."""

    api: str
    number: int
    role: Role

    def text_of(self, message: Message) -> str:
        """The text of a message that may contain only text; reasoning is left out."""
        return "".join(
            block.text if isinstance(block, TextBlock) else left_out(block)
            for block in message.content
            if not isinstance(block, ThinkingBlock)
        )

    def call_id_of(self, message: Message) -> str:
        """The id of the call that a tool's result belongs to."""
        if message.tool_call_id is None:
            problem = f"message {self.number} is a tool's result without a tool call; set its tool_call_id"
            raise ProviderError(ProviderErrorKind.INVALID_REQUEST, problem)
        return message.tool_call_id


def left_out(block: ContentBlock, problem: str = "you cannot read it here") -> str:
    """What the model reads in place of a block that its API cannot send: an error would end every later run, too."""
    return block_note(block, problem)


def has_media(message: Message) -> bool:
    """Whether a tool's result has pictures, documents or audio beside its text."""
    return bool(message.media)


def numbered(request: ModelRequest, api: str) -> Iterator[tuple[Message, MessageRef]]:
    """The messages of a request, each with its reference for errors."""
    for number, message in enumerate(request.messages, start=1):
        yield message, MessageRef(api, number, message.role)


def sorted_tools(request: ModelRequest) -> list[ToolDescriptor]:
    """Sorted: providers cache a prefix, so the same tools must give the same bytes."""
    return sorted(request.tools, key=lambda tool: tool.id)


def as_json(value: JsonValue) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def arguments_text(arguments: JsonValue) -> str:
    """Arguments as JSON text, from servers that send it and from those that send the value."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else as_json(arguments)


def arguments_of(call: ToolCall) -> JsonValue:
    """A call's arguments as they are sent back: APIs require an object even for a call without arguments."""
    return {} if call.arguments is None else call.arguments


def without_nulls(body: Json) -> Json:
    """The body without fields that are not set: some servers treat null as a value."""
    return {name: value for name, value in body.items() if value is not None}


def effort_name(effort: ReasoningEffort) -> str:
    """The name of the effort; for a budget, of the nearest one."""
    if isinstance(effort, ReasoningBudget):
        return min(BUDGETS, key=lambda name: abs(BUDGETS[name] - effort.budget))
    return effort


def url_of(source: MediaSource) -> str:
    match source:
        case UrlSource(url=url):
            return url
        case Base64Source(media_type=media_type, data=data):
            return f"data:{media_type};base64,{data}"
        case _:
            assert_never(source)


def document_text(document: DocumentBlock) -> str | None:
    """The text of a plain-text document; None for other documents, which only the model can read."""
    source = document.source
    if not isinstance(source, Base64Source) or not source.media_type.startswith("text/"):
        return None
    try:
        return base64.b64decode(source.data, validate=True).decode()
    except ValueError:
        return left_out(document, f"its source is not base64 of {source.media_type!r}")


def titled(document: DocumentBlock, text: str) -> str:
    return f"{document.title}\n\n{text}" if document.title else text


def file_name(document: DocumentBlock) -> str:
    return document.title or "document.pdf"


def json_only(output: OutputSpec) -> str:
    """The instruction to answer in JSON, for a model whose provider cannot enforce a schema."""
    return _JSON_ONLY.format(schema=as_json(output.json_schema))


_JSON_ONLY = "Respond only with JSON that matches this JSON Schema, without any other text:\n{schema}"


def schema_name(output: OutputSpec) -> str:
    """The output type's name in the characters that OpenAI allows."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", output.name)[:64] or "answer"
