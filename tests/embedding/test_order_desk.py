"""The order desk of `examples/order_desk`: own workflow, worker, codec, tracing, tenants, pool and deadline."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowHandle
from temporalio.contrib.opentelemetry import TracingInterceptor
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer

from examples.order_desk.agents import registry
from examples.order_desk.orders import DEADLINE, Complaint, OrderDesk
from examples.order_desk.sealed import ENCODING
from examples.order_desk.worker import TASK_QUEUE, connect, data_converter, worker_of
from tests.support.processes import ROOT
from wakeful import Client, PendingDecision, WakefulPlugin
from wakeful.connection import EmbeddedServer, temporal_command

BOUND_SECONDS = 60
BROKEN = "it arrived broken"


@pytest.fixture(autouse=True)
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDER_DESK_DATABASE", str(tmp_path / "orders.sqlite"))


@asynccontextmanager
async def desk(server: EmbeddedServer, queue: str) -> AsyncIterator[tuple[Client, InMemorySpanExporter]]:
    """The order desk is open: its client, and what it traces."""
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    temporal = await TemporalClient.connect(
        server.address,
        data_converter=data_converter(),
        interceptors=[TracingInterceptor(provider.get_tracer("order desk"))],
    )
    async with worker_of(temporal, queue), Client(temporal, task_queue=queue) as client:
        yield client, spans


async def complain(client: Client, id: str, tenant: str, order_id: int) -> WorkflowHandle[Any, str]:
    complaint = Complaint(tenant=tenant, order_id=order_id, customer="ann", text="it is broken")
    return await client.temporal.start_workflow(OrderDesk.run, complaint, id=id, task_queue=client.task_queue)


async def asked(client: Client, workflow_id: str) -> PendingDecision:
    """What the agent of a workflow asks a person."""
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            async for pending in client.inbox():
                if pending.thread_id.startswith(f"{workflow_id}/"):
                    return pending
            await asyncio.sleep(0.05)


async def test_each_tenant_has_its_own_rules(server: EmbeddedServer, thread_id: str) -> None:
    """And every payload is sealed, and the workflow, its agent and their activities are one trace."""
    async with desk(server, thread_id) as (client, spans):
        acme = await complain(client, f"{thread_id}-acme", "acme", 1)
        assert await acme.result() == f"to ann: we refund 30: {BROKEN}"
        globex = await complain(client, f"{thread_id}-globex", "globex", 1)
        pending = await asked(client, globex.id)
        assert pending.message == "globex refunds up to 0 without asking: refund 30?"
        await client.decide(pending.thread_id, pending.call_id, "resume")
        assert await globex.result() == f"to ann: we refund 30: {BROKEN}"
        status = await client.status(pending.thread_id)
        assert (status.identity.tenant, status.identity.user) == ("globex", "ann")
        assert await encodings(client, pending.thread_id) == {ENCODING}
    traces: dict[int, set[str]] = {}
    for span in spans.get_finished_spans():
        assert span.context is not None
        traces.setdefault(span.context.trace_id, set()).add(span.name)
    of_orders = [names for names in traces.values() if "StartWorkflow:OrderDesk" in names]
    assert len(of_orders) == 2
    for names in of_orders:
        assert {"RunWorkflow:OrderDesk", "RunWorkflow:AgentRun", "RunActivity:refund", "RunActivity:write_to"} <= names


async def encodings(client: Client, thread_id: str) -> set[bytes]:
    """The encodings of the payloads of inputs and results in a thread's history."""
    history = await client.handle(thread_id).fetch_history()
    started = history.events[0].workflow_execution_started_event_attributes.input.payloads
    results = [
        payload
        for event in history.events
        for payload in event.activity_task_completed_event_attributes.result.payloads
    ]
    return {payload.metadata["encoding"] for payload in (*started, *results)}


async def test_a_question_that_no_person_answers_is_denied_after_two_days(thread_id: str) -> None:
    environment = await WorkflowEnvironment.start_time_skipping_v2(
        dev_server_existing_path=temporal_command(),
        dev_server_extra_args=["--dynamic-config-value", "frontend.WorkflowTimeSkippingEnabled=true"],
        dev_server_log_level="never",
        data_converter=data_converter(),
    )
    temporal = environment.client
    async with environment, worker_of(temporal), Client(temporal, task_queue=TASK_QUEUE) as client:
        workflow = await complain(client, thread_id, "globex", 1)
        async with asyncio.timeout(BOUND_SECONDS):
            answer = await workflow.result()
        [agent] = [each.id async for each in temporal.list_workflows("WorkflowType = 'AgentRun'")]
        events = (await client.handle(agent).fetch_history()).events
    assert answer == "to ann: we refund 0: no person has agreed to it within two days"
    assert events[-1].event_time.ToDatetime() - events[0].event_time.ToDatetime() >= DEADLINE


@pytest.mark.integration
async def test_a_killed_worker_loses_nothing_and_every_history_replays(server: EmbeddedServer, thread_id: str) -> None:
    temporal = await connect(server.address)
    async with Client(temporal, task_queue=TASK_QUEUE) as client:
        async with worker_process(server.address) as worker:
            workflow = await complain(client, thread_id, "acme", 2)
            pending = await asked(client, workflow.id)
            worker.send_signal(signal.SIGKILL)
            await worker.wait()
        await client.decide(pending.thread_id, pending.call_id, "resume")
        async with worker_process(server.address):
            async with asyncio.timeout(BOUND_SECONDS):
                assert await workflow.result() == f"to ann: we refund 400: {BROKEN}"
        replayer = Replayer(workflows=[OrderDesk], plugins=[WakefulPlugin(registry)], data_converter=data_converter())
        for id in (workflow.id, pending.thread_id):
            await replayer.replay_workflow(await client.handle(id).fetch_history())


@asynccontextmanager
async def worker_process(address: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The company's worker in a process of its own, which has said that it is open."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "examples.order_desk.worker"),
        cwd=ROOT,
        env={**os.environ, "TEMPORAL_ADDRESS": address},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(BOUND_SECONDS):
            assert "open" in (await process.stdout.readline()).decode()
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
