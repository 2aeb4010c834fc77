"""Say what went wrong with a model call, as a `ProviderError`. Shared by every provider that speaks HTTP.

Whether asking again may help is decided here and nowhere else: by the status, the error body and the transport's
exception, which become a kind. An answer that breaks off while it comes also has a cause, which tells its readers why.
It sends nothing and retries nothing; what a good answer means is each provider's own.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx
from pydantic import JsonValue
from pydantic_core import from_json

from wakeful.contract.errors import ProviderError, ProviderErrorKind

LONGEST_RETRY_AFTER = 86_400.0
_TRY_AGAIN = "asking again may help"
_RESET = "connection reset"
_LONGEST_COMPLAINT = 1_000
_LONGEST_EXCERPT = 200


@dataclass(frozen=True, slots=True)
class Callee:
    """Who was asked: named in every message. Its key is struck out of whatever the other side says."""

    model: str
    host: str
    api_key: str | None = field(repr=False)

    def __str__(self) -> str:
        return f"model {self.model!r} at {self.host}"

    def quote(self, text: str, limit: int = _LONGEST_EXCERPT) -> str:
        # Struck out before it is cut: half a key at the cut would no longer be recognised.
        safe = text.replace(self.api_key, "[api key]") if self.api_key else text
        return repr(safe if len(safe) <= limit else f"{safe[:limit]}…")


def refused(callee: Callee, response: httpx.Response) -> ProviderError:
    """The failure that an answer with an error status stands for."""
    complaint = _complaint(response.text)
    kind, advice = _verdict(response.status_code, response.text, complaint)
    said = f": {callee.quote(complaint.message, complaint.limit)}" if complaint.message else ""
    named = request_id(response.headers)
    which = f" (request id {callee.quote(named)})" if named else ""
    wait = retry_after(response.headers, now=datetime.now(UTC)) if kind.transient else None
    message = f"{callee} answered {response.status_code}{said}{which}; {advice}"
    return ProviderError(kind, message, retry_after=wait)


def unanswered(callee: Callee, error: httpx.RequestError | TimeoutError, *, timeout: float) -> ProviderError:
    """The failure when no whole answer came: too slow, not reachable, or the connection broke."""
    name = type(error).__name__
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        unreached = isinstance(error, httpx.ConnectTimeout)
        what = "accepted no connection in time" if unreached else f"did not answer within {timeout:g} s"
        advice = f"{_TRY_AGAIN}; if this goes on, check that the server is up or allow a longer timeout"
        return ProviderError(ProviderErrorKind.TIMEOUT, f"{callee} {what} ({name}); {advice}")
    why = callee.quote(str(error))
    advice = "check that the server runs there, and the base URL, DNS, proxy and TLS settings of this worker"
    return ProviderError(ProviderErrorKind.PROVIDER, f"no answer from {callee} ({name}: {why}); {advice}")


def broken_off(callee: Callee, error: httpx.RequestError | TimeoutError, *, timeout: float) -> ProviderError:
    """The failure when an answer had begun and its connection broke, or it took too long."""
    name, why = type(error).__name__, str(error)
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        message = f"{callee} did not finish its answer within {timeout:g} s ({name}); {_TRY_AGAIN}"
        return ProviderError(ProviderErrorKind.TIMEOUT, message, cause="timeout")
    # The second is how h2 calls the GOAWAY of a server that shuts down.
    cause = "goaway" if "goaway" in why.lower() or "ConnectionTerminated" in why else _RESET
    message = f"{callee} broke off in the middle of its answer ({name}: {callee.quote(why)}); {_TRY_AGAIN}"
    return ProviderError(ProviderErrorKind.STREAM_INTERRUPTED, message, cause=cause)


def cut_short(callee: Callee) -> ProviderError:
    """The failure when a stream ends properly, as far as HTTP can tell, and its last event has not come."""
    message = f"the answer of {callee} ended early, without its last event; {_TRY_AGAIN}"
    return ProviderError(ProviderErrorKind.STREAM_INTERRUPTED, message, cause=_RESET)


def complained(callee: Callee, event: str) -> ProviderError:
    """The failure that an error event in the middle of a stream stands for."""
    complaint = _complaint(event)
    if any("policy" in code or code == "content_filter" for code in complaint.codes):
        return withheld(callee)
    status = _status(complaint.codes)
    kind, advice = _verdict(status, event, complaint)
    said = callee.quote(complaint.message, complaint.limit)
    cause = f"provider {status} mid-stream" if kind.transient else None
    return ProviderError(kind, f"{callee} broke off its answer with an error: {said}; {advice}", cause=cause)


def malformed(callee: Callee, problem: str, event: str) -> ProviderError:
    """The failure when something in a stream cannot be read."""
    message = f"{callee} sent an event that cannot be read ({problem}), beginning {callee.quote(event)}; {_TRY_AGAIN}"
    return ProviderError(ProviderErrorKind.PROVIDER, message, cause="malformed event")


def garbage(callee: Callee, problem: str, body: str) -> ProviderError:
    """The failure when the status says success and the body is not an answer."""
    excerpt = callee.quote(body)
    advice = f"{_TRY_AGAIN}; if this goes on, check that the base URL is the API's and no proxy answers for it"
    message = f"{callee} sent something that is not an answer ({problem}), beginning {excerpt}; {advice}"
    return ProviderError(ProviderErrorKind.PROVIDER, message)


def withheld(callee: Callee) -> ProviderError:
    """The failure when a filter or the model itself refuses to answer this conversation."""
    return ProviderError(
        ProviderErrorKind.CONTENT_FILTERED,
        f"{callee} withheld its answer: the provider's content filter stopped it; change the conversation",
    )


def request_id(headers: Mapping[str, str]) -> str | None:
    """The provider's own name for a call: OpenAI's header, or Anthropic's."""
    return headers.get("x-request-id") or headers.get("request-id")


