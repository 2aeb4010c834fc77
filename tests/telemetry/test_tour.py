"""One run with everything that can tear a trace apart, in our own collector and in software that is not ours."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from temporalio.client import Client as TemporalClient
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from tests.support.otlp import collector
from tests.support.processes import ROOT
from tests.support.telemetry import exporting_process
from tests.support.tour import DAY, JOURNAL, QUEUE, THREAD
from wakeful import Client
from wakeful.connection import free_port, temporal_command
from wakeful.contract.decisions import SuspensionTicket
from wakeful.contract.errors import NoAnswer
from wakeful.telemetry import names

BOUND_SECONDS = 600
"""Phoenix imports half of PyPI before it answers."""

PHOENIX = os.environ.get("WAKEFUL_PHOENIX") or shutil.which("phoenix")
"""The command of PyPI's `arize-phoenix`, which wants an environment of its own."""

COMPLAINT = "POST /complaints"
ASSISTANT = "invoke_agent assistant"


@dataclass(frozen=True)
class Span:
    """A span, as a program shows it."""

    trace_id: str
    id: str
    parent: str | None
    name: str
    start: float
    end: float
    attributes: dict[str, Any]


Tree = tuple[str, list["Tree"]]
Read = Callable[[], Awaitable[list[Span]]]


def of_complaint(spans: list[Span]) -> list[Span]:
    """The spans of the trace that began with the complaint."""
    traces = {span.trace_id for span in spans if span.name == COMPLAINT}
    return sorted((span for span in spans if span.trace_id in traces), key=lambda span: span.start)


async def until(read: Read, met: Callable[[list[Span]], bool]) -> list[Span]:
    async with asyncio.timeout(BOUND_SECONDS):
        while not met(found := of_complaint(await read())):
            await asyncio.sleep(0.2)
    return found


