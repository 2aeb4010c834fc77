"""An API key that a provider repeats is in no history, log, error, event or trace."""

import logging
from collections.abc import AsyncIterator, Iterator

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client as TemporalClient

from tests.support.fake_provider.script import Answer, ErrorEvent, Inject, Raw, Reply, Status
from tests.support.fake_provider.server import FakeProvider
from tests.support.provider_app import CANARY, registry_for
from tests.support.telemetry import traced_process
from wakeful.client.client import Client
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.worker import WorkerSettings, running_worker

LEAKS: dict[str, tuple[Reply, ...]] = {
    "in an error body": (Status(401, message=f"the key {CANARY} is not known"),),
    "in a retried error": (Status(500, message=f"who is {CANARY}?"),) * 3,
    "in a page": (Raw(f"<html>{CANARY}</html>".encode()),) * 3,
    "in an error event": (Answer("Well", faults=(ErrorEvent(1, "server", f"no {CANARY}"),)),) * 3,
    "in garbage": (Answer("Well", faults=(Inject(1, f'data: {{"{CANARY}\n\n'.encode()),)),) * 3,
    "in a header": (Status(404, headers={"x-request-id": CANARY, "request-id": CANARY}),),
    "nowhere": (Answer("All is well."),),
}


@pytest.fixture(scope="module")
def spans() -> Iterator[InMemorySpanExporter]:
    with traced_process() as exporter:
        yield exporter


@pytest.fixture(scope="module")
async def client(temporal: TemporalClient, fake: FakeProvider, spans: InMemorySpanExporter) -> AsyncIterator[Client]:
    """The client of a worker that is traced."""
    settings = WorkerSettings(task_queue="secrets")
    async with (
        running_worker(temporal, registry_for(fake.port), settings),
        Client(temporal, task_queue="secrets") as client,
    ):
        yield client


@pytest.mark.parametrize("replies", LEAKS.values(), ids=LEAKS.keys())
async def test_the_key_is_nowhere(
    client: Client,
    provider: FakeProvider,
    wire: str,
    replies: tuple[Reply, ...],
    thread_id: str,
    caplog: pytest.LogCaptureFixture,
    spans: InMemorySpanExporter,
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.INFO, "httpcore")  # its debug log prints whatever headers a server sends
    provider.will(*replies)
    overrides = InferenceOverrides(upstream_model=thread_id)
    result = await client.run(wire, "Tell me.", thread_id=thread_id, overrides=overrides)
    assert any(CANARY in str(value) for value in provider.asked[0].headers.values())  # it was used
    history = await client.handle(thread_id).fetch_history()
    events = [record.model_dump_json() async for record in client.watch(thread_id)]
    traced = [span.to_json() for span in spans.get_finished_spans()]
    assert any(f"chat {thread_id}" in span for span in traced)
    for text in (result.model_dump_json(), history.to_json(), caplog.text, *events, *traced):
        assert CANARY not in text
