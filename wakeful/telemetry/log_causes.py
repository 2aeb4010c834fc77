"""Why something failed, in words that are safe to log: which error it was, and where it was raised.

The message of an error may quote a prompt, an argument or a provider's answer. So it is logged at the level `debug`
alone, with the whole traceback; history and `wakeful why` have it in any case.
"""

import logging
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path

from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.workflow import NondeterminismError

from wakeful.contract.errors import DoesNotReplay, NewerRelease, ProviderError, ToolError
from wakeful.undecodable import Undecodable

AnyLogger = logging.Logger | logging.LoggerAdapter[logging.Logger]

_SAFE = (NondeterminismError, RPCError, DoesNotReplay, NewerRelease, Undecodable)
"""Errors whose messages quote nothing of a conversation."""


def log_failure(
    logger: AnyLogger,
    message: str,
    error: BaseException,
    *,
    extra: Mapping[str, object],
    level: int = logging.WARNING,
) -> None:
    """Log a failure and its cause in one line; at the level `debug`, a second line has the traceback.

    The cause is a field, and ends the message: a program that has not configured logging sees the message alone.
    """
    cause = cause_of(error)
    logger.log(level, f"{message}: %s", cause, extra={**extra, "cause": cause})
    logger.debug("traceback: %s", message, extra=extra, exc_info=error)


def cause_of(error: BaseException) -> str:
    """`rate_limited`, or `KeyError at shop.py:14 in refund`; of an error around another, both."""
    return ", because of ".join(dict.fromkeys(filter(None, map(_described, _chain(error)))))


def place_of(error: BaseException) -> str:
    """Where the error was raised: ` at shop.py:14 in refund`; empty if it is not known."""
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames:
        return ""
    frame, line = frames[-1]
    return f" at {Path(frame.f_code.co_filename).name}:{line} in {frame.f_code.co_name}"


def frames_of(error: BaseException) -> str:
    """The lines of the traceback, without the message."""
    return "".join(traceback.format_tb(error.__traceback__)).rstrip()


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, and what it was raised from or while handling; our own failures name that by their type alone."""
    yield error
    cause = error.__cause__ or error.__context__
    if cause is not None and not isinstance(error, ProviderError | ToolError):
        yield from _chain(cause)


def _described(error: BaseException) -> str:
    match error:
        case ProviderError():
            detail = error.cause or error.status
            return f"{error.kind.value} ({detail})" if detail else error.kind.value
        case ToolError():
            return error.kind.value
        case ApplicationError() if error.type:
            return "" if _is_translated(error) else error.type
        case _ if isinstance(error, _SAFE):
            return f"{type(error).__name__}: {' '.join(str(error).split())}"
        case _:
            return f"{type(error).__name__}{place_of(error)}"


def _is_translated(error: ApplicationError) -> bool:
    """Whether it only repeats, for Temporal, what kind of error it was made of."""
    cause = error.__cause__ or error.__context__
    return isinstance(cause, ProviderError) or (cause is not None and type(cause).__name__ == error.type)
