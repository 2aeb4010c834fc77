"""Translate the failure of a model call into a `ProviderError`. Shared by every provider behind HTTP.

Whether a retry may help is decided here and nowhere else: the status, the error body and the transport's exception
determine the error's kind. The interruption of a stream also has a cause, in two or three words. Nothing is sent or
retried here, and what a good answer is, each provider decides.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx
from pydantic import JsonValue
from pydantic_core import from_json

from wakeful.authoring.secret_values import without_secrets
from wakeful.contract.errors import RETRY_LATER, RETRY_MAY_HELP, ProviderError, ProviderErrorKind

MAX_RETRY_AFTER = 86_400.0
RESET = "connection reset"
_MAX_MESSAGE = 1_000
_MAX_EXCERPT = 200


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The model and host that were called. Every message names them, and no message quotes the key."""

    model: str
    host: str
    api_key: str | None = field(repr=False)
    more_secrets: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"model {self.model!r} at {self.host}"

    def quote(self, text: str, limit: int = _MAX_EXCERPT) -> str:
        # Redacted before it is cut: half a key at the cut would no longer be recognised.
        text = without_secrets(text, (self.api_key or "", *self.more_secrets), instead="[api key]")
        return repr(text if len(text) <= limit else f"{text[:limit]}…")


def status_error(endpoint: Endpoint, response: httpx.Response, text: str) -> ProviderError:
    """The error for a response with an error status, whose body begins with `text`."""
    body = _parse_error(text)
    kind, advice = _classify(response.status_code, text, body)
    quoted = f": {endpoint.quote(body.message, body.limit)}" if body.message else ""
    id = request_id(response.headers)
    request = f" (request id {endpoint.quote(id)})" if id else ""
    wait = retry_after(response.headers, now=datetime.now(UTC)) if kind.transient else None
    message = f"{endpoint} answered {response.status_code}{quoted}{request}; {advice}"
    return ProviderError(kind, message, retry_after=wait, status=response.status_code)


def connection_error(endpoint: Endpoint, error: httpx.RequestError | TimeoutError, *, timeout: float) -> ProviderError:
    """The error if no answer began: too slow, unreachable, or the connection was lost."""
    name = type(error).__name__
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        is_connecting = isinstance(error, httpx.ConnectTimeout)
        what = "accepted no connection in time" if is_connecting else f"did not answer within {timeout:g} s"
        advice = f"{RETRY_MAY_HELP}; if this persists, check that the server is up or allow a longer timeout"
        return ProviderError(ProviderErrorKind.TIMEOUT, f"{endpoint} {what} ({name}); {advice}")
    why = endpoint.quote(str(error))
    advice = "check that the server runs there, and the base URL, DNS, proxy and TLS settings of this worker"
    return ProviderError(ProviderErrorKind.PROVIDER, f"no answer from {endpoint} ({name}: {why}); {advice}")


def interrupted(endpoint: Endpoint, error: httpx.RequestError | TimeoutError, *, timeout: float) -> ProviderError:
    """The error if the connection was lost after an answer had begun, or the answer took too long."""
    name, why = type(error).__name__, str(error)
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        message = f"{endpoint} did not finish its answer within {timeout:g} s ({name}); {RETRY_MAY_HELP}"
        return ProviderError(ProviderErrorKind.TIMEOUT, message, cause="timeout")
    # The second is h2's name for the GOAWAY of a server that shuts down.
    cause = "goaway" if "goaway" in why.lower() or "ConnectionTerminated" in why else RESET
    message = f"the answer of {endpoint} was interrupted ({name}: {endpoint.quote(why)}); {RETRY_MAY_HELP}"
    return ProviderError(ProviderErrorKind.STREAM_INTERRUPTED, message, cause=cause)


def ended_early(endpoint: Endpoint) -> ProviderError:
    """The error if a stream ends properly, as far as HTTP can tell, but without its last event."""
    message = f"the answer of {endpoint} ended early, without its last event; {RETRY_MAY_HELP}"
    return ProviderError(ProviderErrorKind.STREAM_INTERRUPTED, message, cause=RESET)


