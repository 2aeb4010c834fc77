"""Collected metrics, as a test compares them."""

from collections.abc import Iterator

from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint

from wakeful.telemetry.instruments import Instrument

Point = HistogramDataPoint | NumberDataPoint


class Measured:
    """What a process has measured since this was made."""

    def __init__(self, reader: InMemoryMetricReader) -> None:
        self._reader = reader
        self._before = self._all()

    def values(self, instrument: Instrument, *labels: str) -> dict[tuple[str, ...], float]:
        """The increase of a counter, or of a histogram's sum, by some of its labels; without those that are zero."""
        return self._increase(instrument, labels, 0)

    def counts(self, instrument: Instrument, *labels: str) -> dict[tuple[str, ...], float]:
        """How often a histogram was recorded."""
        return self._increase(instrument, labels, 1)

    def gauge(self, instrument: Instrument, label: str) -> float | None:
        """The value of a gauge, by one of its labels' values."""
        for (name, labels), values in self._all().items():
            if name == instrument.name and label in dict(labels).values():
                return values[0]
        return None

    def _increase(self, instrument: Instrument, labels: tuple[str, ...], which: int) -> dict[tuple[str, ...], float]:
        found: dict[tuple[str, ...], float] = {}
        for (name, attributes), values in self._all().items():
            if name == instrument.name:
                known = dict(attributes)
                before = self._before.get((name, attributes), (0.0, 0.0))[which]
                key = tuple(known.get(label, "") for label in labels)
                found[key] = found.get(key, 0) + values[which] - before
        return {key: value for key, value in found.items() if value}

    def _all(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], tuple[float, float]]:
        return dict(self._points())

    def _points(self) -> Iterator[tuple[tuple[str, tuple[tuple[str, str], ...]], tuple[float, float]]]:
        data = self._reader.get_metrics_data()
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        labels = tuple(sorted((name, str(value)) for name, value in (point.attributes or {}).items()))
                        yield (metric.name, labels), _value(point)


def _value(point: object) -> tuple[float, float]:
    if isinstance(point, HistogramDataPoint):
        return point.sum, point.count
    assert isinstance(point, NumberDataPoint)
    return point.value, 1
