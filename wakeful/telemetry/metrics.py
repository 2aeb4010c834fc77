"""Record metrics: through the process's OpenTelemetry meter provider, or, without one, through Temporal's runtime.

Temporal's runtime may have an exporter of the user's own, such as its Prometheus endpoint. It takes no dots in names.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import assert_never

from opentelemetry import metrics as otel
from opentelemetry.metrics import _internal as otel_internal
from temporalio.common import MetricMeter

from wakeful.telemetry import names
from wakeful.telemetry.instruments import INSTRUMENTS, Instrument

Labels = Mapping[str, str]
Record = Callable[[float, Labels], None]


class Metrics:
    """Wakeful's instruments in this process."""

    def __init__(self, create: Callable[[Instrument], Record]) -> None:
        self._records = {instrument: create(instrument) for instrument in INSTRUMENTS}

    @classmethod
    def of_process(cls, runtime: MetricMeter) -> "Metrics | None":
        """Those of the provider that this process has set, or of Temporal's runtime; None if there is neither."""
        if has_meter_provider():
            meter = otel.get_meter_provider().get_meter(names.SCOPE, version("wakeful"))
            return cls(lambda instrument: _of_provider(meter, instrument))
        if runtime is MetricMeter.noop:
            return None
        return cls(lambda instrument: _of_runtime(runtime, instrument))

    def record(self, instrument: Instrument, value: float, labels: Mapping[str, str | None]) -> None:
        """Count, observe or set; labels without a value are left out."""
        self._records[instrument](value, {name: text for name, text in labels.items() if text is not None})

    def count(self, instrument: Instrument, labels: Mapping[str, str | None]) -> None:
        self.record(instrument, 1, labels)


def has_meter_provider() -> bool:
    """Whether this process has set one."""
    return not isinstance(otel.get_meter_provider(), otel_internal._ProxyMeterProvider | otel.NoOpMeterProvider)


def _of_provider(meter: otel.Meter, instrument: Instrument) -> Record:
    name, unit, description = instrument.name, instrument.unit, instrument.description
    match instrument.kind:
        case "counter":
            return meter.create_counter(name, unit, description).add
        case "histogram":
            buckets = list(instrument.buckets)
            return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=buckets).record
        case "gauge":
            return meter.create_gauge(name, unit, description).set
        case _:
            assert_never(instrument.kind)


def _of_runtime(meter: MetricMeter, instrument: Instrument) -> Record:
    name, description = _underscored(instrument.name), instrument.description
    match instrument.kind:
        case "counter":
            counter = meter.create_counter(name, description)
            return lambda value, labels: counter.add(int(value), _runtime_labels(labels))
        case "histogram":
            histogram = meter.create_histogram_float(name, description)
            return lambda value, labels: histogram.record(value, _runtime_labels(labels))
        case "gauge":
            gauge = meter.create_gauge_float(name, description)
            return lambda value, labels: gauge.set(value, _runtime_labels(labels))
        case _:
            assert_never(instrument.kind)


def _runtime_labels(labels: Labels) -> dict[str, str | int | float | bool]:
    return {_underscored(name): text for name, text in labels.items()}


def _underscored(name: str) -> str:
    return name.replace(".", "_")
