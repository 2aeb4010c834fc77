"""What writing a request has in common, whichever API it goes to."""

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from pydantic import JsonValue

from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.inference import ModelRequest, OutputSpec, ReasoningBudget, ReasoningEffort
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
from wakeful.contract.tools import ToolDescriptor

Json = dict[str, JsonValue]

BUDGETS = {"low": 2_048, "medium": 8_192, "high": 16_384, "max": 32_768}
"""How many tokens each effort stands for, where an API counts them; and which effort a budget stands for, elsewhere."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a conversation something stands, for the person who has to mend it."""

    api: str
    number: int
    role: Role

    def cannot_hold(self, block: ContentBlock) -> ProviderError:
        return ProviderError(
            ProviderErrorKind.INVALID_REQUEST,
            f"message {self.number} (role {self.role.value!r}) holds a {block.type!r} block, which {self.api} cannot "
            "send there; write it as text, or use a provider that takes it",
        )

    def text_of(self, message: Message) -> str:
        """The text of a message that may hold nothing else. What was thought is not said."""
        for block in message.content:
            if not isinstance(block, TextBlock | ThinkingBlock):
                raise self.cannot_hold(block)
        return message.text

    def call_of(self, message: Message) -> str:
        """The call that a tool's result answers."""
        if message.tool_call_id is None:
            problem = f"message {self.number} is a tool's result and names no tool call; set its tool_call_id"
            raise ProviderError(ProviderErrorKind.INVALID_REQUEST, problem)
        return message.tool_call_id


def placed(request: ModelRequest, api: str) -> Iterator[tuple[Message, Place]]:
    """The conversation, each message with its place."""
    for number, message in enumerate(request.messages, start=1):
        yield message, Place(api, number, message.role)


def sorted_tools(request: ModelRequest) -> list[ToolDescriptor]:
    """Sorted: the same tools make the same bytes, which providers cache."""
    return sorted(request.tools, key=lambda tool: tool.id)


def as_json(value: JsonValue) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def as_text(arguments: JsonValue) -> str:
    """Arguments as JSON text, from servers that send it and from those that send the value."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else as_json(arguments)


def arguments_of(call: ToolCall) -> JsonValue:
    """A call's arguments as they are sent back: no API takes none for an answer."""
    return {} if call.arguments is None else call.arguments


def no_nulls(body: Json) -> Json:
    """Without what is not set: null is a value to some servers."""
    return {name: value for name, value in body.items() if value is not None}


def effort_of(effort: ReasoningEffort) -> str:
    """The effort by name; a budget is the effort that comes nearest to it."""
    if isinstance(effort, ReasoningBudget):
        return min(BUDGETS, key=lambda name: abs(BUDGETS[name] - effort.budget))
    return effort


def address(source: MediaSource) -> str:
    match source:
        case UrlSource(url=url):
            return url
        case Base64Source(media_type=media_type, data=data):
            return f"data:{media_type};base64,{data}"
        case _:
            assert_never(source)


def text_within(document: DocumentBlock, place: Place) -> str | None:
    """What a document says that is nothing but text; None for one that only a model can read."""
    source = document.source
    if not isinstance(source, Base64Source) or not source.media_type.startswith("text/"):
        return None
    try:
        return base64.b64decode(source.data, validate=True).decode()
    except ValueError as error:
        problem = f"message {place.number} holds a {source.media_type!r} document that is not text in base64"
        raise ProviderError(ProviderErrorKind.INVALID_REQUEST, f"{problem}: {error}") from error


def titled(document: DocumentBlock, text: str) -> str:
    return f"{document.title}\n\n{text}" if document.title else text


def file_name(document: DocumentBlock) -> str:
    return document.title or "document.pdf"


def schema_name(output: OutputSpec) -> str:
    """The name as OpenAI allows it."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", output.name)[:64] or "answer"
