"""What a failed call to Temporal means: which statuses can be retried, and which of our errors it becomes."""

import shlex

from temporalio.service import RPCError, RPCStatusCode

from wakeful.contract.errors import CallerError, NoAnswer, ThreadNotFound, WakefulError

RETRYABLE = frozenset(
    {
        RPCStatusCode.ABORTED,
        RPCStatusCode.CANCELLED,  # of the connection; a cancelled task raises another error
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.INTERNAL,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.UNKNOWN,
    }
)
"""Statuses of a server that may answer the same call later."""

# A precondition fails when the server has seen no worker on the task queue for minutes.
_NO_ANSWER = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED, RPCStatusCode.FAILED_PRECONDITION)


def error_of(error: RPCError, thread_id: str) -> WakefulError:
    """The error that a failed call about a thread means for the caller."""
    if error.status is RPCStatusCode.NOT_FOUND:
        if "already completed" in str(error):
            return CallerError(f"the run on thread {thread_id!r} has ended")
        return ThreadNotFound(thread_id)
    if error.status in _NO_ANSWER:
        return NoAnswer(
            f"thread {thread_id!r} did not answer in time; is a worker running on its task queue? "
            f"Run `wakeful why {shlex.quote(thread_id)}` to find out"
        )
    return WakefulError(f"Temporal rejected the call for thread {thread_id!r}: {error.message}")