def retry_after(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """The seconds a server asks to be left alone, from `retry-after-ms` or `Retry-After` (seconds or a date)."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return _bounded(milliseconds / 1_000)
    written = headers.get("retry-after")
    seconds = _number(written)
    if seconds is None and written is not None:
        seconds = _seconds_until(written, now)
    return None if seconds is None else _bounded(seconds)


@dataclass(frozen=True, slots=True)
class _Complaint:
    """What an error body says, whichever of the usual shapes it has."""

    message: str
    codes: tuple[str, ...] = ()
    """What the error is called, the most telling name first."""
    limit: int = _LONGEST_COMPLAINT


def _complaint(body: str) -> _Complaint:
    said = _parsed(body)
    if isinstance(said, list) and said:  # Google's gateway wraps its error in a list
        said = said[0]
    if isinstance(said, dict):  # most put it under `error`, older vLLM at the top, FastAPI calls it `detail`
        said = said.get("error", said)
    fields = said if isinstance(said, dict) else {"message": said}
    codes = tuple(str(code) for code in (fields.get("code"), fields.get("type")) if isinstance(code, str | int))
    message = fields.get("message", fields.get("detail"))
    if isinstance(message, str):
        return _Complaint(message, codes)
    return _Complaint(body.strip(), codes, limit=_LONGEST_EXCERPT)


def _parsed(body: str) -> JsonValue:
    try:
        parsed: JsonValue = from_json(body)
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
"""What an error in the middle of a stream would have been as a status."""

_ADVICE = {
    ProviderErrorKind.PROVIDER: f"{_TRY_AGAIN}; if this goes on, check the base URL and the server's log",
    ProviderErrorKind.RATE_LIMITED: "ask again later; if this goes on, raise the limit or run fewer agents at once",
    ProviderErrorKind.OVERLOADED: "ask again later; if this goes on, use another model",
    ProviderErrorKind.TIMEOUT: f"{_TRY_AGAIN}; if this goes on, use a faster model or a shorter conversation",
    ProviderErrorKind.CONTEXT_OVERFLOW: "shorten the conversation or use a model with a larger context",
    ProviderErrorKind.INVALID_REQUEST: "change the request: the same one will be refused again",
    ProviderErrorKind.UNAUTHORIZED: "check the API key and what it is allowed to use",
    ProviderErrorKind.MODEL_NOT_FOUND: "check the model's name and the base URL",
}


def _verdict(status: int, body: str, complaint: _Complaint) -> tuple[ProviderErrorKind, str]:
    if status == 429 and not {"insufficient_quota", "billing_error"}.isdisjoint(complaint.codes):
        # It looks like a rate limit, but no wait ends it.
        return ProviderErrorKind.INVALID_REQUEST, "check the account's plan and billing: waiting does not help"
    kind = _bad_request(body) if status == 400 else _KINDS.get(status, ProviderErrorKind.PROVIDER)
    return kind, _ADVICE[kind]


def _status(codes: tuple[str, ...]) -> int:
    for code in codes:
        if code.isdecimal() and 400 <= int(code) < 600:
            return int(code)
        if code in _STATUSES:
            return _STATUSES[code]
        if code.startswith(("invalid_", "image_", "unsupported_")):
            return 400
    return 500


def _bad_request(body: str) -> ProviderErrorKind:
    said = body.lower()
    if any(phrase in said for phrase in _OVERFLOW_PHRASES):
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
    # A slip of the other side must not park a run for years.
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER)
