"""The metrics of Temporal's SDK among those of the process's meter provider.

Not the SDK's own `MetricsExporter` (1.35): it recognises attributes by `id()`, which Python reuses once an object is
gone, and so counts requests under the names of others.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from opentelemetry.metrics import Meter, MeterProvider
from temporalio.runtime import (
    BUFFERED_METRIC_KIND_COUNTER,
    BUFFERED_METRIC_KIND_HISTOGRAM,
    BufferedMetric,
    MetricBuffer,
)

from wakeful.telemetry.instruments import SHORT

Record = Callable[..., None]

DRAIN_SECONDS = 1.0


@contextlib.asynccontextmanager
async def forwarding_sdk_metrics(buffer: MetricBuffer, provider: MeterProvider) -> AsyncIterator[None]:
    """Forward what Temporal's runtime measures while the body runs."""
    forward = SdkMetrics(buffer, provider)

    async def drain() -> None:
        while True:
            forward.drain()
            await asyncio.sleep(DRAIN_SECONDS)

    task = asyncio.create_task(drain())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        forward.drain()


class SdkMetrics:
    """Moves updates from the buffer of a runtime to instruments of the same names."""

    def __init__(self, buffer: MetricBuffer, provider: MeterProvider) -> None:
        self._buffer = buffer
        self._meter = provider.get_meter("temporalio")
        self._records: dict[str, Record] = {}

    def drain(self) -> None:
        """Move what there is."""
        for update in self._buffer.retrieve_updates():
            metric = update.metric
            if metric.name not in self._records:
                self._records[metric.name] = _instrument(self._meter, metric)
            self._records[metric.name](update.value, dict(update.attributes))


def _instrument(meter: Meter, metric: BufferedMetric) -> Record:
    unit, description = metric.unit or "", metric.description or ""
    if metric.kind == BUFFERED_METRIC_KIND_COUNTER:
        return meter.create_counter(metric.name, unit, description).add
    if metric.kind == BUFFERED_METRIC_KIND_HISTOGRAM:
        buckets = list(SHORT) if unit == "s" else None
        return meter.create_histogram(
            metric.name, unit, description, explicit_bucket_boundaries_advisory=buckets
        ).record
    return meter.create_gauge(metric.name, unit, description).set
