"""Translate the exceptions of pydantic-ai and of the SDKs below it into a `ProviderError`, by type.

pydantic-ai sorts the errors of all providers into classes already. What it leaves unsorted is classified by its HTTP
status, as the errors of the built-in providers are.
"""

import os
from collections.abc import Iterator

import httpx
import httpx2
from pydantic_ai import exceptions as ai
from pydantic_ai.models import Model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_core import to_json

from wakeful.contract.errors import RETRY_MAY_HELP, ProviderError, ProviderErrorKind
from wakeful_activities.bounded_http import TooLong
from wakeful_activities.providers.shared.failures import (
    ADVICE,
    CHECK_BILLING,
    MAX_RETRY_AFTER,
    RESET,
    Endpoint,
    content_filtered,
    error_message,
    kind_of,
    too_long,
)

TRANSLATED = (
    ai.AgentRunError,
    ai.UserError,
    ai.FallbackExceptionGroup,
    NotImplementedError,
    httpx.HTTPError,
    httpx.StreamError,
    httpx2.HTTPError,
    httpx2.StreamError,
)
"""What a call of a model may raise. Anything else is a bug, of the model or here."""

_KINDS: tuple[tuple[type[Exception], ProviderErrorKind], ...] = (
    (ai.ModelRateLimitError, ProviderErrorKind.RATE_LIMITED),
    (ai.ConcurrencyLimitExceeded, ProviderErrorKind.RATE_LIMITED),
    (ai.ModelQuotaExceededError, ProviderErrorKind.INVALID_REQUEST),
    (ai.ModelUnavailableError, ProviderErrorKind.OVERLOADED),
    (ai.ModelContextWindowExceededError, ProviderErrorKind.CONTEXT_OVERFLOW),
    (ai.ModelAuthenticationError, ProviderErrorKind.UNAUTHORIZED),
    (ai.ModelNotFoundError, ProviderErrorKind.MODEL_NOT_FOUND),
    (ai.ModelTimeoutError, ProviderErrorKind.TIMEOUT),
    (ai.ModelRequestTimeout, ProviderErrorKind.TIMEOUT),
    (httpx.TimeoutException, ProviderErrorKind.TIMEOUT),
    (httpx2.TimeoutException, ProviderErrorKind.TIMEOUT),
    (ai.ContentFilterError, ProviderErrorKind.CONTENT_FILTERED),
    (ai.UserError, ProviderErrorKind.INVALID_REQUEST),
    (NotImplementedError, ProviderErrorKind.INVALID_REQUEST),
)
"""By class, the first that matches. Rejected requests and server errors have a status that says more."""


def endpoint_of(model: Model) -> Endpoint:
    """The model and its host, for messages, and the secrets that no message may quote."""
    provider = model.provider
    host = httpx.URL(provider.base_url).netloc.decode() if provider is not None else ""
    keys = (key for each in _models(model) for key in _keys(each))
    return Endpoint(model.model_name, host or model.system, None, more_secrets=(*keys, *_secrets_in_environment()))


def translated(error: Exception, endpoint: Endpoint, *, has_begun: bool) -> ProviderError:
    """The error for an exception of `TRANSLATED`.

    Args:
        has_begun: a part of the answer has arrived.
    """
    if isinstance(error, ai.FallbackExceptionGroup):
        failures = [translated(each, endpoint, has_begun=has_begun) for each in _known(error)]
        # A model that may answer later is worth waiting for.
        return next((each for each in failures if each.kind.transient), failures[-1])
    if isinstance(error, ai.ContentFilterError):
        return content_filtered(endpoint)
    if (too_much := _too_long(error)) is not None:
        return too_long(endpoint, str(too_much))
    kind, status = _kind(error, has_begun=has_begun), getattr(error, "status_code", None)
    advice = CHECK_BILLING if isinstance(error, ai.ModelQuotaExceededError) else ADVICE.get(kind, RETRY_MAY_HELP)
    answered = f"answered {status}" if isinstance(status, int) else f"failed ({type(error).__name__})"
    message = f"{endpoint} {answered}: {error_message(endpoint, _text(error))}; {advice}"
    wait = getattr(error, "retry_after", None) if kind.transient else None
    return ProviderError(
        kind,
        message,
        retry_after=None if wait is None else min(max(wait, 0.0), MAX_RETRY_AFTER),
        cause=_cause(error, kind, status) if has_begun and kind.transient else None,
        status=status,
    )


def _too_long(error: BaseException | None) -> TooLong | None:
    """Why the answer was not read to its end, if that is what the SDK calls an error of the connection."""
    while error is not None and not isinstance(error, TooLong):
        error = error.__cause__ or error.__context__
    return error


def _known(group: ai.FallbackExceptionGroup) -> list[Exception]:
    """The exceptions of all models that were tried; at least one, so that the last can be reported."""
    known: list[Exception] = [each for each in group.exceptions if isinstance(each, TRANSLATED)]
    return known or [ai.UnexpectedModelBehavior(str(group.exceptions[-1]))]


def _kind(error: Exception, *, has_begun: bool) -> ProviderErrorKind:
    named = next((kind for type, kind in _KINDS if isinstance(error, type)), None)
    if named is not None:
        return named
    if isinstance(error, ai.ModelHTTPError):
        return kind_of(error.status_code, _text(error))
    if isinstance(error, ai.ModelRequestRejectedError):
        return kind_of(400, _text(error))
    if has_begun and not isinstance(error, ai.ModelServerError | ai.UnexpectedModelBehavior):
        return ProviderErrorKind.STREAM_INTERRUPTED
    return ProviderErrorKind.PROVIDER


def _cause(error: Exception, kind: ProviderErrorKind, status: int | None) -> str:
    """Why a stream was interrupted, in two or three words."""
    if kind is ProviderErrorKind.TIMEOUT:
        return "timeout"
    if isinstance(error, ai.ModelAPIError) and error.in_stream:
        return f"provider {status or 500} mid-stream"
    return RESET if kind is ProviderErrorKind.STREAM_INTERRUPTED else "malformed event"


def _text(error: Exception) -> str:
    """The provider's own words, if there are any."""
    body = getattr(error, "body", None)
    if not body:
        return str(error)
    return body if isinstance(body, str) else to_json(body, fallback=str).decode()


def _models(model: Model) -> list[Model]:
    """The model and those that it wraps."""
    if isinstance(model, WrapperModel):
        return [model, *_models(model.wrapped)]
    if isinstance(model, FallbackModel):
        return [model, *(each for one in model.models for each in _models(one))]
    return [model]


_KEYS = (("api_key",), ("auth_token",), ("_api_client", "api_key"))
"""Where the SDKs' clients keep their keys: those of OpenAI, Anthropic and Groq, and Google's."""


def _keys(model: Model) -> Iterator[str]:
    for path in _KEYS:
        value: object = model.provider.client if model.provider is not None else None
        for name in path:
            value = getattr(value, name, None)
        if isinstance(value, str):
            yield value


def _secrets_in_environment() -> Iterator[str]:
    """The values of variables that are named like secrets: the keys of SDKs that show us none of theirs."""
    named = ("KEY", "TOKEN", "SECRET", "PASSWORD")
    return (value for name, value in os.environ.items() if name.upper().endswith(named))