def error_event(endpoint: Endpoint, event: str) -> ProviderError:
    """The error for an error event in the middle of a stream."""
    body = _parse_error(event)
    if any("policy" in code or code == "content_filter" for code in body.codes):
        return content_filtered(endpoint)
    status = _status(body.codes)
    kind, advice = _classify(status, event, body)
    quoted = endpoint.quote(body.message, body.limit)
    cause = f"provider {status} mid-stream" if kind.transient else None
    return ProviderError(kind, f"{endpoint} ended its answer with an error: {quoted}; {advice}", cause=cause)


def malformed_event(endpoint: Endpoint, problem: str, event: str) -> ProviderError:
    """The error for an event of a stream that cannot be parsed."""
    message = f"{endpoint} sent a malformed event ({problem}), beginning {endpoint.quote(event)}; {RETRY_MAY_HELP}"
    return ProviderError(ProviderErrorKind.PROVIDER, message, cause="malformed event")


def malformed_body(endpoint: Endpoint, problem: str, body: str) -> ProviderError:
    """The error for a body that is not an answer although the status is a success."""
    excerpt = endpoint.quote(body)
    advice = f"{RETRY_MAY_HELP}; if this persists, check that the base URL is the API's and no proxy answers for it"
    message = f"{endpoint} sent something that is not an answer ({problem}), beginning {excerpt}; {advice}"
    return ProviderError(ProviderErrorKind.PROVIDER, message)


def too_long(endpoint: Endpoint, problem: str) -> ProviderError:
    """The error for an answer that was not read to its end, because it exceeds a limit of what is read."""
    advice = f"{RETRY_MAY_HELP}; if this persists, check that the base URL is the API's and no proxy answers for it"
    message = f"{endpoint} sent an answer that is not read further: {problem}; {advice}"
    return ProviderError(ProviderErrorKind.PROVIDER, message, cause="endless answer")


def content_filtered(endpoint: Endpoint) -> ProviderError:
    """The error if the provider's filter or the model itself refuses to answer this conversation."""
    return ProviderError(
        ProviderErrorKind.CONTENT_FILTERED,
        f"{endpoint} withheld its answer: the provider's content filter stopped it; change the conversation",
    )


def error_message(endpoint: Endpoint, text: str) -> str:
    """What an error body says, quoted."""
    body = _parse_error(text)
    return endpoint.quote(body.message, body.limit)


def request_id(headers: Mapping[str, str]) -> str | None:
    """The provider's id of a call, from OpenAI's header or Anthropic's."""
    return headers.get("x-request-id") or headers.get("request-id")


