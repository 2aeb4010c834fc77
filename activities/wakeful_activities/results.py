"""Turn what a tool or a gate returned into a result that history can hold and a model can read."""

import json
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from wakeful.contract.base import Wire, json_bytes
from wakeful.contract.errors import ToolError, ToolErrorKind
from wakeful.contract.limits import depth_problem
from wakeful.contract.messages import (
    AudioBlock,
    Base64Source,
    DocumentBlock,
    ImageBlock,
    MediaBlock,
    TextBlock,
    VideoBlock,
)
from wakeful.contract.tools import ToolResult, ToolStatus

W = TypeVar("W", bound=Wire)

RESULT_LIMIT = 256_000
"""Bytes of a tool's result as JSON."""

_MEDIA = (ImageBlock, DocumentBlock, AudioBlock, VideoBlock)


def as_result(tool_name: str, returned: Any) -> ToolResult:
    """The result of a tool that returned any value that JSON can hold, content blocks, or a `ToolResult`.

    A list with a content block among its entries is content: the model reads its texts and other values as one text,
    and gets its media.
    """
    if isinstance(returned, ToolResult):
        return returned
    parts = returned if isinstance(returned, list | tuple) else (returned,)
    if not any(isinstance(part, (TextBlock, *_MEDIA)) for part in parts):
        return ToolResult.success(tool_name, _jsonable(returned))
    media = tuple(part for part in parts if isinstance(part, _MEDIA))
    text = "\n".join(_text(tool_name, part) for part in parts if not isinstance(part, _MEDIA))
    message = text or media_note(media)
    return ToolResult(tool_name=tool_name, status=ToolStatus.SUCCESS, message=message, media=media)


def media_note(media: Sequence[MediaBlock]) -> str:
    """What the model reads of a result that has media, and no text."""
    kinds = [block.type for block in media]
    counted = " and ".join(f"{kinds.count(kind)} of type {kind!r}" for kind in dict.fromkeys(kinds))
    return f"The tool returned no text, but content: {counted}."


def _text(tool_name: str, part: Any) -> str:
    return part.text if isinstance(part, TextBlock) else ToolResult.success(tool_name, _jsonable(part)).text


def _jsonable(returned: Any) -> Any:
    try:
        return to_jsonable_python(returned)
    except (PydanticSerializationError, RecursionError, ValueError) as error:
        raise ToolError(
            f"the tool returned a {type(returned).__name__}, which JSON cannot hold: {error}",
            kind=ToolErrorKind.INTERNAL,
        ) from error


def cut_to_fit(result: ToolResult) -> ToolResult:
    """The result, if history can hold it and a model can read it: else its beginning and a note, or an error."""
    try:
        result = in_unicode(result)
        problem = depth_problem(result.model_dump(mode="json"))
        if problem is None and (size := json_bytes(result.suspension)) > RESULT_LIMIT:
            problem = f"the ticket of its suspension has {size:,} bytes; at most {RESULT_LIMIT:,} are accepted"
    except (PydanticSerializationError, RecursionError, ValueError) as error:
        problem = f"JSON cannot hold it: {error}"
    if problem is not None:
        return ToolResult.error(result.tool_name, f"the tool ran, but its result cannot be recorded: {problem}")
    return _with_fitting_media(result).cut_to(RESULT_LIMIT)


def _with_fitting_media(result: ToolResult) -> ToolResult:
    """The result; if it is too long for history, without its largest media, and with notes in their place."""
    largest_first = sorted(range(len(result.media)), key=lambda n: json_bytes(result.media[n]), reverse=True)
    fitting = result
    for count in range(1, len(largest_first) + 1):
        if json_bytes(fitting) <= RESULT_LIMIT:
            break
        left_out = largest_first[:count]
        notes = (_left_out(result.media[number]) for number in sorted(left_out))
        media = tuple(block for number, block in enumerate(result.media) if number not in left_out)
        fitting = result.model_copy(update={"media": media, "message": "\n".join((result.text, *notes))})
    return fitting


def _left_out(block: MediaBlock) -> str:
    kind = f" ({block.source.media_type})" if isinstance(block.source, Base64Source) else ""
    return (
        f"[{block.type}{kind} of {json_bytes(block):,} bytes left out: a result may have {RESULT_LIMIT:,}. Ask for a "
        "smaller one, or for a URL.]"
    )


def in_unicode(value: W) -> W:
    """The value without half surrogate pairs, such as names of files have that are not UTF-8."""
    try:
        to_json(value)
    except PydanticSerializationError:
        written = json.dumps(value.model_dump(mode="json"), ensure_ascii=False)
        return type(value).model_validate_json(written.encode(errors="replace"))
    return value
