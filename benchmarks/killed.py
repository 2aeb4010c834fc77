"""How soon runs that make steps continue when their worker is killed, and what that costs a worker under full load.

`python -m benchmarks.killed [SECONDS …]` measures both for each heartbeat timeout, of model calls and of tool calls;
without one, with the defaults. A short timeout continues a run early; too short a one takes a busy worker for a lost
one, and repeats a model call that is paid for twice.
"""

import argparse
import asyncio
import contextlib
import logging
import math
import multiprocessing
import os
import random
import signal
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

from temporalio.api.enums.v1 import EventType, TimeoutType
from temporalio.api.history.v1 import ActivityTaskStartedEventAttributes, HistoryEvent
from temporalio.client import Client as TemporalClient

from benchmarks.environment import child_process, until
from benchmarks.sampling import progress
from wakeful import Agent, ModelRequest, ModelResponse, Registry, StopReason, ToolCall, tool
from wakeful.cli.process import run_and_leave
from wakeful.client.client import Client
from wakeful.connection import Address, connect, embedded_server
from wakeful.contract.names import ACTIVITY_INFER
from wakeful.worker import WorkerSettings, running_worker

ENDLESS = 10_000
TOOL_SECONDS = 0.2
POLL_SECONDS = 0.5
DEFAULT = "default"


@dataclass(frozen=True)
class Pace:
    """How many steps a run makes, and how long each model call takes."""

    steps: int
    model_seconds: float

    def __str__(self) -> str:
        return f"{self.steps} {self.model_seconds}"


STEPPING = Pace(ENDLESS, 1.5)
"""Of the runs whose worker is killed: most of the time, each has a model call in progress."""
LONG = Pace(2, 20.0)
"""Of the runs under load: a model call lasts longer than any heartbeat timeout that is worth a try, but 30 s."""
CHURNING = Pace(ENDLESS, 0.02)
"""Of the runs that make the load."""


