"""The exceptions that Wakeful raises, grouped by who is at fault.

    WakefulError
    ├── CallerError             the request was wrong: change it
    │   ├── ChangeRefused         the thread rejected the change of a message or a rule, for a reason
    │   ├── DecisionRefused       the run rejected the decision, for a reason
    │   │   └── AlreadyDecided      its call was decided before: by whom, and when
    │   ├── MessageRefused        the thread rejected the message, for a reason
    │   │   └── OtherTenant         it belongs to another tenant
    │   ├── ThreadBusy            the thread already has an active run
    │   ├── ThreadExists          the thread has a conversation, and a start would begin another one
    │   ├── ThreadExpired         the thread was closed, and its retention has ended
    │   └── ThreadNotFound        no such thread
    ├── NotAnswered             `ask`: no run answers the message; `reason` says why
    │   ├── RunFailed             the run that read it ended in an error
    │   ├── RunCancelled          it was cancelled, interrupted or rolled back
    │   ├── RunBlocked            a gate or a hook blocked it
    │   ├── RunStopped            a limit or a plugin stopped it: a stop condition, a budget
    │   └── OutputMismatch        the answer is not of the type that was asked for
    ├── DecisionNeeded          `ask`: the answer waits for a person (in `wakeful/client/asking.py`, with the decisions)
    ├── ConfigurationError      the worker's registry or settings are wrong; lists every problem at once
    │   └── InvalidValue          a field is unknown, missing or wrong: `Agent(…)`, `Budget(…)`; also a CallerError
    ├── DiscoveryFailed         agents of other services could not be discovered
    ├── ConnectionFailed        Temporal is unreachable
    ├── NoAnswer                a thread cannot be read, usually because no worker is running
    │   └── NotStarted            no worker has completed a workflow task of the execution yet
    ├── ArchiveMissing          an archived part of a thread was deleted
    ├── CannotDecode            this program does not have the payload codec of a thread, or has another key
    ├── DoesNotReplay           a history does not replay on the installed code: a worker has to be asked
    │   └── ReplayTooSlow         it may replay on this code, but this machine was too busy
    ├── NewerRelease            a newer release has written a thread's state: only its workers can continue the thread
    ├── WorkerExhausted         too many sync tools, gates or hooks hang in a worker: it stops, to be replaced
    ├── ProviderError           the model provider failed; `kind` says how, and whether a retry may help
    │   └── UnexpectedModelCall   a test's model has no answer (in `wakeful/authoring/unexpected_call.py`)
    ├── ToolError               a tool reports a failure for the model to read
    │   └── RetryLater            nothing took effect: Temporal retries the call before the model reads it
    └── InternalError           a bug in Wakeful

Expected outcomes (failed, suspended, cancelled, rejected) are values, not exceptions, except of `client.ask`: its
caller wants an answer, and nothing else.
"""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from wakeful.contract.choices import member_named

if TYPE_CHECKING:
    from wakeful.contract.runs import RunResult


class WakefulError(Exception):
    """Base of every exception that Wakeful raises."""

    def __reduce__(self) -> tuple[object, ...]:
        """It is copied and pickled as it is: its `args` are its message, which is not what its `__init__` takes."""
        return _made, (type(self), self.args), self.__dict__


def _made(kind: type[WakefulError], args: tuple[object, ...]) -> WakefulError:
    return kind.__new__(kind, *args)


class CallerError(WakefulError):
    """The request was wrong."""


class ChangeRefused(CallerError):
    """The thread rejected a withdrawal, an edit or a revocation, such as because it came too late."""

    def __init__(self, thread_id: str, reason: str) -> None:
        super().__init__(f"thread {thread_id!r} rejected the change: {reason}")
        self.thread_id = thread_id
        self.reason = reason


class DecisionRefused(CallerError):
    """The run rejected a decision; nothing has changed."""

    def __init__(self, thread_id: str, reason: str) -> None:
        super().__init__(f"thread {thread_id!r} rejected the decision: {reason}")
        self.thread_id = thread_id
        self.reason = reason


class AlreadyDecided(DecisionRefused):
    """The call was decided before: what, by whom and when.

    Args:
        action: `resume` or `cancel`.
        actor: who decided, as they stated it.
        at: when the thread applied it, in milliseconds since 1970.
    """

    def __init__(self, thread_id: str, reason: str, *, action: str, actor: str | None, at: int) -> None:
        super().__init__(thread_id, reason)
        self.action = action
        self.actor = actor
        self.at = at


class MessageRefused(CallerError):
    """The thread rejected a message; no run reads it."""

    def __init__(self, thread_id: str, reason: str, *, sent: str = "message") -> None:
        super().__init__(f"thread {thread_id!r} rejected the {sent}: {reason}")
        self.thread_id = thread_id
        self.reason = reason


class OtherTenant(MessageRefused):
    """The thread belongs to another tenant than a message, a change or a decision, or than a request to start it over.

    Args:
        sent: what the sender has sent.
    """

    def __init__(self, thread_id: str, tenant: str | None, *, sent: str = "message") -> None:
        reason = "the thread belongs to a tenant: name it" if tenant is None else other_tenant_reason(tenant, sent)
        super().__init__(thread_id, reason, sent=sent)


