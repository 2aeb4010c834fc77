"""Which JSON Schemas Anthropic can promise to keep to, and how they are written then.

Its structured outputs know a part of JSON Schema and refuse a request that uses more. What an answer must be besides,
a person or the model reads in a description, and the activity checks.
"""

from collections.abc import Mapping

from pydantic import JsonValue

from wakeful_activities.providers.shared.writing import Json, as_json

_SIMPLE = ("string", "integer", "number", "boolean", "null")
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
_SAID = frozenset({"$defs", "$ref", "type", "title", "description", "enum", "const", "anyOf", "oneOf"})


class _Inexpressible(Exception):
    """The schema asks for something that cannot be promised: open objects, recursion, or words unknown to the API."""


def promised(schema: Mapping[str, JsonValue]) -> Json | None:
    """The output format for answers that fit `schema`; None if it cannot be promised."""
    definitions = schema.get("$defs", {})
    if schema.get("type", "object") != "object" or not isinstance(definitions, dict):
        return None
    try:
        return {"type": "json_schema", "schema": _written(dict(schema), definitions, ())}
    except _Inexpressible:
        return None


def _written(schema: JsonValue, definitions: Json, within: tuple[str, ...]) -> Json:
    if not isinstance(schema, dict):
        raise _Inexpressible
    reference = schema.get("$ref")
    if reference is not None:
        name = str(reference).removeprefix("#/$defs/")
        if name not in definitions or name in within:
            raise _Inexpressible
        return _written(definitions[name], definitions, (*within, name))
    shape, known = _shape(schema, definitions, within)
    rest: Json = {name: value for name, value in schema.items() if name not in _SAID | known}
    notes = [schema.get("description"), as_json(rest) if rest else None]
    description = "\n\n".join(str(note) for note in notes if note)
    return shape | ({"description": description} if description else {})


def _shape(schema: Json, definitions: Json, within: tuple[str, ...]) -> tuple[Json, frozenset[str]]:
    """A schema without its words for people, and the keywords that this takes care of."""
    for keyword in ("enum", "const"):
        if keyword in schema:
            return {keyword: schema[keyword]}, frozenset()
    variants = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(variants, list):
        return {"anyOf": [_written(variant, definitions, within) for variant in variants]}, frozenset({"discriminator"})
    kind, format = schema.get("type"), schema.get("format")
    properties = schema.get("properties")
    if kind == "object" and isinstance(properties, dict) and not schema.get("additionalProperties"):
        fields: Json = {name: _written(field, definitions, within) for name, field in properties.items()}
        closed: Json = {"type": "object", "properties": fields, "additionalProperties": False}
        closed |= {"required": schema["required"]} if "required" in schema else {}
        return closed, frozenset({"properties", "additionalProperties", "required"})
    if kind == "array" and "items" in schema:
        return {"type": "array", "items": _written(schema["items"], definitions, within)}, frozenset({"items"})
    if kind in _SIMPLE:
        is_known = kind == "string" and format in _FORMATS
        return {"type": kind} | ({"format": format} if is_known else {}), frozenset({"format"} if is_known else ())
    raise _Inexpressible
