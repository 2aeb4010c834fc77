"""The parts of A2A messages as content blocks, and back. Pure."""

import base64
import json
from collections.abc import Iterable

from a2a.types import Message, Part, Role
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct
from pydantic import JsonValue

from wakeful.contract import messages
from wakeful.contract.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    TextBlock,
    UrlSource,
    VideoBlock,
)


def blocks_of(message: Message) -> tuple[ContentBlock, ...]:
    """What a model reads of a message.

    Raises:
        InvalidParamsError: it has no content.
    """
    blocks = tuple(_block(part) for part in message.parts)
    if not any(not isinstance(block, TextBlock) or block.text.strip() for block in blocks):
        raise InvalidParamsError("the message has no content: give it a text, a file or data")
    return blocks


def value_of(message: Message) -> JsonValue:
    """What a message answers: the value of its data part; of several parts a list; else its text."""
    values = [data_of(part) for part in message.parts if part.WhichOneof("content") == "data"]
    if values:
        return values[0] if len(values) == 1 else values
    return text_of(message)


def text_of(message: Message) -> str:
    """The text parts, a line each."""
    return "\n".join(part.text for part in message.parts if part.WhichOneof("content") == "text")


def data_of(part: Part) -> JsonValue:
    """The JSON value of a data part."""
    return _whole_numbers(MessageToDict(part.data))


def data_part(value: JsonValue) -> Part:
    """A part that holds a JSON value."""
    parsed = ParseDict({"value": value}, Struct()).fields["value"]
    return Part(data=parsed, media_type="application/json")


def a2a_message(message: messages.Message, *, task_id: str, context_id: str) -> Message:
    """A message of the conversation, as its sender would write it."""
    role = Role.ROLE_USER if message.role is messages.Role.USER else Role.ROLE_AGENT
    parts = parts_of(message.content)
    return Message(message_id=message.id, task_id=task_id, context_id=context_id, role=role, parts=parts)


def _block(part: Part) -> ContentBlock:
    match part.WhichOneof("content"):
        case "text":
            return TextBlock(text=part.text)
        case "data":
            return TextBlock(text=json.dumps(data_of(part), ensure_ascii=False))
        case "raw":
            return _raw_block(part)
        case "url":
            return _media_block(UrlSource(url=part.url), part)
        case _:
            raise InvalidParamsError("a part of the message is empty: give it text, raw, url or data")


def _raw_block(part: Part) -> ContentBlock:
    if not part.media_type:
        raise ContentTypeNotSupportedError(f"file {part.filename!r} has no media type: name it in mediaType")
    if part.media_type.startswith("text/"):
        try:
            return TextBlock(text=part.raw.decode())
        except UnicodeDecodeError:
            raise ContentTypeNotSupportedError(f"file {part.filename!r} is {part.media_type}, but not UTF-8") from None
    return _media_block(Base64Source(media_type=part.media_type, data=base64.b64encode(part.raw).decode()), part)


def _media_block(source: MediaSource, part: Part) -> ContentBlock:
    match part.media_type.partition("/")[0]:
        case "image":
            return ImageBlock(source=source)
        case "audio":
            return AudioBlock(source=source)
        case "video":
            return VideoBlock(source=source)
        case _:
            return DocumentBlock(source=source, title=part.filename or None)


def parts_of(blocks: Iterable[ContentBlock]) -> list[Part]:
    """Texts and files as a client of ours reads them."""
    parts = list[Part]()
    for block in blocks:
        match block:
            case TextBlock(text=text):
                parts.append(Part(text=text, media_type="text/plain"))
            case ImageBlock(source=source) | AudioBlock(source=source) | VideoBlock(source=source):
                parts.append(_file_part(source))
            case DocumentBlock(source=source, title=title):
                parts.append(_file_part(source, title or ""))
            case _:
                pass  # calls and reasoning are not shown to clients
    return parts


def _file_part(source: MediaSource, filename: str = "") -> Part:
    if isinstance(source, UrlSource):
        return Part(url=source.url, filename=filename)
    return Part(raw=base64.b64decode(source.data), media_type=source.media_type, filename=filename)


def _whole_numbers(value: JsonValue) -> JsonValue:
    """Protobuf has no whole numbers: 3 arrives as 3.0."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_whole_numbers(each) for each in value]
        case dict():
            return {key: _whole_numbers(each) for key, each in value.items()}
        case _:
            return value