def other_tenant_reason(tenant: str, sent: str) -> str:
    """Why a thread refuses what a client of this tenant has sent."""
    return f"the thread belongs to another tenant than {tenant!r}, which the {sent} is from"


class ThreadBusy(CallerError):
    """The thread already has an active run; only one is allowed."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"thread already has an active run: {thread_id}; send() gives it another message, and result() waits for "
            "its end"
        )
        self.thread_id = thread_id


class ThreadExists(CallerError):
    """The thread has a conversation already, which a new start would leave behind."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"thread {thread_id!r} has a conversation already: use send() to continue it, or start it over with "
            "again=True"
        )
        self.thread_id = thread_id


class ThreadExpired(CallerError):
    """The thread was closed, and the server has deleted its executions: it cannot be woken any more."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"thread {thread_id!r} was closed, and the server has deleted it because its retention has ended: start it "
            "over with start(..., again=True), or use another id"
        )
        self.thread_id = thread_id


class ThreadNotFound(CallerError):
    """No workflow has this thread's id."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(f"no thread {thread_id!r} in this namespace")
        self.thread_id = thread_id


class NotAnswered(WakefulError):
    """No run answers a message that was asked.

    Args:
        result: of the run that read the message, if one did.
    """

    def __init__(self, thread_id: str, message_id: str, reason: str, *, result: "RunResult | None" = None) -> None:
        super().__init__(f"message {message_id!r} has no answer on thread {thread_id!r}: {reason}")
        self.thread_id = thread_id
        self.message_id = message_id
        self.reason = reason
        self.result = result


class RunFailed(NotAnswered):
    """The run that read the message ended in an error."""


class RunCancelled(NotAnswered):
    """The run that read the message was cancelled, interrupted by another message, or rolled back."""


class RunBlocked(NotAnswered):
    """A gate or a hook blocked the run that read the message."""


class RunStopped(NotAnswered):
    """A stop condition, a budget or a plugin stopped the run before it answered; `result` has its last text."""


class OutputMismatch(NotAnswered):
    """The run ended with an answer that is not of the type that was asked for; `result` has it."""


class ConfigurationError(WakefulError):
    """The registry or the settings are wrong; `problems` lists every problem."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class InvalidValue(ConfigurationError, CallerError, ValueError):
    """A value was made with fields that are unknown, missing or wrong; `problems` lists them all.

    Such values are of a registry or of a request, so it is a `ConfigurationError` and a `CallerError`. It is a
    `ValueError`, too, which pydantic collects when a validator raises it.

    Args:
        subject: what was to be made, as in `Agent 'buyer'`.
        fields: what is wrong, a line each.
    """

    def __init__(self, subject: str, fields: Sequence[str]) -> None:
        super().__init__([f"{subject}: {problem}" for problem in fields])
        self.subject = subject
        self.fields = tuple(fields)


class DiscoveryFailed(WakefulError):
    """Sources of remote agents could not be read; `failures` says why, by the name of the source.

    The agents that were discovered before stay in force, also those of the other sources.
    """

    def __init__(self, failures: Mapping[str, str]) -> None:
        named = "; ".join(f"source {name!r}: {why}" for name, why in failures.items())
        super().__init__(f"remote agent discovery failed: {named}")
        self.failures = dict(failures)


class ConnectionFailed(WakefulError):
    """Temporal is unreachable."""


class NoAnswer(WakefulError):
    """A thread did not answer a query in time. Signals that were sent are in its history nevertheless."""


class NotStarted(NoAnswer):
    """An execution has nothing to read: no worker has taken it, or has restored the thread in it.

    Args:
        is_taken: a worker has completed a workflow task of it.
    """

    def __init__(self, thread_id: str, run_id: str, *, is_taken: bool = False) -> None:
        reason = (
            f"execution {run_id!r} has not restored the thread yet, or rejected the request that started it"
            if is_taken
            else f"no worker has completed a workflow task of execution {run_id!r}; start a worker on its task queue"
        )
        super().__init__(f"the run on thread {thread_id!r} has not started: {reason}")
        self.thread_id = thread_id
        self.run_id = run_id


class ArchiveMissing(WakefulError):
    """The server does not have an archived part of a thread any more."""

    def __init__(self, thread_id: str, archive_id: str) -> None:
        super().__init__(
            f"a part of thread {thread_id!r} is missing: workflow {archive_id!r}, which archives it, was deleted"
        )
        self.thread_id = thread_id
        self.archive_id = archive_id


class CannotDecode(WakefulError):
    """A payload of a thread cannot be decoded by this program, because its client has no codec for it."""

    def __init__(self, subject: str, reason: str) -> None:
        super().__init__(f"{subject} cannot be decoded here: {reason}. {HOW_TO_DECODE}")
        self.subject = subject
        self.reason = reason


HOW_TO_DECODE = (
    "Connect with the payload codec and the key of your workers: name a function that returns your Temporal client, "
    "with --client module:function or WAKEFUL_CLIENT"
)


class DoesNotReplay(WakefulError):
    """The history of an execution does not replay on the code that is installed here."""

    def __init__(self, thread_id: str, run_id: str, *, event_id: int, reason: str) -> None:
        super().__init__(
            f"execution {run_id!r} of thread {thread_id!r} does not replay on the code installed here, at event "
            f"{event_id}: {reason}. Query a worker of the thread instead, or read it with the version and the payload "
            "codec of its workers."
        )
        self.thread_id = thread_id
        self.run_id = run_id
        self.event_id = event_id
        self.reason = reason


class ReplayTooSlow(DoesNotReplay):
    """The replay of an execution took too long on this machine, which says nothing about the code."""


class NewerRelease(WakefulError):
    """A newer release has written the state of a thread. Reading it here would drop what this release does not know."""

    def __init__(self, what: str, found: int, known: int) -> None:
        super().__init__(
            f"the thread's snapshot has {what} {found}, and this release knows {what}s up to {known}: a newer release "
            "has written it, and only its workers can continue the thread. Start them, or upgrade this one."
        )
        self.found = found
        self.known = known


class WorkerExhausted(WakefulError):
    """A worker has stopped, because too many of its threads run code that does not return: start another one."""


class ProviderErrorKind(StrEnum):
    """How a provider failed. The first five are transient, and Temporal retries them."""

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
    UNEXPECTED_CALL = "unexpected_call"
    """Of a test's model: its script or its recording has no answer to the request."""

    @property
    def transient(self) -> bool:
        return self in _TRANSIENT


