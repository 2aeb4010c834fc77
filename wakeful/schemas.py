"""JSON schemas as models like them: without titles, and with every definition written where it is used."""

from typing import Any

from pydantic import JsonValue


def tidy(schema: dict[str, Any]) -> dict[str, JsonValue]:
    """The schema inlined and without noise. A type that contains itself keeps its `$defs`."""
    definitions = schema.get("$defs", {})
    inlined = _inline({key: value for key, value in schema.items() if key != "$defs"}, definitions, ())
    if "$ref" in str(inlined):
        inlined["$defs"] = {name: _inline(body, definitions, (name,)) for name, body in definitions.items()}
    return inlined  # type: ignore[no-any-return]  # what pydantic makes is JSON


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
        key: _inline_properties(value, definitions, inside)
        if key == "properties"
        else _inline(value, definitions, inside)
        for key, value in node.items()
        if key != "title"
    }


def _inline_properties(properties: dict[str, Any], definitions: dict[str, Any], inside: tuple[str, ...]) -> Any:
    # A property may itself be called "title", so names are kept here and only their schemas are tidied.
    return {name: _inline(schema, definitions, inside) for name, schema in properties.items()}