class Paced:
    """A model that takes as long as the prompt says."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        steps, seconds = request.messages[0].text.split()
        await asyncio.sleep(float(seconds))
        done = len(request.messages) // 2
        if done >= int(steps):
            return ModelResponse(model=request.model, text="done")
        call = ToolCall(id=f"call-{done}", name="look", arguments={})
        return ModelResponse(model=request.model, tool_calls=(call,), stop_reason=StopReason.TOOL_USE)


async def look() -> str:
    """Take a moment."""
    await asyncio.sleep(TOOL_SECONDS)
    return "seen"


def registry_for(heartbeat: str) -> Registry:
    if heartbeat == DEFAULT:
        agent = Agent(id="a", tools=[tool(read_only=True)(look)], max_rounds=0)
    else:
        seconds = float(heartbeat)
        looking = tool(read_only=True, heartbeat_timeout=seconds)(look)
        agent = Agent(id="a", tools=[looking], max_rounds=0, inference_heartbeat_timeout=seconds)
    return Registry(agents=[agent], models={"default": Paced()})


async def serve(address: str, queue: str, heartbeat: str) -> None:
    """A worker in a process of its own, until its standard input closes."""
    client = await connect(Address(address=address))
    async with running_worker(client, registry_for(heartbeat), WorkerSettings(task_queue=queue)):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


@dataclass
class Figures:
    """What was measured with one heartbeat timeout."""

    heartbeat: str
    continued: list[float] = field(default_factory=list)
    """Seconds from a kill to the next activity or workflow task that another worker took, of each run."""
    model_calls: int = 0
    repeated: int = 0
    """Model calls under load that were made again, although their worker lived."""
    timed_out: int = 0
    """Steps whose newest repetition was due to a late heartbeat."""

    def __str__(self) -> str:
        parts = [f"heartbeat timeout {self.heartbeat:>7}"]
        if len(self.continued) > 1:
            cuts = statistics.quantiles(self.continued, n=20, method="inclusive")
            p50, p95, most = statistics.median(self.continued), cuts[18], max(self.continued)
            parts.append(f"continued p50 {p50:.1f} s, p95 {p95:.1f} s, max {most:.1f} s of {len(self.continued)} runs")
        if self.model_calls:
            made = f"{self.repeated} repeated of {self.model_calls} model calls"
            parts.append(f"under load: {self.timed_out} steps with false timeouts, {made}")
        return " | ".join(parts)


async def measure_kill(temporal: TemporalClient, address: str, figures: Figures, *, number: int, runs: int) -> None:
    """Kill the worker of so many runs while another one is beside it."""
    queue = f"killed-{figures.heartbeat}-{number}"
    client = Client(temporal, task_queue=queue)
    async with (
        child_process("benchmarks.killed", "--serve", address, queue, figures.heartbeat) as (pid, _),
        _working(client, queue, runs, STEPPING) as threads,
    ):
        await asyncio.gather(*(_until_steps(client, thread, 2) for thread in threads))
        async with child_process("benchmarks.killed", "--serve", address, queue, figures.heartbeat):
            await asyncio.sleep(random.uniform(0, STEPPING.model_seconds))
            os.kill(pid, signal.SIGKILL)
            killed = time.time()
            waits = await asyncio.gather(*(_continued(client, thread, killed, str(pid)) for thread in threads))
        figures.continued.extend(waits)


async def measure_load(temporal: TemporalClient, address: str, figures: Figures, *, runs: int) -> None:
    """Long model calls on a worker whose processor is taken by other runs and by other processes."""
    queue = f"loaded-{figures.heartbeat}"
    client = Client(temporal, task_queue=queue)
    async with (
        child_process("benchmarks.killed", "--serve", address, queue, figures.heartbeat),
        _working(client, f"{queue}-churn", runs // 2, CHURNING),
        _working(client, f"{queue}-long", runs // 2, LONG) as threads,
    ):
        with _busy_processes(2 * (os.cpu_count() or 1)):
            await asyncio.gather(*(client.result(thread) for thread in threads))
        for thread in threads:
            for event in await _infers(client, thread):
                figures.model_calls += event.attempt
                figures.repeated += event.attempt - 1
                failure = event.last_failure.timeout_failure_info
                figures.timed_out += failure.timeout_type == TimeoutType.TIMEOUT_TYPE_HEARTBEAT


@contextlib.asynccontextmanager
async def _working(client: Client, prefix: str, runs: int, pace: Pace) -> AsyncIterator[list[str]]:
    """So many runs, which are terminated at the end."""
    threads = [f"{prefix}-{number}" for number in range(runs)]
    await asyncio.gather(*(client.start("a", str(pace), thread_id=thread) for thread in threads))
    try:
        yield threads
    finally:
        for thread in threads:
            with contextlib.suppress(Exception):  # it has ended
                await client.handle(thread).terminate("measured")


@contextlib.contextmanager
def _busy_processes(count: int) -> Iterator[None]:
    context = multiprocessing.get_context("spawn")
    busy = [context.Process(target=_compute, daemon=True) for _ in range(count)]
    for process in busy:
        process.start()
    try:
        yield
    finally:
        for process in busy:
            process.kill()


def _compute() -> None:
    while True:
        sum(range(10_000))


async def _until_steps(client: Client, thread: str, steps: int) -> None:
    async def has_made() -> bool:
        await asyncio.sleep(POLL_SECONDS)
        events = await _events(client, thread)
        return sum(event.HasField("activity_task_completed_event_attributes") for event in events) > 2 * steps

    await until(has_made)


async def _continued(client: Client, thread: str, killed: float, pid: str) -> float:
    """Seconds from the kill to the next activity or workflow task of the run that another worker has taken."""
    found = list[float]()

    async def has_continued() -> bool:
        await asyncio.sleep(POLL_SECONDS)  # the times are those of history
        found.extend(_taken(event, killed, pid) for event in await _events(client, thread))
        return min(found) < math.inf

    await until(has_continued)
    return min(found)


def _taken(event: HistoryEvent, killed: float, pid: str) -> float:
    match event.event_type:
        case EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            identity = event.workflow_task_completed_event_attributes.identity
        case EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
            identity = event.activity_task_started_event_attributes.identity
        case _:
            return math.inf
    at = event.event_time.ToNanoseconds() / 1e9
    return at - killed if at > killed and identity.split("@")[0] != pid else math.inf


async def _infers(client: Client, thread: str) -> list[ActivityTaskStartedEventAttributes]:
    """The model calls that have ended."""
    events = await _events(client, thread)
    infers = {
        event.event_id
        for event in events
        if event.activity_task_scheduled_event_attributes.activity_type.name == ACTIVITY_INFER
    }
    started = [event.activity_task_started_event_attributes for event in events]
    return [attributes for attributes in started if attributes.scheduled_event_id in infers]


async def _events(client: Client, thread: str) -> Sequence[HistoryEvent]:
    return (await client.handle(thread).fetch_history()).events


async def measure(options: argparse.Namespace) -> None:
    logging.disable(logging.WARNING)  # a worker under load counts as none
    async with embedded_server(ui=False) as server:
        address = server.client.service_client.config.target_host
        for heartbeat in options.heartbeats or [DEFAULT]:
            figures = Figures(heartbeat)
            for number in range(options.kills):
                progress(f"heartbeat timeout {heartbeat}: kill {number + 1} of {options.kills}")
                await measure_kill(server.client, address, figures, number=number, runs=options.runs)
            if options.load:
                progress(f"heartbeat timeout {heartbeat}: {options.load} runs under load")
                await measure_load(server.client, address, figures, runs=options.load)
            print(figures, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.killed", description=__doc__)
    parser.add_argument("heartbeats", nargs="*", metavar="SECONDS", help="heartbeat timeouts; or the default ones")
    parser.add_argument("--kills", type=int, default=5, help="workers to kill for each timeout")
    parser.add_argument("--runs", type=int, default=20, help="runs that each of them has")
    parser.add_argument("--load", type=int, default=100, help="runs under load; 0 measures none")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    asyncio.run(serve(*options.serve) if options.serve else measure(options))


if __name__ == "__main__":
    run_and_leave(main, name="benchmarks.killed")
