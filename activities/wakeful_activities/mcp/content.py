"""What a server returned, as the result of a tool call: text, structured data, pictures, documents and audio."""

import base64
import json
from collections.abc import Callable, Iterator, Sequence

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import JsonValue

from wakeful.authoring.media import block_of
from wakeful.contract.messages import AudioBlock, Base64Source, ImageBlock, MediaBlock
from wakeful.contract.tools import McpToolRef, ToolResult, ToolStatus
from wakeful_activities.mcp.tool_list import METADATA_SERVER, METADATA_TOOL
from wakeful_activities.results import media_note

UNKNOWN_TYPE = "application/octet-stream"


def tool_result(
    tool_name: str, ref: McpToolRef, returned: CallToolResult, clean: Callable[[str], str] = str
) -> ToolResult:
    """The result of a call. The model reads the text, or else the structured data, and gets the media.

    Args:
        clean: removes secrets of the server, which it may repeat.
    """
    text, media = clean("\n".join(_texts(returned.content))), tuple(_media(returned.content))
    data: JsonValue = json.loads(clean(json.dumps(returned.structured_content, ensure_ascii=False)))
    if not text and media:
        text = media_note(media)
    message = text or (None if data is not None else "")
    return ToolResult(
        tool_name=tool_name,
        status=ToolStatus.ERROR if returned.is_error else ToolStatus.SUCCESS,
        data=data,
        message=message if message is not None or not returned.is_error else "the tool failed and did not say why",
        metadata={METADATA_SERVER: ref.server, METADATA_TOOL: ref.tool},
        media=media,
    )


def _texts(content: Sequence[ContentBlock]) -> Iterator[str]:
    for block in content:
        match block:
            case TextContent(text=text):
                yield text
            case ResourceLink():
                kind = f", {block.mime_type}" if block.mime_type else ""
                yield f"[resource {block.name!r}: {block.uri}{kind}]"
            case EmbeddedResource(resource=TextResourceContents() as resource):
                yield f"[resource {resource.uri}]\n{resource.text}"
            case EmbeddedResource(resource=BlobResourceContents() as resource) if _block_of(resource) is None:
                size = len(resource.blob) * 3 // 4
                yield f"[resource {resource.uri} left out: {resource.mime_type or UNKNOWN_TYPE} of {size:,} bytes]"
            case _:
                pass


def _media(content: Sequence[ContentBlock]) -> Iterator[MediaBlock]:
    for block in content:
        match block:
            case ImageContent(data=data, mime_type=media_type):
                yield ImageBlock(source=Base64Source(media_type=media_type, data=data))
            case AudioContent(data=data, mime_type=media_type):
                yield AudioBlock(source=Base64Source(media_type=media_type, data=data))
            case EmbeddedResource(resource=BlobResourceContents() as resource):
                if (made := _block_of(resource)) is not None:
                    yield made
            case _:
                pass


def _block_of(resource: BlobResourceContents) -> MediaBlock | None:
    """The resource as a model can read it; None if it cannot."""
    media_type = resource.mime_type or UNKNOWN_TYPE
    if media_type.startswith("text/") and not _is_base64(resource.blob):
        return None
    return block_of(media_type, Base64Source(media_type=media_type, data=resource.blob), title=str(resource.uri))


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True
