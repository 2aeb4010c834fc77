"""Messages: what people, models and tools say, in content blocks, with the tool calls a model asks for."""

from enum import StrEnum
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, Field, JsonValue
from pydantic_core import to_json

from wakeful.contract.base import Few, Maybe, Wire, Written

MESSAGE_LIMIT = 1_000_000
"""Bytes of one message, or of several that come together: well under what Temporal takes in one payload."""


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Visibility(StrEnum):
    """`internal` messages reach the model but are not shown to people."""

    ALL = "all"
    INTERNAL = "internal"


class Base64Source(Wire):
    type: Literal["base64"] = "base64"
    media_type: str
    data: str


class UrlSource(Wire):
    type: Literal["url"] = "url"
    url: str


MediaSource = Annotated[Base64Source | UrlSource, Field(discriminator="type")]


class TextBlock(Wire):
    type: Literal["text"] = "text"
    text: str


class ImageBlock(Wire):
    type: Literal["image"] = "image"
    source: MediaSource


class DocumentBlock(Wire):
    type: Literal["document"] = "document"
    source: MediaSource
    title: Maybe[str] = None


class AudioBlock(Wire):
    type: Literal["audio"] = "audio"
    source: MediaSource


class VideoBlock(Wire):
    type: Literal["video"] = "video"
    source: MediaSource


class ToolUseBlock(Wire):
    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: JsonValue


class ToolResultBlock(Wire):
    type: Literal["tool_result"] = "tool_result"
    tool_use_id: str
    content: str
    is_error: Few[bool] = False


class ThinkingBlock(Wire):
    type: Literal["thinking"] = "thinking"
    thinking: str
    signature: Maybe[str] = None


ContentBlock = Annotated[
    TextBlock | ImageBlock | DocumentBlock | AudioBlock | VideoBlock | ToolUseBlock | ToolResultBlock | ThinkingBlock,
    Field(discriminator="type"),
]


class ToolCall(Wire):
    """A model's wish to run a tool. `id` is unique in its thread."""

    id: str
    name: str
    arguments: JsonValue = None


class MessageMetadata(Wire):
    run_id: str
    step_index: int


class Message(Wire):
    """One entry of a thread's transcript."""

    id: str
    role: Role
    content: tuple[ContentBlock, ...] = ()
    tool_calls: Few[tuple[ToolCall, ...]] = ()
    tool_call_id: Maybe[str] = None
    visibility: Visibility = Visibility.ALL
    metadata: Maybe[MessageMetadata] = None

    @property
    def text(self) -> str:
        """The text blocks, joined; what a person would read aloud."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))


C = TypeVar("C")


def fitting(content: C) -> C:
    """What was written, if a thread can take it."""
    size = len(to_json(content))
    if size > MESSAGE_LIMIT:
        raise ValueError(
            f"the message has {size:,} bytes, and at most {MESSAGE_LIMIT:,} fit: "
            "put large things where a tool can read them, or name them by url"
        )
    return content


class InputMessage(Written):
    """A message as a person or a client writes it: text or blocks, and an id that makes a repeat harmless."""

    content: Annotated[str | tuple[ContentBlock, ...], AfterValidator(fitting)]
    role: Literal[Role.USER, Role.SYSTEM] = Role.USER
    id: Maybe[str] = None
    visibility: Visibility = Visibility.ALL

    def as_message(self, fallback_id: str) -> Message:
        content = (TextBlock(text=self.content),) if isinstance(self.content, str) else self.content
        return Message(id=self.id or fallback_id, role=self.role, content=content, visibility=self.visibility)
