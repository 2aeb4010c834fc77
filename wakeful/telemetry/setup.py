"""Set up OpenTelemetry for a program of ours, from the standard variables: no code, and nothing without them.

The extra `wakeful[otel]` has the exporters. Providers that the program's app has set already are left as they are.
"""

import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from temporalio.contrib.opentelemetry import ReplaySafeTracerProvider, create_tracer_provider
from temporalio.runtime import MetricBuffer, MetricBufferDurationFormat, Runtime, TelemetryConfig

from wakeful.contract.errors import ConfigurationError
from wakeful.telemetry.log_format import core_logging
from wakeful.telemetry.metrics import has_meter_provider
from wakeful.telemetry.otel_variables import OtelVariables, Signal
from wakeful.telemetry.sdk_metrics import forwarding_sdk_metrics

BUFFERED_UPDATES = 100_000
"""Of the metrics of Temporal's SDK, until they are forwarded."""

FLUSH_SECONDS = 3.0
"""How long a program that ends may take to export what is left."""


@dataclass(frozen=True)
class Exports:
    """What a program exports."""

    tracer_provider: ReplaySafeTracerProvider | None = None
    meter_provider: MeterProvider | None = None
    buffer: MetricBuffer | None = None
    runtime: Runtime | None = None
    """For the connection to Temporal: its SDK's own metrics are exported, too."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Export while the body runs, and what is left at its end."""
        try:
            if self.buffer is None or self.meter_provider is None:
                yield
            else:
                async with forwarding_sdk_metrics(self.buffer, self.meter_provider):
                    yield
        finally:
            self.flush()

    def flush(self) -> None:
        """Export what is left, as far as that is possible in time.

        In threads, which end with the process: a provider may not heed its timeout, and an exporter whose collector is
        away retries for ten seconds. A program that was told to stop would then be killed.
        """
        until = time.monotonic() + FLUSH_SECONDS
        flushing = [
            threading.Thread(target=provider.force_flush, args=(int(FLUSH_SECONDS * 1000),), daemon=True)
            for provider in (self.tracer_provider, self.meter_provider)
            if provider is not None
        ]
        for thread in flushing:
            thread.start()
        for thread in flushing:
            thread.join(max(0.0, until - time.monotonic()))


def set_up(environ: Mapping[str, str], *, metrics_port: int | None = None, is_worker: bool = False) -> Exports:
    """Set the process's providers, as far as the environment and `metrics_port` ask for them.

    Args:
        metrics_port: serve metrics to Prometheus there.
        is_worker: export metrics, too; a client has none.

    Raises:
        ConfigurationError: a variable has an unknown value, an exporter is not installed, or metrics cannot be served.
    """
    variables = OtelVariables(environ)
    if metrics_port is not None:
        _check_that_metrics_can_be_served(variables)
    if variables.is_disabled:
        return Exports()
    resource = _resource(environ)
    tracer_provider = _set_up_traces(variables, resource)
    readers = _metric_readers(variables, metrics_port) if is_worker and not has_meter_provider() else []
    if not readers:
        return Exports(tracer_provider)
    meter_provider = MeterProvider(readers, resource, shutdown_on_exit=False)
    metrics.set_meter_provider(meter_provider)
    buffer = MetricBuffer(BUFFERED_UPDATES, MetricBufferDurationFormat.SECONDS)
    runtime = Runtime(telemetry=TelemetryConfig(logging=core_logging(), metrics=buffer, attach_service_name=False))
    return Exports(tracer_provider, meter_provider, buffer, runtime)


def _check_that_metrics_can_be_served(variables: OtelVariables) -> None:
    """A page that stays empty would look like a worker without work."""
    if variables.is_disabled:
        raise ConfigurationError(["--metrics serves nothing while OTEL_SDK_DISABLED is true: remove one of them"])
    if has_meter_provider():
        raise ConfigurationError(
            ["--metrics serves nothing, because your app has set a meter provider: give that one a Prometheus reader"]
        )


def _set_up_traces(variables: OtelVariables, resource: Resource) -> ReplaySafeTracerProvider | None:
    exporters: list[SpanExporter] = []
    for name in variables.exporters(Signal.TRACES):
        match name:
            case "otlp":
                exporters.append(_otlp(variables, Signal.TRACES)())
            case "console":
                from opentelemetry.sdk.trace.export import ConsoleSpanExporter

                exporters.append(ConsoleSpanExporter())
            case _:
                raise variables.unknown_exporter(Signal.TRACES, name)
    if not exporters or not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    provider = create_tracer_provider(resource=resource, shutdown_on_exit=False)
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider


def _metric_readers(variables: OtelVariables, port: int | None) -> list[MetricReader]:
    readers: list[MetricReader] = []
    for name in variables.exporters(Signal.METRICS):
        match name:
            case "otlp":
                readers.append(PeriodicExportingMetricReader(_otlp(variables, Signal.METRICS)()))
            case "console":
                from opentelemetry.sdk.metrics.export import ConsoleMetricExporter

                readers.append(PeriodicExportingMetricReader(ConsoleMetricExporter()))
            case "prometheus":
                pass  # where, `--metrics` says
            case _:
                raise variables.unknown_exporter(Signal.METRICS, name)
    return readers if port is None else [*readers, _prometheus(port)]


def _prometheus(port: int) -> MetricReader:
    with _explaining_what_to_install("--metrics"):
        from opentelemetry.exporter.prometheus import PrometheusMetricReader
        from prometheus_client import start_http_server
    try:
        start_http_server(port)
    except OSError as error:
        raise ConfigurationError([f"metrics port {port}: {error.strerror}; choose another one"]) from error
    return PrometheusMetricReader(scope_info_enabled=False)


def _otlp(variables: OtelVariables, signal: Signal) -> Callable[[], Any]:
    """The exporter class of a signal. It reads its variables itself: endpoint, headers, certificates, timeout."""
    match variables.protocol(signal):
        case "http/protobuf":
            with _explaining_what_to_install("OTLP"):
                if signal is Signal.TRACES:
                    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

                    return OTLPSpanExporter
                from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

                return OTLPMetricExporter
        case other:
            raise ConfigurationError(
                [f"the OTLP protocol {other!r} is not supported: set {variables.protocol_name(signal)}=http/protobuf"]
            )


@contextlib.contextmanager
def _explaining_what_to_install(what: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ConfigurationError([f"{what} needs OpenTelemetry's exporters: pip install 'wakeful[otel]'"]) from error


def _resource(environ: Mapping[str, str]) -> Resource:
    found = Resource.create()
    is_named = SERVICE_NAME in environ.get("OTEL_RESOURCE_ATTRIBUTES", "") or environ.get("OTEL_SERVICE_NAME")
    return found if is_named else found.merge(Resource({SERVICE_NAME: "wakeful"}))
