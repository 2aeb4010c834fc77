"""Spans and metrics of activities that run without a worker."""

from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import Tracer, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.support.measured import Measured
from wakeful.telemetry.metrics import Metrics, _of_provider
from wakeful.telemetry.telemetry import Telemetry
from wakeful.telemetry.tracing import Tracing


class WatchedActivities:
    """Providers of its own, which the process does not know."""

    def __init__(self) -> None:
        provider, self._exporter, reader = TracerProvider(), InMemorySpanExporter(), InMemoryMetricReader()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        tracer = provider.get_tracer("test")
        assert isinstance(tracer, Tracer)
        meter = MeterProvider([reader], shutdown_on_exit=False).get_meter("test")
        self.telemetry = Telemetry(Tracing(tracer), Metrics(lambda instrument: _of_provider(meter, instrument)))
        self.measured = Measured(reader)

    @property
    def spans(self) -> list[tuple[str, Mapping[str, Any]]]:
        return [(span.name, dict(span.attributes or {})) for span in self._exporter.get_finished_spans()]
