"""When Temporal tries again: polls at growing intervals, failures with a backoff, for as long as the patience lasts."""

import dataclasses

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from wakeful.contract.agents import RetryPolicy
from wakeful.contract.remote import RemoteProgress, RemoteState
from wakeful.contract.streaming import Outage
from wakeful_activities.a2a import failures
from wakeful_activities.a2a.failures import RemoteError, RemoteErrorKind

PROGRESS = RemoteProgress(service="s", context_id="c", message_id="m", task_id="k", state=RemoteState.WORKING)
DOWN = RemoteError(RemoteErrorKind.UNREACHABLE, "it cannot be reached")
UNAUTHORIZED = RemoteError(RemoteErrorKind.UNAUTHORIZED, "it does not accept the credentials")


def delay(error: ApplicationError) -> float:
    assert error.next_retry_delay is not None
    return error.next_retry_delay.total_seconds()


def failed(
    error: RemoteError, policy: RetryPolicy | None = None, outage: Outage | None = None, *, has_task: bool = False
) -> tuple[ApplicationError, Outage | None]:
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, attempt=3)
    return environment.run(failures.failed_attempt, "a", error, policy or RetryPolicy(), outage, has_task=has_task)


def test_the_intervals_between_polls_grow_to_a_minute() -> None:
    def polled(polls: int, *, every: float = 2.0, left: float = 10_000.0) -> float:
        progress = PROGRESS.model_copy(update={"polls": polls})
        return delay(ActivityEnvironment().run(failures.pending, "a", progress, poll_seconds=every, left=left))

    assert 2.0 <= polled(1) <= 2.4
    assert 3.0 <= polled(2) <= 3.6
    assert 60.0 <= polled(100_000) <= 72.0
    assert 300.0 <= polled(7, every=300) <= 360.0
    assert polled(5, left=0.5) == 0.5


def test_what_may_pass_is_retried_with_a_backoff_that_the_heartbeat_records() -> None:
    first, outage = failed(DOWN)
    assert outage is not None
    assert (outage.failures, outage.attempt, outage.until - outage.since) == (1, 3, 24 * 3600 * 1000)
    assert not first.non_retryable
    assert 0.5 <= delay(first) <= 0.6
    second, outage = failed(DOWN, outage=outage)
    assert outage is not None
    assert (outage.failures, "2 failed attempts" in second.message) == (2, True)
    assert 1.0 <= delay(second) <= 1.2


def test_a_message_that_may_have_been_sent_is_looked_for_after_a_moment() -> None:
    lost = RemoteError(RemoteErrorKind.UNAVAILABLE, "the connection failed", was_sent=True)
    assert delay(failed(lost)[0]) >= failures.FIRST_LOOKUP_SECONDS
    waits = RemoteError(RemoteErrorKind.UNAVAILABLE, "it is overloaded", retry_after=30)
    assert delay(failed(waits)[0]) >= 30


def test_a_refusal_is_final_unless_there_is_a_task() -> None:
    """A token may be replaced while a task works for days."""
    error, outage = failed(UNAUTHORIZED)
    assert (error.non_retryable, error.type, outage) == (True, "remote_unauthorized", None)
    assert not failed(UNAUTHORIZED, has_task=True)[0].non_retryable
    gone = RemoteError(RemoteErrorKind.TASK_NOT_FOUND, "it does not know the task")
    assert failed(gone, has_task=True)[0].non_retryable


@pytest.mark.parametrize(("failures_before", "is_final"), [(1, False), (2, True)])
def test_patience_ends_after_the_retries(failures_before: int, is_final: bool) -> None:
    long_ago = Outage(since=1, until=2, attempt=2, failures=failures_before)
    error, _ = failed(DOWN, RetryPolicy(patience_secs=60, max_retries=2), long_ago, has_task=True)
    assert error.non_retryable is is_final
