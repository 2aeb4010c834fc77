"""Validate a request with the request types of the providers' own SDKs, down to its last nested key.

The types are made for type checkers, so by themselves they accept nearly everything: unknown keys are ignored, an
`Iterable` is not validated, and where blocks of a response may be sent back, the lenient response models match. Each of
these gaps is closed here, in the schema that pydantic makes of the types.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from anthropic.types.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, SchemaValidator, to_json

from tests.support.fake_provider.asked import Asked, Format

PARAMS: dict[tuple[Format, bool], type] = {
    (Format.CHAT, True): CompletionCreateParamsStreaming,
    (Format.CHAT, False): CompletionCreateParamsNonStreaming,
    (Format.RESPONSES, True): ResponseCreateParamsStreaming,
    (Format.RESPONSES, False): ResponseCreateParamsNonStreaming,
    (Format.ANTHROPIC, True): MessageCreateParamsStreaming,
    (Format.ANTHROPIC, False): MessageCreateParamsNonStreaming,
}
SHOWN = 6
Path = tuple[int | str, ...]


def problem(asked: Asked) -> str | None:
    """Why the real provider would reject the request; None if it would accept it."""
    if asked.format is Format.ANTHROPIC and "anthropic-version" not in asked.headers:
        return "anthropic: the header anthropic-version is required"
    found = body_problem(asked.format, asked.body)
    return f"{asked.format}: {found}" if found else None


def body_problem(format: Format, body: dict[str, Any]) -> str | None:
    try:
        _validator(format, body.get("stream") is True).validate_json(to_json(body), strict=True)
    except ValidationError as error:
        problems = dict.fromkeys(f"{_path(detail)}: {detail['msg']}" for detail in _relevant(error.errors()))
        return "; ".join(list(problems)[:SHOWN])
    return None


@cache
def _validator(format: Format, streamed: bool) -> SchemaValidator:
    return SchemaValidator(_closed(TypeAdapter(PARAMS[format, streamed]).core_schema))


def _closed(schema: Any) -> Any:
    if isinstance(schema, (list, tuple)):
        return type(schema)(_closed(part) for part in schema)
    if not isinstance(schema, dict):
        return schema
    match schema.get("type"):
        case "model":
            # JSON is no instance of anything, so this branch of a union never matches.
            return {"type": "is-instance", **{key: schema[key] for key in ("cls", "ref") if key in schema}}
        case "generator":
            schema = {**schema, "type": "list"}
        case "typed-dict" if schema.get("extra_behavior") != "allow":
            schema = {**schema, "extra_behavior": "forbid"}
    return {key: _closed(part) for key, part in schema.items() if key != "serialization"}


def _relevant(errors: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """The errors of the branch that was meant: a union reports the errors of every branch."""
    others = {error["loc"][:-1] for error in errors if error["type"] == "literal_error" and _names_kind(error["loc"])}
    meant = [
        error
        for error in errors
        if error["type"] != "needs_python_object"
        and error["loc"][-1:] != ("str",)
        and not any(error["loc"][: len(branch)] == branch for branch in others if branch)
    ]
    return meant or list(errors)


def _names_kind(path: Path) -> bool:
    return path[-1] in ("type", "role")


def _path(error: ErrorDetails) -> str:
    """The path in the body, without the names of types that pydantic inserts."""
    keys = [key for key in error["loc"] if isinstance(key, int) or (key.islower() and "[" not in key)]
    return ".".join(map(str, keys)) or "body"