@contextlib.asynccontextmanager
async def worker(address: str, environ: dict[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.tour", address),
        cwd=ROOT,
        env={**os.environ, **environ},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(BOUND_SECONDS):
            assert await process.stdout.readline() == b"ready\n"
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


@contextlib.asynccontextmanager
async def skipping_server() -> AsyncIterator[TemporalClient]:
    """A Temporal server that skips the time in which nothing happens in a run that this client starts."""
    environment = await WorkflowEnvironment.start_time_skipping_v2(
        dev_server_existing_path=temporal_command(),
        dev_server_extra_args=["--dynamic-config-value", "frontend.WorkflowTimeSkippingEnabled=true"],
        dev_server_log_level="never",
        data_converter=pydantic_data_converter,
        plugins=[OpenTelemetryPlugin()],
    )
    async with environment:
        yield environment.client


async def tour(endpoint: str, journal: Path, read: Read) -> list[Span]:
    """Run it, from the handler of a request: its first worker is killed, another one continues."""
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
        JOURNAL: str(journal),
    }
    with exporting_process(OTLPSpanExporter(f"{endpoint}/v1/traces")):
        async with skipping_server() as temporal, Client(temporal, task_queue=QUEUE) as client:
            address = temporal.service_client.config.target_host
            async with worker(address, environ) as first:
                with trace.get_tracer("shop").start_as_current_span(COMPLAINT):
                    await client.start("assistant", "My lamp is broken. I want my money back.", thread_id=THREAD)
                await until(read, lambda found: any(span.name == "chat small" for span in found))
                await until(read, lambda _: journal.exists())
                first.send_signal(signal.SIGKILL)
                await first.wait()
            async with worker(address, environ):
                ticket = await until_refund(client)
                with trace.get_tracer("shop").start_as_current_span("POST /approvals"):
                    await client.decide(THREAD, ticket.suspension.id, "resume")
                assert (await client.result(THREAD)).response == "We have refunded your lamp."
                return await until(read, has_ended)


async def until_refund(client: Client) -> SuspensionTicket:
    """The question that a person has to answer."""
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            with contextlib.suppress(NoAnswer):  # a busy machine
                for ticket in (await client.status(THREAD)).pending:
                    if ticket.pending.name == "refund":
                        return ticket
            await asyncio.sleep(0.2)


def has_ended(found: list[Span]) -> bool:
    return any(names.OUTCOME in span.attributes for span in found if span.name == ASSISTANT)


def check(found: list[Span]) -> None:
    """One root, everything below what caused it, with its true duration, and nothing twice."""
    by_id = {span.id: span for span in found}
    assert len(by_id) == len(found)
    assert [span.name for span in found if span.parent not in by_id] == [COMPLAINT]
    ((_, ((started, parts),)),) = forest(found, None)
    assert started == "start assistant"
    assert len(parts) > 1
    assert {name for name, _ in parts} == {ASSISTANT}
    steps = [below for _, inner in parts for name, below in inner if name == "step"]
    attempt: Tree = ("attempt", [])
    assert steps[0] == [("chat small", [attempt] * 3), ("execute_tool look_up_order", [])]
    assert all({name for name, _ in step[0][1]} == {"attempt"} for step in steps)
    research: Tree = ("invoke_agent researcher", [("step", [("chat research", [attempt])])])
    watch: Tree = ("invoke_agent watcher", [("step", [("chat watch", [attempt])])])
    assert steps[1][1:] == [("execute_tool agent_run_researcher", [research])]
    assert steps[2][1:] == [("execute_tool spawn_agent", [watch])]
    for step, tool in ((3, "ask_customer"), (4, "refund")):
        executed: Tree = (f"execute_tool {tool}", [])
        assert steps[step][1:] == [executed, (f"await_decision {tool}", []), executed]
    by_name = {span.name: span for span in found}
    assert by_name["execute_tool look_up_order"].attributes[names.ATTEMPT] == 2
    waited = by_name["await_decision ask_customer"]
    assert DAY <= waited.end - waited.start < DAY + 120
    last = by_name[ASSISTANT]
    assert last.attributes[names.RUN_DURATION] > DAY
    for span in found:
        parent = by_id.get(span.parent or "")
        is_within = parent is None or (parent.start <= span.start and span.end <= parent.end)
        # The caller does not wait; a step may end in the next execution; a background agent outlives its call.
        assert is_within or span.name in (ASSISTANT, "start assistant", "step", "invoke_agent watcher"), span


def forest(spans: list[Span], parent: str | None) -> list[Tree]:
    return [(span.name, forest(spans, span.id)) for span in spans if span.parent == parent]


@pytest.mark.integration
async def test_one_run_is_one_trace(tmp_path: Path) -> None:
    """With a delegate, a background agent, a tool retry, a fallback, a day's wait, continue-as-new and kill -9."""
    async with collector() as collected:

        async def read() -> list[Span]:
            return [_of_otlp(span) for _, span in collected.spans()]

        check(await tour(collected.endpoint, tmp_path / "journal", read))


def _of_otlp(span: Any) -> Span:
    attributes = {pair.key: _value(pair.value) for pair in span.attributes}
    parent = span.parent_span_id.hex() or None
    times = span.start_time_unix_nano / 1e9, span.end_time_unix_nano / 1e9
    return Span(span.trace_id.hex(), span.span_id.hex(), parent, span.name, *times, attributes)


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind else None


@contextlib.asynccontextmanager
async def phoenix(folder: Path) -> AsyncIterator[str]:
    """Phoenix on a free port, with a database of its own."""
    port = free_port()
    environ = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    assert PHOENIX is not None
    process = await asyncio.create_subprocess_exec(
        *(PHOENIX, "serve"),
        env={**os.environ, **environ},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,  # it looks for things on the internet, and says so
    )
    url = f"http://127.0.0.1:{port}"
    try:
        async with asyncio.timeout(BOUND_SECONDS):
            while not await asyncio.to_thread(_answers, f"{url}/healthz"):
                await asyncio.sleep(0.5)
        yield url
    finally:
        process.kill()
        await process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def in_phoenix(url: str) -> Read:
    """Reads every span that Phoenix has."""

    def page() -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"{url}/v1/projects/default/spans?limit=1000") as answer:
            spans: list[dict[str, Any]] = json.load(answer)["data"]
            return spans

    async def read() -> list[Span]:
        try:
            return [_of_phoenix(span) for span in await asyncio.to_thread(page)]
        except urllib.error.HTTPError:  # the project is made with its first span
            return []

    return read


def _of_phoenix(span: dict[str, Any]) -> Span:
    context = span["context"]
    start, end = (datetime.fromisoformat(span[key]).timestamp() for key in ("start_time", "end_time"))
    ids = context["trace_id"], context["span_id"], span["parent_id"]
    return Span(*ids, span["name"], start, end, span["attributes"])


@pytest.mark.integration
@pytest.mark.skipif(
    PHOENIX is None,
    reason="needs Arize Phoenix: pip install arize-phoenix in an environment of its own, and set WAKEFUL_PHOENIX",
)
async def test_one_run_is_one_trace_in_phoenix(tmp_path: Path) -> None:
    async with phoenix(tmp_path) as url:
        check(await tour(url, tmp_path / "journal", in_phoenix(url)))
