"""Translate JSON Schemas for providers that enforce them: Anthropic's structured outputs, and OpenAI's strict ones.

They support a part of JSON Schema and reject a request that uses more. Constraints that they do not support go into a
description, which the model reads; the activity checks the answer against the full schema. Every answer that matches
the translation matches the constraints of the original that the translation kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from wakeful_activities.providers.shared.writing import Json, as_json

_SIMPLE = ("string", "integer", "number", "boolean", "null")
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
_HANDLED = frozenset({"$defs", "$ref", "type", "title", "description", "enum", "const", "anyOf", "oneOf"})
_DEEPEST = 10
"""Levels of nesting that OpenAI accepts."""


@dataclass(frozen=True)
class Dialect:
    """What a provider supports."""

    formats: tuple[str, ...] = _FORMATS
    keeps: frozenset[str] = frozenset()
    """Constraints that it enforces."""
    is_strict: bool = False
    """It requires a type everywhere, and all properties in every answer; a limited depth, too."""


ANTHROPIC = Dialect()
OPENAI = Dialect(
    formats=tuple(format for format in _FORMATS if format != "uri"),
    keeps=frozenset(
        {"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"}
    ),
    is_strict=True,
)


class _Unsupported(Exception):
    """The schema uses something that has no translation: open objects, recursion, or other types."""


def closed_schema(schema: Mapping[str, JsonValue], dialect: Dialect) -> Json | None:
    """The schema in a provider's dialect; None if the provider cannot enforce it."""
    definitions = schema.get("$defs", {})
    if schema.get("type", "object") != "object" or not isinstance(definitions, dict):
        return None
    try:
        return _Translation(dialect, definitions).of(dict(schema), ())
    except _Unsupported:
        return None


@dataclass(frozen=True)
class _Translation:
    dialect: Dialect
    definitions: Json

    def of(self, schema: JsonValue, within: tuple[str, ...], depth: int = 0) -> Json:
        if not isinstance(schema, dict) or (self.dialect.is_strict and depth > _DEEPEST):
            raise _Unsupported
        reference = schema.get("$ref")
        if reference is not None:
            name = str(reference).removeprefix("#/$defs/")
            if name not in self.definitions or name in within:
                raise _Unsupported
            return self.of(self.definitions[name], (*within, name), depth)
        shape, known = self._shape(schema, within, depth + 1)
        shape |= {name: value for name, value in schema.items() if name in self.dialect.keeps}
        rest: Json = {name: value for name, value in schema.items() if name not in _HANDLED | known | {*shape}}
        notes = [schema.get("description"), as_json(rest) if rest else None]
        description = "\n\n".join(str(note) for note in notes if note)
        return shape | ({"description": description} if description else {})

    def _shape(self, schema: Json, within: tuple[str, ...], depth: int) -> tuple[Json, frozenset[str]]:
        """The schema without annotations, and the keywords that it covers."""
        for keyword in ("enum", "const"):
            if keyword in schema:
                kind: Json = {"type": schema["type"]} if self.dialect.is_strict and "type" in schema else {}
                return kind | {keyword: schema[keyword]}, frozenset()
        variants = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(variants, list):
            any_of: Json = {"anyOf": [self.of(variant, within, depth) for variant in variants]}
            return any_of, frozenset({"discriminator"})
        properties = schema.get("properties")
        match schema.get("type"):
            case "object" if isinstance(properties, dict) and not schema.get("additionalProperties"):
                return self._object(schema, properties, within, depth)
            case "array" if "items" in schema:
                return {"type": "array", "items": self.of(schema["items"], within, depth)}, frozenset({"items"})
            case str(kind_name) if kind_name in _SIMPLE:
                format = schema.get("format")
                is_known = kind_name == "string" and format in self.dialect.formats
                covers = frozenset({"format"} if is_known else ())
                return {"type": kind_name} | ({"format": format} if is_known else {}), covers
            case _:
                raise _Unsupported

    def _object(
        self, schema: Json, properties: Json, within: tuple[str, ...], depth: int
    ) -> tuple[Json, frozenset[str]]:
        fields: Json = {name: self.of(field, within, depth) for name, field in properties.items()}
        closed: Json = {"type": "object", "properties": fields, "additionalProperties": False}
        if self.dialect.is_strict:
            closed["required"] = [*properties]
        elif "required" in schema:
            closed["required"] = schema["required"]
        return closed, frozenset({"properties", "additionalProperties", "required"})
