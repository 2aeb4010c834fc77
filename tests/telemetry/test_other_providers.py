"""A tracer provider and an interceptor of the user's own stay in force."""

import pytest
from opentelemetry import trace
from temporalio.client import Client as TemporalClient
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin, TracingInterceptor
from temporalio.worker import WorkerConfig

from tests.support.app import registry
from tests.support.telemetry import plainly_traced_process, traced_process
from tests.support.traces import Spans, forest
from tests.telemetry.conftest import working
from wakeful import WakefulPlugin
from wakeful.connection import EmbeddedServer


async def test_temporals_older_interceptor_carries_the_trace_too(server: EmbeddedServer, thread_id: str) -> None:
    """With a provider that is not replay-safe; its own spans are where it makes them."""
    with plainly_traced_process() as exporter:
        converter = server.client.data_converter
        temporal = await TemporalClient.connect(
            server.address, data_converter=converter, interceptors=[TracingInterceptor()]
        )
        async with working(temporal, registry, thread_id) as client:
            with trace.get_tracer("caller").start_as_current_span("handle request"):
                await client.run("tester", "add", thread_id=thread_id)
            found = await Spans(exporter).of_thread(thread_id)
    ours = [span for span in found if ":" not in span.name]
    assert len(ours) == 10
    assert len(forest(found)) == 1


async def test_a_worker_of_the_user_s_own_says_if_nothing_connects_its_spans(
    server: EmbeddedServer, thread_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    """`WakefulPlugin` adds no interceptor: those of such a worker are the user's."""

    def warnings(temporal: TemporalClient, *plugins: OpenTelemetryPlugin) -> int:
        caplog.clear()
        WakefulPlugin(registry).configure_worker(WorkerConfig(client=temporal, task_queue=thread_id, plugins=plugins))
        return sum("are not connected" in record.getMessage() for record in caplog.records)

    with traced_process():
        converter, plugin = server.client.data_converter, OpenTelemetryPlugin()
        traced = await TemporalClient.connect(server.address, data_converter=converter, plugins=[plugin])
        assert (warnings(server.client), warnings(server.client, plugin), warnings(traced)) == (1, 0, 0)
    assert warnings(server.client) == 0
