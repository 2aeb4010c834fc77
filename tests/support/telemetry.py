"""A process that is traced or measured for a while.

OpenTelemetry's global providers can be set once. So that other tests of the process stay untraced, they are taken away
again, as OpenTelemetry's own tests do it. Start workers inside: a worker looks for the providers when it is made.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import opentelemetry.metrics._internal as otel_metrics
import opentelemetry.trace as otel_trace
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once
from temporalio.contrib.opentelemetry import ReplaySafeTracerProvider, create_tracer_provider


@contextmanager
def traced_process() -> Iterator[InMemorySpanExporter]:
    """What the process exports while the body runs, through Temporal's replay-safe provider."""
    with _traced(create_tracer_provider(shutdown_on_exit=False)) as exporter:
        yield exporter


@contextmanager
def plainly_traced_process() -> Iterator[InMemorySpanExporter]:
    """The same with a provider that knows nothing of Temporal."""
    with _traced(TracerProvider(shutdown_on_exit=False)) as exporter:
        yield exporter


@contextmanager
def exporting_process(exporter: SpanExporter) -> Iterator[None]:
    """The same, with an exporter that sends the spans to another program."""
    provider = create_tracer_provider(resource=Resource({SERVICE_NAME: "shop"}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=100))
    with _traced(provider):
        yield


@contextmanager
def _traced(provider: TracerProvider | ReplaySafeTracerProvider) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    assert trace.get_tracer_provider() is provider, "another test has set a provider, and left it behind"
    try:
        yield exporter
    finally:
        otel_trace._TRACER_PROVIDER = None
        otel_trace._TRACER_PROVIDER_SET_ONCE = Once()


@contextmanager
def measured_process() -> Iterator[InMemoryMetricReader]:
    """What the process measures while the body runs."""
    reader = InMemoryMetricReader()
    metrics.set_meter_provider(MeterProvider([reader], shutdown_on_exit=False))
    try:
        yield reader
    finally:
        otel_metrics._METER_PROVIDER = None
        otel_metrics._METER_PROVIDER_SET_ONCE = Once()
