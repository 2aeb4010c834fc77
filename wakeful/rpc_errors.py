"""What a failed call to Temporal means: nothing is there, it can be retried, or which of our errors it becomes."""

import shlex

from temporalio.api.errordetails.v1 import NamespaceNotFoundFailure
from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.service import RPCError, RPCStatusCode

from wakeful.contract.errors import CallerError, ConnectionFailed, NoAnswer, ThreadNotFound, WakefulError

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

# The server uses the same status for a thread that does not exist; that message begins with "workflow not found".
_RUN_ENDED = "workflow execution already completed"


def missing_namespace(error: RPCError) -> str | None:
    """The namespace that the call failed for because it does not exist, if that is the reason."""
    failure = NamespaceNotFoundFailure()
    return next((failure.namespace for detail in error.grpc_status.details if detail.Unpack(failure)), None)


async def describe_execution(
    temporal: Client, workflow_id: str, run_id: str | None = None
) -> WorkflowExecutionDescription | None:
    """An execution, or the newest one of a workflow; None if there is none.

    Raises:
        RPCError: the server refused the call, or is unreachable.
    """
    try:
        return await temporal.get_workflow_handle(workflow_id, run_id=run_id).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND or missing_namespace(error) is not None:
            raise
        return None


def is_run_ended(error: RPCError) -> bool:
    """Whether the call came too late: the thread exists, but its run has ended."""
    return error.status is RPCStatusCode.NOT_FOUND and error.message.startswith(_RUN_ENDED)


def error_of(error: RPCError, thread_id: str) -> WakefulError:
    """The error that a failed call about a thread means for the caller."""
    if (namespace := missing_namespace(error)) is not None:
        return ConnectionFailed(f"namespace {namespace!r} does not exist")
    if is_run_ended(error):
        return CallerError(f"the run on thread {thread_id!r} has ended")
    if error.status is RPCStatusCode.NOT_FOUND:
        return ThreadNotFound(thread_id)
    if not isinstance(thread_id, str) or not thread_id:
        return CallerError(f"thread_id should be the id of a thread, not {thread_id!r}")
    if error.status is RPCStatusCode.UNAVAILABLE:
        return ConnectionFailed(f"Temporal cannot be reached: {error.message}")
    if error.status in _NO_ANSWER:
        return NoAnswer(
            f"thread {thread_id!r} did not answer in time; is a worker running on its task queue? "
            f"Run `wakeful why {shlex.quote(thread_id)}` to find out"
        )
    return WakefulError(f"Temporal rejected the call for thread {thread_id!r}: {error.message}")
