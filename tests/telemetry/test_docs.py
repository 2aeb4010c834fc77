"""docs/observability.md and the dashboard name what the code has, and nothing else."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry

from wakeful.telemetry import instruments, names
from wakeful.telemetry.instruments import INSTRUMENTS, Instrument
from wakeful.telemetry.metrics import _of_provider

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/observability.md").read_text()
DASHBOARD = json.loads((ROOT / "deploy/grafana/wakeful.json").read_text())

SDK_METRICS = {
    "temporal_activity_schedule_to_start_latency_seconds",
    "temporal_sticky_cache_hit_total",
    "temporal_sticky_cache_size",
    "temporal_worker_task_slots_available",
    "temporal_workflow_task_schedule_to_start_latency_seconds",
}
"""Those of Temporal's SDK on the dashboard; a test of `--metrics` finds them on the page of a worker."""


def table(heading: str) -> list[str]:
    """The first cells of the table in a section of the page."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return [row.split(" | ")[0] for row in rows]


def named_in(cells: list[str]) -> set[str]:
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_the_page_has_every_span() -> None:
    assert {name.split()[0] for name in named_in(table("Spans"))} == set(names.SPAN_NAMES)


def test_the_page_has_every_attribute_and_event() -> None:
    constants = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}
    attributes = {value for value in constants if re.match(r"(gen_ai|wakeful|error)\.", value)}
    only_of_metrics, not_attributes = {names.TOKEN_TYPE}, {*names.EVENT_NAMES, names.BAGGAGE_ORIGIN}
    assert named_in(table("Attributes")) == attributes - only_of_metrics - not_attributes
    assert all(f"`{event}`" in PAGE for event in names.EVENT_NAMES)


def row_of(instrument: Instrument) -> str:
    by = ", ".join(f"`{attribute}`" for attribute in instrument.attributes)
    return f"| `{instrument.name}` | {instrument.kind} | `{instrument.unit}` | {instrument.description} | {by} |"


def test_the_page_has_every_metric() -> None:
    written = PAGE.split("<!-- metrics:")[1].split("-->\n")[1].split("\n<!-- end of metrics")[0]
    head = ["| metric | kind | unit | is | by |", "|---|---|---|---|---|"]
    assert written.strip().splitlines() == [*head, *map(row_of, INSTRUMENTS)]


def test_every_metric_has_a_name_of_its_own_and_known_attributes() -> None:
    assert len({instrument.name for instrument in INSTRUMENTS}) == len(INSTRUMENTS)
    known = {value for value in vars(names).values() if isinstance(value, str)} | set(instruments.ATTRIBUTES)
    assert all(set(instrument.attributes) <= known for instrument in INSTRUMENTS)


def expressions(node: Any) -> Iterator[str]:
    """The queries of a dashboard, wherever they are."""
    if isinstance(node, dict):
        yield from (node[key] for key in ("expr", "query") if isinstance(node.get(key), str))
        for value in node.values():
            yield from expressions(value)
    elif isinstance(node, list):
        for value in node:
            yield from expressions(value)


def prometheus() -> tuple[set[str], set[str]]:
    """The names and the labels of our metrics, as OpenTelemetry's exporter writes them for Prometheus."""
    registry = CollectorRegistry()
    reader = PrometheusMetricReader(scope_info_enabled=False, registry=registry)
    meter = MeterProvider([reader], shutdown_on_exit=False).get_meter("test")
    for instrument in INSTRUMENTS:
        _of_provider(meter, instrument)(1, dict.fromkeys(instrument.attributes, "x"))
    samples = [sample for metric in registry.collect() for sample in metric.samples]
    return {sample.name for sample in samples}, {label for sample in samples for label in sample.labels}


def test_every_metric_and_label_of_the_dashboard_exists() -> None:
    written = " ".join(expressions(DASHBOARD))
    found, labels = prometheus()
    words = set(re.findall(r"\b(?:wakeful|gen_ai|temporal)_\w+", written))
    of_sdk = {re.sub(r"_(bucket|sum|count)$", "", word) for word in words if word.startswith("temporal_")}
    assert of_sdk == SDK_METRICS
    assert {word for word in words if not word.startswith("temporal_")} <= found | labels
    shown = {instrument.name.replace(".", "_") for instrument in INSTRUMENTS}
    assert all(any(word.startswith(name) for word in words) for name in shown)  # it shows all of them