ProviderErrorKindName = Literal[
    "provider",
    "rate_limited",
    "overloaded",
    "timeout",
    "stream_interrupted",
    "context_overflow",
    "invalid_request",
    "unauthorized",
    "model_not_found",
    "content_filtered",
    "unexpected_call",
]


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
    """A model provider failed. Raise it from your own provider; `kind` determines whether the call is retried."""

    def __init__(
        self,
        kind: ProviderErrorKind | ProviderErrorKindName,
        message: str,
        *,
        retry_after: float | None = None,
        cause: str | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = member_named(ProviderErrorKind, kind, parameter="kind")
        self.status = status
        """The HTTP status of the provider's answer, if it was that which failed."""
        self.retry_after = retry_after
        self.cause = cause
        """Why a stream was interrupted, in two or three words: `connection reset`, `provider 529 mid-stream`."""


LONGEST_RETRY_AFTER = 86_400 * 30
"""Seconds that a tool may ask to be called again after."""


class ToolErrorKind(StrEnum):
    """How a tool failed, as the model reads it."""

    INVALID_ARGUMENTS = "Invalid arguments"
    EXECUTION_FAILED = "Execution failed"
    DENIED = "Denied"
    NOT_FOUND = "Not found"
    INTERNAL = "Internal error"


class ToolError(WakefulError):
    """A failure for the model to read. Raise it in a tool to choose the wording; it never fails the run."""

    def __init__(self, message: str, *, kind: ToolErrorKind = ToolErrorKind.EXECUTION_FAILED) -> None:
        super().__init__(message)
        self.kind = kind

    def __str__(self) -> str:
        return f"{self.kind}: {super().__str__()}"


class RetryLater(ToolError):
    """Raise it in a tool whose call took no effect and may work later: a rate limit, a lock, a service that is down.

    Temporal waits and runs the call again, up to the tool's `retries`; then the model reads the message. Any tool may
    raise it, also one that must not run twice: raise it only where nothing took effect.

    Args:
        after: seconds until the next attempt, such as a `Retry-After`; by default, the tool's backoff.
    """

    def __init__(self, message: str, *, after: float | None = None) -> None:
        if after is not None and not 0 <= after <= LONGEST_RETRY_AFTER:
            raise ValueError(f"after={after!r}: a retry can follow after 0 to {LONGEST_RETRY_AFTER:,} seconds")
        super().__init__(message)
        self.after = after


class InternalError(WakefulError):
    """A bug in Wakeful; please report it."""


class IllegalTransition(InternalError):
    """A transition that its table does not allow."""


RETRY_MAY_HELP = "a retry may help"
RETRY_LATER = "retry later"
"""How a provider's message begins its advice on failures that may pass; a diagnosis cuts it off there."""

OUTAGE_NOTE = " [failing since "
"""How the note begins that follows the provider's message while a model call is retried."""


def validation_problems(error: ValidationError) -> list[str]:
    """What pydantic found wrong, one line per field: `field: problem`."""
    problems = []
    for detail in error.errors(include_url=False):
        field = ".".join(str(part) for part in detail["loc"])
        message = detail["msg"].removeprefix("Value error, ")
        if detail["type"] in ("model_type", "model_attributes_type"):
            message = f"a JSON object is required, not {json.dumps(detail['input'], default=str)[:80]}"
        problems.append(f"{field}: {message}" if field else message)
    return problems
