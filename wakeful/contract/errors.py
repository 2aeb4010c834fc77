"""The exceptions a user of Wakeful can meet, by whose fault they are.

    WakefulError
    ├── CallerError             the request was wrong: change it
    │   ├── DecisionRefused       the decision changed nothing, for a reason
    │   ├── ThreadBusy            the thread already has an active run
    │   └── ThreadNotFound        no such thread
    ├── ConfigurationError      the worker's registry or settings are wrong: everything that is wrong, listed at once
    ├── ConnectionFailed        Temporal cannot be reached
    ├── NoAnswer                a thread did not answer in time, most often because no worker runs
    ├── ProviderError           the model provider failed: `kind` says how, and whether trying again may help
    ├── ToolError               a tool reports a failure that its model should read
    └── InternalError           a promise of ours is broken

Expected outcomes (failed, suspended, cancelled, refused) are values, not exceptions.
"""

from collections.abc import Sequence
from enum import StrEnum


class WakefulError(Exception):
    """Base of everything Wakeful raises."""


class CallerError(WakefulError):
    """The request was wrong."""


class DecisionRefused(CallerError):
    """The run did not take a decision; nothing has changed."""

    def __init__(self, thread_id: str, reason: str) -> None:
        super().__init__(f"the decision was refused on thread {thread_id!r}: {reason}")
        self.thread_id = thread_id
        self.reason = reason


class ThreadBusy(CallerError):
    """The thread already has an active run; Temporal allows one."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(f"thread already has an active run: {thread_id}")
        self.thread_id = thread_id


class ThreadNotFound(CallerError):
    """No workflow has this thread's id."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(f"no thread {thread_id!r} in this namespace")
        self.thread_id = thread_id


class ConfigurationError(WakefulError):
    """The registry or the settings are wrong; `problems` names every one of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class ConnectionFailed(WakefulError):
    """Temporal cannot be reached."""


class NoAnswer(WakefulError):
    """A thread did not answer in time. What was sent as a signal is in its history all the same."""


class ProviderErrorKind(StrEnum):
    """How a provider failed. The first five may pass by themselves, so Temporal tries again."""

    PROVIDER = "provider"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    TIMEOUT = "timeout"
    STREAM_INTERRUPTED = "stream_interrupted"
    CONTEXT_OVERFLOW = "context_overflow"
    INVALID_REQUEST = "invalid_request"
    UNAUTHORIZED = "unauthorized"
    MODEL_NOT_FOUND = "model_not_found"
    CONTENT_FILTERED = "content_filtered"
    ALL_MODELS_UNAVAILABLE = "all_models_unavailable"

    @property
    def transient(self) -> bool:
        return self in _TRANSIENT


_TRANSIENT = frozenset(
    {
        ProviderErrorKind.PROVIDER,
        ProviderErrorKind.RATE_LIMITED,
        ProviderErrorKind.OVERLOADED,
        ProviderErrorKind.TIMEOUT,
        ProviderErrorKind.STREAM_INTERRUPTED,
    }
)


class ProviderError(WakefulError):
    """A model provider failed. Raise it from a provider of your own; the kind decides about retries."""

    def __init__(
        self, kind: ProviderErrorKind, message: str, *, retry_after: float | None = None, cause: str | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after = retry_after
        self.cause = cause
        """Why an answer broke off, in two or three words: `connection reset`, `provider 529 mid-stream`."""


class ToolErrorKind(StrEnum):
    """How a tool failed, as the model reads it."""

    INVALID_ARGUMENTS = "Invalid arguments"
    EXECUTION_FAILED = "Execution failed"
    DENIED = "Denied"
    NOT_FOUND = "Not found"
    INTERNAL = "Internal error"


class ToolError(WakefulError):
    """A failure for the model to read: raise it in a tool to choose the words. It never fails the run."""

    def __init__(self, message: str, *, kind: ToolErrorKind = ToolErrorKind.EXECUTION_FAILED) -> None:
        super().__init__(message)
        self.kind = kind

    def __str__(self) -> str:
        return f"{self.kind}: {super().__str__()}"


class InternalError(WakefulError):
    """A promise of ours is broken; please report it."""


class IllegalTransition(InternalError):
    """A lifecycle was moved along an edge that its table does not have."""
