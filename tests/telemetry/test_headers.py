"""What tracing writes to history: headers, and only if it is on."""

import pytest
from temporalio.api.common.v1 import Payload

from tests.support.app import registry
from tests.support.telemetry import traced_process
from tests.support.traces import TRACER_DATA, Spans, headers_of
from tests.telemetry.conftest import working
from wakeful import Client
from wakeful.connection import EmbeddedServer
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.names import HEADER_RUN, HEADER_TRACE
from wakeful_workflows.run_spans import TraceCarryover


async def test_without_tracing_history_has_no_header_of_it(usual_client: Client, thread_id: str) -> None:
    await usual_client.run("tester", "add", thread_id=thread_id)
    assert headers_of(await usual_client.handle(thread_id).fetch_history()) <= {HEADER_RUN}


async def test_with_tracing_commands_have_the_context_and_a_new_execution_the_open_spans(
    server: EmbeddedServer, thread_id: str
) -> None:
    """Also if the client brings no interceptor along: the worker adds Temporal's own."""
    with traced_process() as exporter:
        async with working(server.client, registry, thread_id, history_budget=HistoryBudget(events=1)) as client:
            await client.run("tester", "add", thread_id=thread_id)
            await Spans(exporter).of_thread(thread_id)
    assert headers_of(await client.handle(thread_id).fetch_history()) - {HEADER_RUN} == {TRACER_DATA, HEADER_TRACE}


@pytest.mark.parametrize(
    "header",
    [
        Payload(),
        Payload(metadata={"encoding": b"binary/encrypted"}, data=b"x"),
        Payload(metadata={"encoding": b"json/plain"}, data=b"{"),
        Payload(metadata={"encoding": b"json/plain"}, data=b'{"run": 1}'),
    ],
    ids=["empty", "encoded", "malformed", "of another release"],
)
def test_open_spans_that_cannot_be_read_are_left_out(header: Payload) -> None:
    """They must fail neither the workflow task nor the run."""
    assert TraceCarryover.load(header) == TraceCarryover()
