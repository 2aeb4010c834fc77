"""Turn what a tool or a gate returned into a result that history can hold and a model can read."""

import json
from typing import Any, TypeVar

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from wakeful.contract.base import Wire, json_bytes
from wakeful.contract.errors import ToolError, ToolErrorKind
from wakeful.contract.limits import depth_problem
from wakeful.contract.tools import ToolResult

W = TypeVar("W", bound=Wire)

RESULT_LIMIT = 256_000
"""Bytes of a tool's result as JSON."""


def as_result(tool_name: str, returned: Any) -> ToolResult:
    """The result of a tool that returned any value that JSON can hold, or a `ToolResult`."""
    if isinstance(returned, ToolResult):
        return returned
    try:
        return ToolResult.success(tool_name, to_jsonable_python(returned))
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
    return result.cut_to(RESULT_LIMIT)


def in_unicode(value: W) -> W:
    """The value without half surrogate pairs, such as names of files have that are not UTF-8."""
    try:
        to_json(value)
    except PydanticSerializationError:
        written = json.dumps(value.model_dump(mode="json"), ensure_ascii=False)
        return type(value).model_validate_json(written.encode(errors="replace"))
    return value
