"""A tool's arguments from its function's signature: a pydantic model to check them, and a JSON schema for models."""

import inspect
from collections.abc import Callable
from typing import Any, get_args, get_origin, get_type_hints

import docstring_parser
from pydantic import BaseModel, ConfigDict, Field, JsonValue, create_model
from pydantic.errors import PydanticUserError

from wakeful.authoring.lifespan import type_name
from wakeful.contract.errors import ConfigurationError
from wakeful.contract.field_problems import shown


def argument_model(
    tool_id: str, function: Callable[..., Any], *, context: type, is_method: bool = False
) -> tuple[type[BaseModel], str | None, object]:
    """A model of the function's parameters, and the name and type of the one of type `context`, if it has one.

    Args:
        is_method: its first parameter is the instance or the class that it is bound to later.

    Raises:
        ConfigurationError: a parameter has no type, or its type has no JSON schema.
    """
    hints = _type_hints(tool_id, function)
    described = {p.arg_name: p.description for p in docstring_parser.parse(inspect.getdoc(function) or "").params}
    fields: dict[str, Any] = {}
    context_parameter, problems = None, []
    for parameter in [*inspect.signature(function).parameters.values()][is_method:]:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            problems.append(f"tool {tool_id!r}: parameter {parameter} is not supported; name every parameter")
        elif parameter.name not in hints:
            problems.append(f"tool {tool_id!r}: parameter {parameter.name!r} needs a type, as in {parameter.name}: str")
        elif context in (hints[parameter.name], get_origin(hints[parameter.name])):
            context_parameter = parameter.name
        elif (other := _other_context(hints[parameter.name])) is not None:
            written = f"{context.__name__}{_of_type(hints[parameter.name])}"
            remedy = f"a tool gets a {context.__name__}, so annotate it as {parameter.name}: {written}"
            problems.append(f"tool {tool_id!r}: parameter {parameter.name!r} is a {other}: {remedy}")
        else:
            default = ... if parameter.default is parameter.empty else parameter.default
            info = Field(default=default, description=described.get(parameter.name))
            fields[parameter.name] = (hints[parameter.name], info)
    if problems:
        raise ConfigurationError(problems)
    try:
        model = create_model(f"{tool_id}_arguments", __config__=ConfigDict(extra="forbid"), **fields)
        model.model_json_schema()
    except PydanticUserError as error:
        why, is_type, _ = error.message.partition(" Set `arbitrary_types_allowed")
        remedy = " Use types that pydantic knows: a pydantic model, a dataclass, a TypedDict." if is_type else ""
        raise ConfigurationError([f"tool {tool_id!r}: its parameters have no JSON schema: {why}{remedy}"]) from error
    return model, context_parameter, hints.get(context_parameter or "")


def _type_hints(tool_id: str, function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        remedy = "import it where the tool is defined, at the top of the module"
        raise ConfigurationError([f"tool {tool_id!r}: a type cannot be resolved: {error}; {remedy}"]) from error
    except TypeError as error:  # an object that can be called has no annotations of its own
        problem = f"tool {tool_id!r} is {shown(function)}, whose types cannot be read"
        raise ConfigurationError([f"{problem}: pass a function or a method"]) from error


def _other_context(hint: object) -> str | None:
    """The name of a context that gates, hooks or the tools of pydantic-ai get, and tools do not."""
    kind = get_origin(hint) or hint
    if not isinstance(kind, type):
        return None
    is_pydantic_ai = kind.__module__.partition(".")[0] == "pydantic_ai" and kind.__name__ == "RunContext"
    return kind.__name__ if is_pydantic_ai or kind.__module__ in _OTHER_CONTEXTS else None


_OTHER_CONTEXTS = ("wakeful.authoring.gate", "wakeful.authoring.hook_contexts")
"""The modules of the contexts of gates and hooks, which import the one of tools."""


def _of_type(hint: object) -> str:
    """`[Hotel]`, if a context is one of that type."""
    arguments = get_args(hint)
    return f"[{type_name(arguments[-1])}]" if arguments else ""


def parameters_schema(arguments: type[BaseModel]) -> dict[str, JsonValue]:
    """The JSON schema of the arguments, so that models read it easily: definitions are inlined, titles are removed.

    A parameter that may be left out, and is None then, has the type of its other values: a model leaves it out, and a
    null is accepted nevertheless. A type that contains itself keeps its `$defs`.
    """
    schema = arguments.model_json_schema()
    definitions = schema.get("$defs", {})
    inlined = _inline({key: value for key, value in schema.items() if key != "$defs"}, definitions, ())
    if "$ref" in str(inlined):
        inlined["$defs"] = {name: _inline(body, definitions, (name,)) for name, body in definitions.items()}
    return inlined  # type: ignore[no-any-return]  # pydantic's schemas are JSON


def _inline(node: Any, definitions: dict[str, Any], inside: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_inline(item, definitions, inside) for item in node]
    if not isinstance(node, dict):
        return node
    name = str(node.get("$ref", "")).removeprefix("#/$defs/")
    if name in definitions and name not in inside:
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return {**_inline(definitions[name], definitions, (*inside, name)), **_inline(beside, definitions, inside)}
    return {
        key: _inline_properties(node, definitions, inside)
        if key == "properties"
        else _inline(value, definitions, inside)
        for key, value in node.items()
        if key != "title"
    }


def _inline_properties(node: dict[str, Any], definitions: dict[str, Any], inside: tuple[str, ...]) -> Any:
    # A property may itself be called "title": keep the names, and inline only their schemas.
    inlined = {name: _inline(schema, definitions, inside) for name, schema in node["properties"].items()}
    required = node.get("required", ())
    return {name: schema if name in required else _without_null(schema) for name, schema in inlined.items()}


def _without_null(schema: Any) -> Any:
    """The schema of an optional property without null, which is only another way to leave it out."""
    variants = schema.get("anyOf", []) if schema.get("default", ...) is None else []
    others = [variant for variant in variants if variant != {"type": "null"}]
    if not others or len(others) == len(variants):
        return schema
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    return {**others[0], **rest} if len(others) == 1 else {"anyOf": others, **rest}
