"""Our programs export by the standard variables, without code."""

import asyncio
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider

from tests.support.otlp import Collector, collector
from tests.support.processes import wakeful, worker_process
from tests.support.telemetry import measured_process
from tests.support.waiting import BOUND_SECONDS
from tests.telemetry.test_docs import SDK_METRICS
from wakeful.connection import EmbeddedServer, free_port
from wakeful.contract.errors import ConfigurationError
from wakeful.telemetry import setup
from wakeful.telemetry.otel_variables import OtelVariables, Signal
from wakeful.telemetry.setup import Exports, set_up


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        while not met():
            await asyncio.sleep(0.05)


async def test_a_worker_and_a_command_export_one_trace_and_a_worker_serves_its_metrics(
    server: EmbeddedServer, thread_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-841: with those of Temporal's SDK, to Prometheus and over OTLP."""
    port = free_port()
    async with collector() as collected:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collected.endpoint)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "desk")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "300")
        async with worker_process(server.address, thread_id, tmp_path / "journal", "--metrics", str(port)):
            ran = await wakeful("run", "tester", "add", "--task-queue", thread_id, address=server.address)
            assert ran.code == 0, ran.err
            await until(lambda: any(span.name == "invoke_agent tester" for _, span in collected.spans()))
            await until(lambda: {"temporal_sticky_cache_hit", "wakeful.runs.ended"} <= collected.metric_names())
            page = await asyncio.to_thread(_page, port)
    _check_trace(collected)
    assert 'wakeful_runs_ended_total{gen_ai_agent_name="tester",wakeful_run_outcome="natural"} 1.0' in page
    assert [name for name in sorted(SDK_METRICS) if f"# TYPE {name.removesuffix('_total')}" not in page] == []


def _page(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        return str(page.read().decode())


def _check_trace(collected: Collector) -> None:
    spans = [span for _, span in collected.spans()]
    ids = {span.span_id for span in spans}
    assert {service for service, _ in collected.spans()} == {"desk"}
    assert len({span.trace_id for span in spans}) == 1
    assert [span.name for span in spans if span.parent_span_id not in ids] == ["start tester"]
    assert sorted(span.name for span in spans) == sorted(
        ["start tester", "invoke_agent tester", "execute_tool add", *["step", "chat default", "attempt"] * 2]
    )


@pytest.mark.parametrize(
    ("environ", "traces", "metrics"),
    [
        ({}, [], []),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, ["otlp"], ["otlp"]),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, ["otlp"], []),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_METRICS_EXPORTER": "none"}, ["otlp"], []),
        ({"OTEL_TRACES_EXPORTER": "otlp,console"}, ["otlp", "console"], []),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, [], []),
    ],
)
def test_the_variables_say_what_is_exported(environ: dict[str, str], traces: list[str], metrics: list[str]) -> None:
    variables = OtelVariables(environ)
    assert (variables.exporters(Signal.TRACES), variables.exporters(Signal.METRICS)) == (traces, metrics)


def test_without_variables_nothing_is_set_up() -> None:
    assert set_up({}, is_worker=True) == Exports()


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER names 'zipkin', which is not known"),
        ({"OTEL_METRICS_EXPORTER": "statsd"}, "OTEL_METRICS_EXPORTER names 'statsd', which is not known"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "'grpc' is not supported: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
        ),
    ],
)
def test_a_variable_that_cannot_be_followed_is_an_error(environ: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        set_up(environ, is_worker=True)


def test_a_missing_exporter_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'wakeful\[otel\]'"):
        set_up({"OTEL_TRACES_EXPORTER": "otlp"})


def test_a_port_that_is_in_use_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        with pytest.raises(ConfigurationError, match="choose another one"):
            set_up({}, metrics_port=taken.getsockname()[1], is_worker=True)


def test_metrics_of_a_disabled_sdk_are_an_error_instead_of_an_empty_page() -> None:
    with pytest.raises(ConfigurationError, match="OTEL_SDK_DISABLED is true: remove one of them"):
        set_up({"OTEL_SDK_DISABLED": "true"}, metrics_port=free_port(), is_worker=True)


def test_a_meter_provider_of_the_app_is_left_as_it_is() -> None:
    """Its metrics are exported by its own readers; a page of ours would stay empty."""
    with measured_process():
        provider = metrics.get_meter_provider()
        assert set_up({"OTEL_METRICS_EXPORTER": "otlp"}, is_worker=True) == Exports()
        assert metrics.get_meter_provider() is provider
        with pytest.raises(ConfigurationError, match="your app has set a meter provider"):
            set_up({}, metrics_port=free_port(), is_worker=True)


def test_a_program_that_ends_does_not_wait_for_a_collector_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenTelemetry's own timeout does not bound the retries of an exporter."""
    released = threading.Event()

    class Away(MeterProvider):
        def force_flush(self, timeout_millis: float = 0) -> bool:
            return released.wait(BOUND_SECONDS)

    monkeypatch.setattr(setup, "FLUSH_SECONDS", 0.01)
    began = time.monotonic()
    Exports(meter_provider=Away(shutdown_on_exit=False)).flush()
    assert time.monotonic() - began < BOUND_SECONDS
    released.set()
