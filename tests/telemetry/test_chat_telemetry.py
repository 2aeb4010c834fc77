"""What one attempt of a model call shows, if it fails: a retry, or the end of its `chat`."""

import dataclasses

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from tests.support.measured import Measured
from wakeful.contract.agents import ModelBinding
from wakeful.contract.errors import ProviderError, ProviderErrorKind, ToolError
from wakeful.contract.inference import ModelRequest
from wakeful.telemetry import instruments, names
from wakeful.telemetry.metrics import Metrics, _of_provider
from wakeful.telemetry.telemetry import Telemetry
from wakeful.telemetry.tracing import Tracing, error_type
from wakeful_activities.inference.chat_telemetry import ChatTelemetry

MODEL = ModelBinding(id="small", provider="p", name="small-1")


class Watched:
    """Spans and metrics of a process of its own."""

    def __init__(self) -> None:
        provider, self._exporter, reader = TracerProvider(), InMemorySpanExporter(), InMemoryMetricReader()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        meter = MeterProvider([reader], shutdown_on_exit=False).get_meter("test")
        metrics = Metrics(lambda instrument: _of_provider(meter, instrument))
        self.telemetry = Telemetry(Tracing(provider.get_tracer("test")), metrics)  # type: ignore[arg-type]  # the SDK's
        self._measured = Measured(reader)

    @property
    def spans(self) -> list[tuple[str, object]]:
        return [
            (span.name, (span.attributes or {}).get(names.ERROR_TYPE)) for span in self._exporter.get_finished_spans()
        ]

    @property
    def retries(self) -> dict[tuple[str, ...], float]:
        return self._measured.values(instruments.RETRIES, names.REQUEST_MODEL, names.ERROR_TYPE)


async def fail(watched: Watched, raised: Exception | None, failure: Exception, *, attempt: int, limit: int = 0) -> None:
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
    watched, busy = Watched(), ProviderError(ProviderErrorKind.OVERLOADED, "busy")
    failure = ApplicationError("busy", type="overloaded")
    await fail(watched, busy, failure, attempt=4, limit=5)
    assert (watched.spans, watched.retries) == ([("attempt", "overloaded")], {("small-1", "overloaded"): 1})
    await fail(watched, busy, failure, attempt=5, limit=5)
    assert watched.spans[1:] == [("attempt", "overloaded"), ("chat small-1", "overloaded")]
    assert watched.retries == {("small-1", "overloaded"): 1}


async def test_what_a_provider_s_bug_makes_temporal_retry_is_counted_too() -> None:
    watched = Watched()
    await fail(watched, KeyError("choices"), ApplicationError("a bug", type="KeyError"), attempt=1)
    assert watched.retries == {("small-1", "KeyError"): 1}


async def test_an_answer_that_something_else_failed_to_check_is_no_failed_call() -> None:
    watched = Watched()
    await fail(watched, None, ApplicationError("a hook raised", type="ValueError"), attempt=1)
    assert watched.retries == {}


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
