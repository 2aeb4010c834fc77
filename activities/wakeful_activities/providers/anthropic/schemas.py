"""Translate JSON Schemas for Anthropic's structured outputs.

They support a part of JSON Schema and reject a request that uses more. Constraints that they do not support go into a
description, which the model reads; the activity checks the answer against the full schema.
"""

from collections.abc import Mapping

from pydantic import JsonValue

from wakeful_activities.providers.shared.writing import Json, as_json

_SIMPLE = ("string", "integer", "number", "boolean", "null")
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
_HANDLED = frozenset({"$defs", "$ref", "type", "title", "description", "enum", "const", "anyOf", "oneOf"})


class _Unsupported(Exception):
    """The schema uses something that has no translation: open objects, recursion, or other types."""


def output_format(schema: Mapping[str, JsonValue]) -> Json | None:
    """The output format for answers that match `schema`; None if structured outputs do not support it."""
    definitions = schema.get("$defs", {})
    if schema.get("type", "object") != "object" or not isinstance(definitions, dict):
        return None
    try:
        return {"type": "json_schema", "schema": _translated(dict(schema), definitions, ())}
    except _Unsupported:
        return None


def _translated(schema: JsonValue, definitions: Json, within: tuple[str, ...]) -> Json:
    if not isinstance(schema, dict):
        raise _Unsupported
    reference = schema.get("$ref")
    if reference is not None:
        name = str(reference).removeprefix("#/$defs/")
        if name not in definitions or name in within:
            raise _Unsupported
        return _translated(definitions[name], definitions, (*within, name))
    shape, known = _shape(schema, definitions, within)
    rest: Json = {name: value for name, value in schema.items() if name not in _HANDLED | known}
    notes = [schema.get("description"), as_json(rest) if rest else None]
    description = "\n\n".join(str(note) for note in notes if note)
    return shape | ({"description": description} if description else {})


def _shape(schema: Json, definitions: Json, within: tuple[str, ...]) -> tuple[Json, frozenset[str]]:
    """The schema without annotations, and the keywords that it covers."""
    for keyword in ("enum", "const"):
        if keyword in schema:
            return {keyword: schema[keyword]}, frozenset()
    variants = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(variants, list):
        any_of: Json = {"anyOf": [_translated(variant, definitions, within) for variant in variants]}
        return any_of, frozenset({"discriminator"})
    kind, format = schema.get("type"), schema.get("format")
    properties = schema.get("properties")
    if kind == "object" and isinstance(properties, dict) and not schema.get("additionalProperties"):
        fields: Json = {name: _translated(field, definitions, within) for name, field in properties.items()}
        closed: Json = {"type": "object", "properties": fields, "additionalProperties": False}
        closed |= {"required": schema["required"]} if "required" in schema else {}
        return closed, frozenset({"properties", "additionalProperties", "required"})
    if kind == "array" and "items" in schema:
        return {"type": "array", "items": _translated(schema["items"], definitions, within)}, frozenset({"items"})
    if kind in _SIMPLE:
        is_known = kind == "string" and format in _FORMATS
        return {"type": kind} | ({"format": format} if is_known else {}), frozenset({"format"} if is_known else ())
    raise _Unsupported
