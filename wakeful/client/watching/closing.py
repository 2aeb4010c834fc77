"""The last record of a stream whose thread closed without a `run_finish` for it. Pure, and never in history."""

from temporalio.api.enums.v1 import EventType

from wakeful.contract.events import ErrorEvent
from wakeful.history.moments import Closed

_ENDS = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED: ("terminated", "was terminated in Temporal"),
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT: ("timed_out", "hit its workflow timeout"),
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED: ("cancelled", "was cancelled in Temporal before it started"),
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED: ("failed", "failed as a workflow"),
}


def closing_error(thread_id: str, closed: Closed) -> ErrorEvent | None:
    """What ended a thread that had not ended by itself; None if its workflow completed."""
    if closed.how not in _ENDS:
        return None
    code, how = _ENDS[closed.how]
    reason = closed.failure.message if closed.failure is not None else closed.reason
    message = f"thread {thread_id!r} {how}"
    return ErrorEvent(message=f"{message}: {reason}" if reason else message, code=code)
