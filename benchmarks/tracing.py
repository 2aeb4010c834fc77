"""What tracing costs: the same steps on a worker that traces and on one that does not, interleaved.

Spans go through the batch processor and are encoded for OTLP, and dropped where an exporter would send them: neither a
collector nor the network is measured.
"""

import asyncio
import sys
import time
from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from temporalio.contrib.opentelemetry import create_tracer_provider

from benchmarks import wakeful_agent
from benchmarks.environment import Environment, WakefulSide, child_process
from benchmarks.plan import KB, Plan
from benchmarks.results import Results, TracingCost
from benchmarks.sampling import cpu_seconds, progress
from wakeful.cli.process import run_and_leave
from wakeful.client.client import Client
from wakeful.connection import Address, connect
from wakeful.worker import WorkerSettings, running_worker

TRACED = "traced"
"""The task queue of the worker that traces; its name is as long as that of the other one."""


class Dropping(SpanExporter):
    """Encodes spans, and drops them."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        encode_spans(spans).SerializeToString()
        return SpanExportResult.SUCCESS


async def serve(address: str) -> None:
    """The worker that traces, until its standard input closes."""
    provider = create_tracer_provider()
    provider.add_span_processor(BatchSpanProcessor(Dropping()))
    trace.set_tracer_provider(provider)
    client = await connect(Address(address=address))
    async with running_worker(client, wakeful_agent.registry, WorkerSettings(task_queue=TRACED)):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def measure_tracing(env: Environment, plan: Plan, results: Results) -> None:
    """Time and worker CPU per step, with tracing and without it."""
    untraced = next(side for side in env.sides if isinstance(side, WakefulSide))
    found = results.tracing = TracingCost(steps=plan.step_steps)
    async with child_process("benchmarks.tracing", env.address) as (pid, _output):
        traced = WakefulSide(Client(env.client, task_queue=TRACED), pid)
        await env.run(traced, steps=3, size=100)
        for repeat in range(plan.repeat):
            progress(f"tracing: {plan.step_steps} steps, {repeat + 1} of {plan.repeat}")
            pair = ((untraced, found.off, found.off_cpu), (traced, found.on, found.on_cpu))
            for side, times, cpus in pair if repeat % 2 else pair[::-1]:
                took, cpu = await _per_step(env, side, plan.step_steps)
                times.append(took)
                cpus.append(cpu)


async def _per_step(env: Environment, side: WakefulSide, steps: int) -> tuple[float, float]:
    """Milliseconds of a step, and of its CPU in the worker."""
    before = time.perf_counter(), cpu_seconds(side.pid) or 0.0
    await env.run(side, steps=steps, size=KB)
    after = time.perf_counter(), cpu_seconds(side.pid) or 0.0
    took, cpu = ((end - start) * 1000 / steps for start, end in zip(before, after, strict=True))
    return round(took, 4), round(cpu, 4)


if __name__ == "__main__":
    run_and_leave(lambda: asyncio.run(serve(*sys.argv[1:])), name="benchmarks.tracing")
