"""The errors of `a2a-sdk` as ours, translated once: what may pass, and whether a request may have had an effect."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx
from a2a.client.errors import A2AClientError, AgentCardResolutionError
from a2a.utils.errors import (
    A2AError,
    InternalError,
    MethodNotFoundError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import ParseError

from wakeful_activities.a2a.failures import RemoteError, RemoteErrorKind
from wakeful_activities.a2a.secrets import EndpointSecrets

_OVERLOADED = 429
_UNAUTHORIZED = (401, 403)
_TIMEOUT = 408


@contextlib.asynccontextmanager
async def translating(
    secrets: EndpointSecrets, *, within: float | None = None, was_sent: bool = False
) -> AsyncIterator[None]:
    """Raise the SDK's errors as ours.

    Args:
        within: seconds that the request may take.
        was_sent: a request that fails in the middle may have had an effect.
    """
    try:
        async with asyncio.timeout(within):
            yield
    except RemoteError:
        raise
    except TimeoutError:
        message = f"it has not answered within {within:g} s"
        raise RemoteError(RemoteErrorKind.UNAVAILABLE, message, was_sent=was_sent) from None
    except (A2AError, httpx.HTTPError, ParseError, NotImplementedError, ValueError, KeyError) as error:
        found = _translated(error, was_sent=was_sent)
        message = secrets.removed_from(str(found))
        # Not from the original, which may quote what was sent.
        raise RemoteError(found.kind, message, was_sent=found.was_sent, retry_after=found.retry_after) from None


def _translated(error: Exception, *, was_sent: bool) -> RemoteError:
    cause = error if isinstance(error, httpx.HTTPError) else error.__cause__
    match error, cause:
        case TaskNotFoundError(), _:
            return RemoteError(RemoteErrorKind.TASK_NOT_FOUND, f"it does not know the task: {error}")
        case ((UnsupportedOperationError() | MethodNotFoundError() | NotImplementedError()), _):
            return RemoteError(RemoteErrorKind.UNSUPPORTED, f"it does not have the method: {error}")
        case _, httpx.HTTPStatusError(response=response):
            return _of_status(response, was_sent=was_sent)
        case _, (httpx.ConnectError() | httpx.ConnectTimeout() | httpx.PoolTimeout()):
            why = str(cause) or type(cause).__name__
            return RemoteError(RemoteErrorKind.UNREACHABLE, f"it cannot be reached ({why})")
        case _, httpx.HTTPError():
            why = f"{type(cause).__name__}: {cause}".rstrip(": ")
            return RemoteError(RemoteErrorKind.UNAVAILABLE, f"the connection failed ({why})", was_sent=was_sent)
        case InternalError(), _:
            return RemoteError(RemoteErrorKind.UNAVAILABLE, f"it has an internal error: {error}", was_sent=was_sent)
        case AgentCardResolutionError(), _:
            return RemoteError(RemoteErrorKind.REFUSED, f"its card cannot be read: {error}")
        case ((A2AClientError() | ParseError() | ValueError() | KeyError()), _):
            why = f"its answer is malformed ({type(error).__name__}: {error})"
            return RemoteError(RemoteErrorKind.UNAVAILABLE, why, was_sent=was_sent)
        case _:
            return RemoteError(RemoteErrorKind.REFUSED, f"it refuses the request: {error}")


def _of_status(response: httpx.Response, *, was_sent: bool) -> RemoteError:
    status = response.status_code
    what = f"HTTP {status} {response.reason_phrase}".rstrip()
    if status in _UNAUTHORIZED:
        return RemoteError(RemoteErrorKind.UNAUTHORIZED, f"it does not accept the credentials ({what})")
    if status == _OVERLOADED:
        return RemoteError(
            RemoteErrorKind.UNAVAILABLE, f"it is overloaded ({what})", retry_after=_retry_after(response)
        )
    if status == _TIMEOUT or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return RemoteError(
            RemoteErrorKind.UNAVAILABLE,
            f"it answers {what}",
            was_sent=was_sent,
            retry_after=_retry_after(response),
        )
    return RemoteError(RemoteErrorKind.REFUSED, f"it answers {what}")


def _retry_after(response: httpx.Response) -> float | None:
    with contextlib.suppress(ValueError):
        return max(0.0, float(response.headers.get("retry-after", "")))
    return None
