"""Turn what a tool or a gate returned into a result that history can hold and a model can read."""

from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from wakeful.contract.base import json_bytes
from wakeful.contract.errors import ToolError, ToolErrorKind
from wakeful.contract.tools import ToolResult

RESULT_LIMIT = 256_000
"""Bytes of a tool's result as JSON."""


def as_result(tool_name: str, returned: Any) -> ToolResult:
    """The result of a tool that returned any value that JSON can hold, or a `ToolResult`."""
    if isinstance(returned, ToolResult):
        return returned
    try:
        return ToolResult.success(tool_name, to_jsonable_python(returned))
    except PydanticSerializationError as error:
        raise ToolError(
            f"the tool returned a {type(returned).__name__}, which JSON cannot hold: {error}",
            kind=ToolErrorKind.INTERNAL,
        ) from error


def cut_to_fit(result: ToolResult) -> ToolResult:
    """The result; if it is too long for history and for a model, its beginning and a note."""
    size = json_bytes(result)
    if size <= RESULT_LIMIT:
        return result
    note = f"[cut: the result has {size:,} bytes, and the first {RESULT_LIMIT:,} are shown]"
    shown = result.text.encode()[:RESULT_LIMIT].decode(errors="ignore")
    return result.model_copy(update={"data": None, "message": f"{shown}\n{note}"})