def retry_after(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """The seconds that a server asks to wait, from `retry-after-ms` or `Retry-After` (seconds or a date)."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return _bounded(milliseconds / 1_000)
    written = headers.get("retry-after")
    seconds = _number(written)
    if seconds is None and written is not None:
        seconds = _seconds_until(written, now)
    return None if seconds is None else _bounded(seconds)


@dataclass(frozen=True, slots=True)
class _ErrorBody:
    """What an error body says, in any of the usual shapes."""

    message: str
    codes: tuple[str, ...] = ()
    """Names of the error, the most specific first."""
    limit: int = _MAX_MESSAGE


def _parse_error(text: str) -> _ErrorBody:
    body = _parse_json(text)
    if isinstance(body, list) and body:  # Google's gateway wraps its error in a list
        body = body[0]
    if isinstance(body, dict):  # most put it under `error`, older vLLM at the top, FastAPI calls it `detail`
        body = body.get("error", body)
    fields = body if isinstance(body, dict) else {"message": body}
    codes = tuple(str(code) for code in (fields.get("code"), fields.get("type")) if isinstance(code, str | int))
    message = fields.get("message", fields.get("detail"))
    if isinstance(message, str):
        return _ErrorBody(message, codes)
    return _ErrorBody(text.strip(), codes, limit=_MAX_EXCERPT)


def _parse_json(text: str) -> JsonValue:
    try:
        parsed: JsonValue = from_json(text)
    except ValueError:  # a proxy's page, or nothing at all
        return None
    return parsed


_KINDS = {
    401: ProviderErrorKind.UNAUTHORIZED,
    403: ProviderErrorKind.UNAUTHORIZED,
    404: ProviderErrorKind.MODEL_NOT_FOUND,
    408: ProviderErrorKind.TIMEOUT,
    409: ProviderErrorKind.PROVIDER,
    413: ProviderErrorKind.CONTEXT_OVERFLOW,
    422: ProviderErrorKind.INVALID_REQUEST,
    425: ProviderErrorKind.PROVIDER,
    429: ProviderErrorKind.RATE_LIMITED,
    503: ProviderErrorKind.OVERLOADED,
    504: ProviderErrorKind.TIMEOUT,
    529: ProviderErrorKind.OVERLOADED,
}

_OVERFLOW_PHRASES = (
    "prompt is too long",
    "context_length_exceeded",
    "maximum context length",
    "input is too long",
    "reduce the length",
    "too many tokens",
    "request too large",
    "context length",
    "context size",
)

_STATUSES = {
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "billing_error": 429,
    "server_is_overloaded": 503,
    "service_unavailable": 503,
    "service_unavailable_error": 503,
    "timeout_error": 504,
    "overloaded": 529,
    "overloaded_error": 529,
}
"""The HTTP status that stands for the code of an error event."""

ADVICE = {
    ProviderErrorKind.PROVIDER: f"{RETRY_MAY_HELP}; if this persists, check the base URL and the server's log",
    ProviderErrorKind.RATE_LIMITED: f"{RETRY_LATER}; if this persists, raise the limit or run fewer agents at once",
    ProviderErrorKind.OVERLOADED: f"{RETRY_LATER}; if this persists, use another model",
    ProviderErrorKind.TIMEOUT: f"{RETRY_MAY_HELP}; if this persists, use a faster model or a shorter conversation",
    ProviderErrorKind.CONTEXT_OVERFLOW: "shorten the conversation or use a model with a larger context",
    ProviderErrorKind.INVALID_REQUEST: "change the request: the same one will be refused again",
    ProviderErrorKind.UNAUTHORIZED: "check the API key and what it is allowed to use",
    ProviderErrorKind.MODEL_NOT_FOUND: "check the model's name and the base URL",
    ProviderErrorKind.CONTENT_FILTERED: "change the conversation: the provider's content filter rejects it",
}
"""What to do about an error, by its kind."""

CHECK_BILLING = "check the account's plan and billing: waiting does not help"


def _classify(status: int, text: str, body: _ErrorBody) -> tuple[ProviderErrorKind, str]:
    if status == 429 and not {"insufficient_quota", "billing_error"}.isdisjoint(body.codes):
        # It has the status of a rate limit, but waiting does not help.
        return ProviderErrorKind.INVALID_REQUEST, CHECK_BILLING
    kind = kind_of(status, text)
    if kind is ProviderErrorKind.INVALID_REQUEST and "content_filter" in body.codes:  # Azure's filter of prompts
        kind = ProviderErrorKind.CONTENT_FILTERED
    return kind, ADVICE[kind]


def kind_of(status: int, text: str) -> ProviderErrorKind:
    """The kind of an error with this HTTP status and body."""
    return _bad_request(text) if status == 400 else _KINDS.get(status, ProviderErrorKind.PROVIDER)


def _status(codes: tuple[str, ...]) -> int:
    for code in codes:
        if code.isdecimal() and 400 <= int(code) < 600:
            return int(code)
        if code in _STATUSES:
            return _STATUSES[code]
        if code.startswith(("invalid_", "image_", "unsupported_")):
            return 400
    return 500


def _bad_request(text: str) -> ProviderErrorKind:
    lowered = text.lower()
    if any(phrase in lowered for phrase in _OVERFLOW_PHRASES):
        return ProviderErrorKind.CONTEXT_OVERFLOW
    return ProviderErrorKind.INVALID_REQUEST


def _number(written: str | None) -> float | None:
    try:
        number = float(written or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _seconds_until(written: str, now: datetime) -> float | None:
    try:
        date = parsedate_to_datetime(written)
    except ValueError:
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now.timestamp()


def _bounded(seconds: float) -> float:
    # A provider's mistake must not stop a run for years.
    return min(max(seconds, 0.0), MAX_RETRY_AFTER)
