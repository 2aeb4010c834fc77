"""What a refused call to Temporal means: which statuses are worth a retry, and which error of ours it becomes."""

import shlex

from temporalio.service import RPCError, RPCStatusCode

from wakeful.contract.errors import CallerError, NoAnswer, ThreadNotFound, WakefulError

RETRYABLE = frozenset(
    {
        RPCStatusCode.ABORTED,
        RPCStatusCode.CANCELLED,  # the connection, that is; a cancelled task raises another error
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.INTERNAL,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.UNKNOWN,
    }
)
"""Refusals of Temporal's that mean: not now."""

# A precondition fails when the server has seen no worker on the task queue for minutes.
_SILENCE = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED, RPCStatusCode.FAILED_PRECONDITION)


def error_of(error: RPCError, thread_id: str) -> WakefulError:
    """What a refusal of Temporal's means for whoever named the thread."""
    if error.status is RPCStatusCode.NOT_FOUND:
        if "already completed" in str(error):
            return CallerError(f"the run on thread {thread_id!r} has ended")
        return ThreadNotFound(thread_id)
    if error.status in _SILENCE:
        return NoAnswer(
            f"thread {thread_id!r} did not answer in time; is a worker running on its task queue? "
            f"`wakeful why {shlex.quote(thread_id)}` tells"
        )
    return WakefulError(f"Temporal refused for thread {thread_id!r}: {error.message}")
