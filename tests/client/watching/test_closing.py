"""A stream whose thread was ended from outside ends with an error that says how."""

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure

from wakeful.client.watching.closing import closing_error
from wakeful.contract.events import ErrorEvent
from wakeful.history.moments import Closed

TERMINATED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED
TIMED_OUT = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT
CANCELLED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED
FAILED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED
COMPLETED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED


@pytest.mark.parametrize(
    ("closed", "code", "message"),
    [
        (Closed(9, 7, TERMINATED, reason="by hand"), "terminated", "thread 't' was terminated in Temporal: by hand"),
        (Closed(9, 7, TERMINATED), "terminated", "thread 't' was terminated in Temporal"),
        (Closed(9, 7, TIMED_OUT), "timed_out", "thread 't' hit its workflow timeout"),
        (Closed(9, 7, CANCELLED), "cancelled", "thread 't' was cancelled in Temporal before it started"),
        (Closed(9, 7, FAILED, failure=Failure(message="no")), "failed", "thread 't' failed as a workflow: no"),
    ],
)
def test_the_error_says_how_the_thread_was_ended(closed: Closed, code: str, message: str) -> None:
    """B-702"""
    assert closing_error("t", closed) == ErrorEvent(message=message, code=code)


def test_a_workflow_that_completed_is_no_error() -> None:
    assert closing_error("t", Closed(9, 7, COMPLETED)) is None
