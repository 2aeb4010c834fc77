"""What can go wrong with a remote agent, and what Temporal does then: retry, poll, or fail for good."""

import time
from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from zlib import crc32

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from wakeful.contract.agents import RetryPolicy
from wakeful.contract.capabilities import Feature, unsupported_message
from wakeful.contract.errors import OUTAGE_NOTE
from wakeful.contract.names import OUTCOME_UNKNOWN, REMOTE_TASK_PENDING
from wakeful.contract.remote import RemoteProgress
from wakeful.contract.streaming import Outage
from wakeful_activities.error_texts import failure_of, shortened
from wakeful_activities.other_workers import utc_clock

MAX_POLL_SECONDS = 60.0
POLL_GROWTH = 1.5
"""How much longer each interval between two polls is than the one before, up to a minute."""
FIRST_LOOKUP_SECONDS = 2.0
"""How long an attempt waits at least if the message may have been sent: the service lists the task by then."""
JITTER = 0.2


class RemoteErrorKind(StrEnum):
    """The type of the activity's failure."""

    UNREACHABLE = "remote_unreachable"
    """No connection: nothing was sent."""
    UNAVAILABLE = "remote_unavailable"
    """It answers with an error that may pass, or not in time."""
    UNAUTHORIZED = "remote_unauthorized"
    REFUSED = "remote_refused"
    """It refuses the request, and would again."""
    UNSUPPORTED = "remote_unsupported"
    """It does not have the method."""
    TASK_NOT_FOUND = "remote_task_not_found"


class RemoteError(Exception):
    """A request to a remote agent failed. The message has no secrets.

    Args:
        was_sent: the service may have received the request.
        retry_after: seconds that the service asks to wait.
    """

    def __init__(
        self, kind: RemoteErrorKind, message: str, *, was_sent: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.was_sent = was_sent
        self.retry_after = retry_after

    @property
    def may_pass(self) -> bool:
        return self.kind in (RemoteErrorKind.UNREACHABLE, RemoteErrorKind.UNAVAILABLE)


def pending(agent_id: str, progress: RemoteProgress, *, poll_seconds: float, left: float) -> ApplicationError:
    """The end of an attempt that found the task at work. It is not a failure: Temporal polls again.

    Args:
        left: seconds until the answer is due.
    """
    longest, steps = max(MAX_POLL_SECONDS, poll_seconds), min(progress.polls - 1, 100)  # a float has a limit
    grown = min(longest, poll_seconds * POLL_GROWTH**steps)
    state = progress.state.value if progress.state else "unknown"
    return _retryable(
        f"task {progress.task_id!r} of remote agent {agent_id!r} is {state}; the worker asks again",
        REMOTE_TASK_PENDING,
        delay=min(grown * (1 + JITTER * _spread()), max(left, 0.1)),
    )


def failed_attempt(
    agent_id: str, error: RemoteError, policy: RetryPolicy, outage: Outage | None, *, has_task: bool
) -> tuple[ApplicationError, Outage | None]:
    """The failure of an attempt, and the outage that the heartbeat records.

    A task that exists is never given up because a token is replaced or a proxy is set up anew: it is retried for as
    long as the agent's patience lasts, whatever the service answers.
    """
    message = f"remote agent {agent_id!r}: {error}"
    if error.kind is RemoteErrorKind.TASK_NOT_FOUND or not (error.may_pass or has_task):
        return final(f"remote agent {agent_id!r} cannot be called", message, error.kind), None
    now = _now()
    since = outage.since if outage else now
    failures = (outage.failures if outage else 0) + 1
    until = since + int(policy.patience_secs * 1000)
    outage = Outage(since=since, until=until, attempt=activity.info().attempt, failures=failures)
    base = policy.backoff_base_ms / 1000
    delay = min(policy.max_backoff_secs, base * 2.0 ** min(failures - 1, 30))
    delay = max(delay, error.retry_after or 0.0, FIRST_LOOKUP_SECONDS if error.was_sent else 0.0)
    delay += JITTER * delay * _spread()
    times = f", {failures} failed attempts" if failures > 1 else ""
    if failures > policy.max_retries and now + delay * 1000 >= until:
        patience = timedelta(seconds=policy.patience_secs)
        note = f"{OUTAGE_NOTE}{utc_clock(since)}{times}; its patience of {patience} is over]"
        return final(f"remote agent {agent_id!r} cannot be called", f"{message}{note}", error.kind), outage
    note = f"{OUTAGE_NOTE}{utc_clock(since)}{times}; retried until {utc_clock(until)}]"
    return _retryable(f"{message}{note}", error.kind.value, delay=delay), outage


def final(what: str, text: str, type: str) -> ApplicationError:
    """The call has failed for good; the text, which may be the service's, is in the failure's detail."""
    return failure_of(what, text, type=type, non_retryable=True, category=ApplicationErrorCategory.BENIGN)


def unknown_outcome(agent_id: str) -> ApplicationError:
    """The message may have been sent, and the service cannot say."""
    return ApplicationError(
        f"{OUTCOME_UNKNOWN}: a worker was lost while it sent a message to remote agent {agent_id!r}, and the service "
        "cannot list its tasks. It is not known whether the agent works on it: check there before you send it again, "
        "or declare the agent idempotent if its service recognises a message that is sent twice",
        type="remote_outcome_unknown",
        non_retryable=True,
        category=ApplicationErrorCategory.BENIGN,
    )


def unsupported(agent_id: str, features: Sequence[Feature]) -> ApplicationError:
    """The run asks for what a remote agent cannot do."""
    return ApplicationError(
        unsupported_message(agent_id, features),
        type="unsupported",
        non_retryable=True,
        category=ApplicationErrorCategory.BENIGN,
    )


def _retryable(message: str, type: str, *, delay: float) -> ApplicationError:
    return ApplicationError(
        shortened(message),
        type=type,
        next_retry_delay=timedelta(seconds=delay),
        category=ApplicationErrorCategory.BENIGN,
    )


def _now() -> int:
    return int(time.time() * 1000)


def _spread() -> float:
    """From 0 to 1, the same for the same attempt: runs that wait together do not poll together."""
    info = activity.info()
    return crc32(f"{info.workflow_id}/{info.activity_id}/{info.attempt}".encode()) / (1 << 32)
