"""Messages of people, models and tools, in content blocks, and the tool calls of a model."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from pydantic import AfterValidator, Field, JsonValue
from pydantic_core import to_json

from wakeful.contract.applied_decisions import AppliedDecision
from wakeful.contract.base import Few, Maybe, Wire, Written
from wakeful.contract.remote import RemoteOrigin

MESSAGE_LIMIT = 1_000_000
"""Bytes of one message, or of several submitted together: well under Temporal's payload limit."""


ID_LENGTH = 1_000
"""Characters of an id that a client gives a message."""


class Role(StrEnum):
    """Who wrote a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


RoleName = Literal["system", "user", "assistant", "tool"]


class Visibility(StrEnum):
    """`internal` messages are sent to the model but not shown to people."""

    ALL = "all"
    INTERNAL = "internal"


VisibilityName = Literal["all", "internal"]


class Base64Source(Wire):
    """Media in the message itself."""

    type: Literal["base64"] = "base64"
    media_type: str
    data: str


class UrlSource(Wire):
    """Media at an address that the provider fetches."""

    type: Literal["url"] = "url"
    url: str


MediaSource = Annotated[Base64Source | UrlSource, Field(discriminator="type")]


class TextBlock(Wire):
    """Text, as a part of a message."""

    type: Literal["text"] = "text"
    text: str


class ImageBlock(Wire):
    """A picture."""

    type: Literal["image"] = "image"
    source: MediaSource


class DocumentBlock(Wire):
    """A file, such as a PDF."""

    type: Literal["document"] = "document"
    source: MediaSource
    title: Maybe[str] = None


class AudioBlock(Wire):
    """A recording."""

    type: Literal["audio"] = "audio"
    source: MediaSource


class VideoBlock(Wire):
    """A film."""

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


MediaBlock = Annotated[ImageBlock | DocumentBlock | AudioBlock | VideoBlock, Field(discriminator="type")]

ContentBlock = Annotated[
    TextBlock | ImageBlock | DocumentBlock | AudioBlock | VideoBlock | ToolUseBlock | ToolResultBlock | ThinkingBlock,
    Field(discriminator="type"),
]


class ToolCall(Wire):
    """A tool call that a model asks for. `id` is Wakeful's own (`ids.call_id`) and unique in its thread."""

    id: str
    name: str
    arguments: JsonValue = None
    provider: Maybe[str] = None
    """The provider that gave the call an id of its own."""
    provider_id: Maybe[str] = None
    """That id. Only requests to the same provider use it."""

    @property
    def for_tool(self) -> "ToolCall":
        """The call without what only its provider needs."""
        return ToolCall(id=self.id, name=self.name, arguments=self.arguments)


class MessageMetadata(Wire):
    run_id: str
    step_index: int


class LeftOut(Wire):
    """Content that the provider rejected, and that an answer therefore had to do without."""

    content: str
    """A tool call's id, or the digest of a message."""
    media_only: Few[bool] = False
    """Only the message's pictures, documents, audio and video; not its text."""


class Message(Wire):
    """One entry of a thread's transcript."""

    id: str
    role: Role
    content: tuple[ContentBlock, ...] = ()
    tool_calls: Few[tuple[ToolCall, ...]] = ()
    tool_call_id: Maybe[str] = None
    visibility: Visibility = Visibility.ALL
    metadata: Maybe[MessageMetadata] = None
    is_mail: Few[bool] = False
    """Wakeful wrote it, about another agent or a task: only such a message may have Wakeful's own tags."""
    left_out: Few[tuple[LeftOut, ...]] = ()
    """Of an answer: what its request did not include; later requests do not include it either."""
    remote: Maybe[RemoteOrigin] = None
    """Of the answer of a remote agent: where it was made."""
    decisions: Few[tuple[AppliedDecision, ...]] = ()
    """Of the result of a tool call: who decided about the call, the newest last. What is long is cut."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            id: str,
            role: Role | RoleName,
            content: Sequence[ContentBlock] = ...,
            tool_calls: Sequence[ToolCall] = ...,
            tool_call_id: str | None = ...,
            visibility: Visibility | VisibilityName = ...,
            metadata: MessageMetadata | None = ...,
            is_mail: bool = ...,
            left_out: Sequence[LeftOut] = ...,
            remote: RemoteOrigin | None = ...,
            decisions: Sequence[AppliedDecision] = ...,
        ) -> None: ...

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def media(self) -> tuple[MediaBlock, ...]:
        """Its pictures, documents, audio and video."""
        kinds = ImageBlock | DocumentBlock | AudioBlock | VideoBlock
        return tuple(block for block in self.content if isinstance(block, kinds))


C = TypeVar("C")


def fitting(content: C) -> C:
    """The content, if it is small enough for a thread."""
    size = len(to_json(content))
    if size > MESSAGE_LIMIT:
        raise ValueError(
            f"the message has {size:,} bytes; at most {MESSAGE_LIMIT:,} are accepted: "
            "store large content where a tool can read it, or refer to it by URL"
        )
    return content


class InputMessage(Written):
    """A message as a person or a client writes it: text or blocks, and an id that makes a repeat a no-op."""

    content: Annotated[str | tuple[ContentBlock, ...], AfterValidator(fitting)]
    role: Literal[Role.USER, Role.SYSTEM] = Role.USER
    id: Maybe[Annotated[str, Field(max_length=ID_LENGTH)]] = None
    visibility: Visibility = Visibility.ALL

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            content: str | Sequence[ContentBlock],
            role: Literal[Role.USER, Role.SYSTEM, "user", "system"] = ...,
            id: str | None = ...,
            visibility: Visibility | VisibilityName = ...,
        ) -> None: ...

    def as_message(self, fallback_id: str) -> Message:
        content = (TextBlock(text=self.content),) if isinstance(self.content, str) else self.content
        return Message(id=self.id or fallback_id, role=self.role, content=content, visibility=self.visibility)
