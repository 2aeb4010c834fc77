"""Whether a model could make the calls of a script: of tools in the request, with arguments that fit."""

from collections.abc import Mapping

from pydantic import JsonValue

from wakeful.authoring.json_schemas import value_problem
from wakeful.contract.inference import ModelRequest
from wakeful.contract.suggestions import did_you_mean
from wakeful.contract.tools import ToolDescriptor

REMEDY = "to script a bad call, write call(…).unchecked()"


def call_problem(request: ModelRequest, tool: str, arguments: Mapping[str, JsonValue]) -> str | None:
    """Why the model of this request would not make the call; None if it could."""
    offered = {each.id: each for each in request.tools}
    if tool not in offered:
        names = ", ".join(sorted(offered)) or "none"
        meant = did_you_mean(tool, offered)
        return f"it calls {tool!r}, which is not a tool of the request; tools: {names}{meant} ({REMEDY})"
    problem = _argument_problem(offered[tool], arguments)
    return None if problem is None else f"it calls {tool!r} with arguments that do not fit: {problem} ({REMEDY})"


def _argument_problem(tool: ToolDescriptor, arguments: Mapping[str, JsonValue]) -> str | None:
    schema = tool.parameters
    properties, required = schema.get("properties"), schema.get("required")
    known = list(properties) if isinstance(properties, dict) else []
    unknown = next((name for name in arguments if name not in known), None)
    if unknown is not None and schema.get("additionalProperties") is False:
        # First, because a misspelt argument is also why another one is missing.
        return f"unknown argument {unknown!r}; it takes: {', '.join(known) or 'none'}{did_you_mean(unknown, known)}"
    optional = {name for name in known if not (isinstance(required, list) and name in required)}
    # A tool takes a null for an argument that was left out, which its schema does not say: models leave it out.
    given = {name: value for name, value in arguments.items() if value is not None or name not in optional}
    error = value_problem(given, schema)
    if error is None:
        return None
    path = error.json_path.removeprefix("$").removeprefix(".")
    return f"{path}: {error.message}" if path else error.message
