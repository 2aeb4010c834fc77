"""A tracer provider and an interceptor of the user's own stay in force."""

from opentelemetry import trace
from temporalio.client import Client as TemporalClient
from temporalio.contrib.opentelemetry import TracingInterceptor

from tests.support.app import registry
from tests.support.telemetry import plainly_traced_process
from tests.support.traces import Spans, forest
from tests.telemetry.conftest import working
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
