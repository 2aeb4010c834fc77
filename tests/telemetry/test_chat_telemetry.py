"""What one attempt of a model call shows, if it fails: a retry, or the end of its `chat`."""

import dataclasses

import pytest
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from tests.support.activity_telemetry import WatchedActivities
from wakeful.contract.agents import ModelBinding
from wakeful.contract.errors import ProviderError, ProviderErrorKind, ToolError
from wakeful.contract.inference import ModelRequest
from wakeful.telemetry import instruments, names
from wakeful.telemetry.tracing import error_type
from wakeful_activities.inference.chat_telemetry import ChatTelemetry

MODEL = ModelBinding(id="small", provider="p", name="small-1")


def errors_of(watched: WatchedActivities) -> list[tuple[str, object]]:
    """The spans, and how each failed."""
    return [(name, attributes.get(names.ERROR_TYPE)) for name, attributes in watched.spans]


def retries(watched: WatchedActivities) -> dict[tuple[str, ...], float]:
    return watched.measured.values(instruments.RETRIES, names.REQUEST_MODEL, names.ERROR_TYPE)


async def fail(
    watched: WatchedActivities, raised: Exception | None, failure: Exception, *, attempt: int, limit: int = 0
) -> None:
    """An activity that fails, after the call of a model that raised, if it did."""

    async def infer() -> None:
        with ChatTelemetry(watched.telemetry) as telemetry:
            telemetry.about("a", MODEL)
            try:
                with telemetry.attempt(MODEL, ModelRequest(model=MODEL.name, messages=()), None):
                    if raised is not None:
                        raise raised
            except Exception:
                raise failure from None
            raise failure

    environment = ActivityEnvironment()
    policy = RetryPolicy(maximum_attempts=limit)
    environment.info = dataclasses.replace(environment.info, attempt=attempt, retry_policy=policy)
    with pytest.raises(type(failure)):
        await environment.run(infer)


async def test_the_last_attempt_that_temporal_allows_ends_the_chat() -> None:
    """A compaction: its attempts would otherwise be below a span that is never exported."""
    watched, busy = WatchedActivities(), ProviderError(ProviderErrorKind.OVERLOADED, "busy")
    failure = ApplicationError("busy", type="overloaded")
    await fail(watched, busy, failure, attempt=4, limit=5)
    assert (errors_of(watched), retries(watched)) == ([("attempt", "overloaded")], {("small-1", "overloaded"): 1})
    await fail(watched, busy, failure, attempt=5, limit=5)
    assert errors_of(watched)[1:] == [("attempt", "overloaded"), ("chat small-1", "overloaded")]
    assert retries(watched) == {("small-1", "overloaded"): 1}


async def test_what_a_provider_s_bug_makes_temporal_retry_is_counted_too() -> None:
    watched = WatchedActivities()
    await fail(watched, KeyError("choices"), ApplicationError("a bug", type="KeyError"), attempt=1)
    assert retries(watched) == {("small-1", "KeyError"): 1}


async def test_an_answer_that_something_else_failed_to_check_is_no_failed_call() -> None:
    watched = WatchedActivities()
    await fail(watched, None, ApplicationError("a hook raised", type="ValueError"), attempt=1)
    assert retries(watched) == {}


def test_the_type_of_an_error_is_a_code_of_ours_or_the_name_of_its_class() -> None:
    """Whatever an exception of the user's own holds: it may be a prompt, and each would be a time series."""

    class OfUser(Exception):
        kind = "canary-4711"

    errors = (
        ProviderError(ProviderErrorKind.TIMEOUT, "x"),
        ToolError("x"),
        ApplicationError("x", type="Odd"),
        OfUser(),
    )
    assert [error_type(error) for error in errors] == ["timeout", "Execution failed", "Odd", "OfUser"]
