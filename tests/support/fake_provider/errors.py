"""The error bodies and events of each provider, for the same few kinds of failure."""

from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime
from typing import assert_never

from tests.support.fake_provider import responses
from tests.support.fake_provider.asked import Asked, Format
from tests.support.fake_provider.events import Event, Json
from tests.support.fake_provider.script import Answer, ErrorEvent, ErrorKind, Status

USUAL: dict[int, ErrorKind] = {
    400: "invalid",
    401: "unauthorized",
    403: "unauthorized",
    404: "unknown_model",
    413: "overflow",
    422: "invalid",
    429: "rate_limited",
    503: "overloaded",
    529: "overloaded",
}


@dataclass(frozen=True)
class _Words:
    openai_type: str
    openai_code: str | None
    openai_message: str
    anthropic_type: str
    anthropic_message: str


WORDS: dict[ErrorKind, _Words] = {
    "overloaded": _Words(
        "server_error",
        "server_is_overloaded",
        "Our servers are currently overloaded. Please try again later.",
        "overloaded_error",
        "Overloaded",
    ),
    "rate_limited": _Words(
        "requests",
        "rate_limit_exceeded",
        "Rate limit reached for requests. Please try again in 1s.",
        "rate_limit_error",
        "This request would exceed your organization's rate limit.",
    ),
    "server": _Words(
        "server_error",
        "server_error",
        "The server had an error while processing your request. Sorry about that!",
        "api_error",
        "Internal server error",
    ),
    "overflow": _Words(
        "invalid_request_error",
        "context_length_exceeded",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 140000 tokens. "
        "Please reduce the length of the messages.",
        "invalid_request_error",
        "prompt is too long: 215000 tokens > 200000 maximum",
    ),
    "invalid": _Words(
        "invalid_request_error",
        None,
        "Invalid value for 'messages'.",
        "invalid_request_error",
        "messages: Input should be a valid list",
    ),
    "unauthorized": _Words(
        "invalid_request_error",
        "invalid_api_key",
        "Incorrect API key provided.",
        "authentication_error",
        "invalid x-api-key",
    ),
    "unknown_model": _Words(
        "invalid_request_error",
        "model_not_found",
        "The model does not exist or you do not have access to it.",
        "not_found_error",
        "model: no-such-model",
    ),
}


def status_body(status: Status, asked: Asked) -> Json:
    kind = status.kind or USUAL.get(status.code, "server")
    if asked.format is not Format.ANTHROPIC:
        return {"error": _openai(kind, status.message)}
    body = _anthropic(kind, status.message, asked.request_id)
    if status.code == 413:
        body["error"] = {"type": "request_too_large", "message": status.message or "Request exceeds the maximum size"}
    return body


def status_headers(status: Status) -> dict[str, str]:
    headers = dict(status.headers)
    if isinstance(status.retry_after, datetime):
        headers["Retry-After"] = format_datetime(status.retry_after, usegmt=True)
    elif status.retry_after is not None:
        headers["Retry-After"] = str(status.retry_after)
    if status.retry_after_ms is not None:
        headers["retry-after-ms"] = str(status.retry_after_ms)
    return headers


def error_event(fault: ErrorEvent, answer: Answer, asked: Asked, *, sequence: int) -> Event:
    match asked.format:
        case Format.CHAT:
            return Event({"error": _openai(fault.kind, fault.message)})
        case Format.ANTHROPIC:
            return Event(_anthropic(fault.kind, fault.message, asked.request_id), "error")
        case Format.RESPONSES:
            kind, fields = _responses(fault, answer, asked)
            return Event({"type": kind, "sequence_number": sequence, **fields}, kind)
        case _:
            assert_never(asked.format)


def _responses(fault: ErrorEvent, answer: Answer, asked: Asked) -> tuple[str, Json]:
    error = _openai(fault.kind, fault.message)
    match fault.shape:
        case "documented":
            return "error", {"code": error["code"], "message": error["message"], "param": None}
        case "nested":
            return "error", {"error": error}
        case "failed":
            brief: Json = {"code": error["code"] or "server_error", "message": error["message"]}
            return "response.failed", {"response": responses.response(answer, asked, "failed", [], brief)}
        case _:
            assert_never(fault.shape)


def _openai(kind: ErrorKind, message: str | None) -> Json:
    words = WORDS[kind]
    return {
        "message": message or words.openai_message,
        "type": words.openai_type,
        "param": None,
        "code": words.openai_code,
    }


def _anthropic(kind: ErrorKind, message: str | None, request_id: str) -> Json:
    words = WORDS[kind]
    error: Json = {"type": words.anthropic_type, "message": message or words.anthropic_message}
    return {"type": "error", "error": error, "request_id": request_id}
