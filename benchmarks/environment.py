"""The benchmark's environment: one embedded server, one worker process per side, and one interface to all sides."""

import asyncio
import contextlib
import itertools
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowHistory

from benchmarks import bare, wakeful_agent
from benchmarks.workload import (
    ASK,
    BARE,
    BARE_SANDBOXED,
    LOCAL,
    PAD,
    PAD_LOCAL,
    WAKEFUL,
    WHOLE,
    Work,
    streaming_queue,
)
from wakeful import RunStatus
from wakeful.client.client import Client
from wakeful.connection import embedded_server
from wakeful.history.archive import open_archives

ROOT = Path(__file__).parents[1]
TIMEOUT_SECONDS = 600.0
POLL_SECONDS = 0.02
LINE_LIMIT = 64 * 1024 * 1024
"""Of a line of a child process's output: the reports of fifty watchers are one line."""

_numbers = itertools.count(1)


@dataclass(frozen=True)
class WakefulSide:
    """Wakeful. `pid` is its worker process, `tool` the tool that the script calls."""

    client: Client
    pid: int
    name: str = WAKEFUL
    tool: str = PAD
    agent: str = wakeful_agent.AGENT
    live: bool = False
    """Its answers are watched."""

    async def start(self, work: Work) -> str:
        return await self.client.start(self.agent, str(work), thread_id=_id(work), live=self.live)

    async def result(self, id: str) -> str:
        result = await self.client.result(id)
        if result.status_reason != "natural":
            raise RuntimeError(f"run {id!r} ended as {result.status_reason!r}")
        return result.response

    async def until_waiting(self, id: str) -> None:
        async def met() -> bool:
            return (await self.client.status(id)).status is RunStatus.WAITING

        await until(met)

    async def decide(self, id: str) -> None:
        await self.client.decide(id, "1-1", "resume")


@dataclass(frozen=True)
class BareSide:
    """A hand-written workflow."""

    client: TemporalClient
    pid: int
    name: str = BARE
    tool: str = PAD
    workflow: str = bare.BareRun.__name__
    task_queue: str = BARE

    async def start(self, work: Work) -> str:
        handle = await self.client.start_workflow(self.workflow, str(work), id=_id(work), task_queue=self.task_queue)
        return handle.id

    async def result(self, id: str) -> str:
        result: str = await self.client.get_workflow_handle(id, result_type=str).result()
        return result

    async def until_waiting(self, id: str) -> None:
        handle = self.client.get_workflow_handle_for(bare.BareRun.run, id)
        await until(lambda: handle.query(bare.BareRun.waiting))

    async def decide(self, id: str) -> None:
        await self.client.get_workflow_handle_for(bare.BareRun.run, id).signal(bare.BareRun.decide)


Side = WakefulSide | BareSide


@dataclass(frozen=True)
class Execution:
    """One closed execution of a run; a run that continued as new has several."""

    history: WorkflowHistory = field(repr=False)
    events: int
    bytes: int

    @property
    def bytes_without_times(self) -> int:
        """The size of its events without the fields that depend on the clock, so that two runs can be equal."""
        return sum(_bytes_without_times(event) for event in self.history.events)


@dataclass(frozen=True)
class Environment:
    """`sides` are compared, the baseline first; of `whole`, only the history size is measured."""

    client: TemporalClient
    sides: tuple[Side, ...]
    whole: Side
    address: str
    server_pid: int | None

    @property
    def pids(self) -> list[int | None]:
        """Every process of the benchmark except this one."""
        return [self.server_pid, *{side.pid for side in self.sides}]

    @property
    def deciding(self) -> tuple[Side, ...]:
        """The sides for decisions: one per worker, because sides that differ only in their tool decide alike."""
        return tuple(side for side in self.sides if side.tool == PAD)

    async def run(self, side: Side, *, steps: int, size: int) -> str:
        """Run the workload to its end and return the run's id."""
        id = await side.start(Work(steps, size, side.tool))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await side.result(id)
        return id

    async def suspend(self, side: Side) -> str:
        """Start a run, wait until its tool call waits for a decision, and return its id."""
        id = await side.start(Work(1, 100, ASK))
        await side.until_waiting(id)
        return id

    async def executions(self, id: str) -> list[Execution]:
        return await read_executions(self.client, id)

    async def archives(self, id: str) -> list[Execution]:
        """The archives of a thread; a hand-written workflow has none."""
        found = [await read_executions(self.client, archive.id) async for archive in open_archives(self.client, id)]
        return [execution for executions in found for execution in executions]


async def read_executions(client: TemporalClient, id: str) -> list[Execution]:
    """The histories of a run, with their sizes as the server counts them, newest execution first."""
    found: list[Execution] = []
    run_id: str | None = None
    while run_id != "":
        handle = client.get_workflow_handle(id, run_id=run_id)
        described = await handle.describe()
        history = await handle.fetch_history()
        size = described.raw_description.workflow_execution_info.history_size_bytes
        found.append(Execution(history, len(history.events), size))
        started = history.events[0].workflow_execution_started_event_attributes
        run_id = started.continued_execution_run_id
    return found


@contextlib.asynccontextmanager
async def environment(*, sandboxed: bool) -> AsyncIterator[Environment]:
    """Start a server and the workers, and warm them up."""
    async with (
        embedded_server(ui=False) as server,
        worker_process(BARE_SANDBOXED if sandboxed else BARE, server.address) as bare_pid,
        worker_process(WAKEFUL, server.address) as wakeful_pid,
    ):
        client = server.client
        wakeful = Client(client, task_queue=WAKEFUL)
        sides: list[Side] = [BareSide(client, bare_pid), WakefulSide(wakeful, wakeful_pid)]
        if wakeful_agent.HAS_LOCAL_TOOLS:
            sides.append(WakefulSide(wakeful, wakeful_pid, name=LOCAL, tool=PAD_LOCAL))
        whole = BareSide(client, bare_pid, name=WHOLE, workflow=bare.BareWholeRun.__name__)
        env = Environment(client, tuple(sides), whole, server.address, server_pid())
        for side in env.sides:
            await env.run(side, steps=3, size=100)
        yield env


@contextlib.asynccontextmanager
async def streaming_wakeful(env: Environment, agent: str, *provider: str) -> AsyncIterator[WakefulSide]:
    """Wakeful with a streaming worker of its own, on this model provider."""
    async with worker_process(WAKEFUL, env.address, *provider) as pid:
        yield WakefulSide(Client(env.client, task_queue=streaming_queue(WAKEFUL)), pid, agent=agent, live=True)


@contextlib.asynccontextmanager
async def streaming_bare(env: Environment, workflow: str, *provider: str) -> AsyncIterator[BareSide]:
    """A hand-written workflow with a streaming worker of its own, on this model provider."""
    async with worker_process(BARE, env.address, *provider) as pid:
        yield BareSide(env.client, pid, workflow=workflow, task_queue=streaming_queue(BARE))


@contextlib.asynccontextmanager
async def worker_process(side: str, address: str, *provider: str) -> AsyncIterator[int]:
    """The worker of a side while the body runs; with the address of a model provider, its streaming worker."""
    async with child_process("benchmarks.worker", side, address, *provider) as (pid, _output):
        yield pid


@contextlib.asynccontextmanager
async def child_process(module: str, *arguments: str) -> AsyncIterator[tuple[int, asyncio.StreamReader]]:
    """Run a module while the body runs, from its `ready` line on; gives its pid and its further output."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # only the benchmark handles Ctrl-C; its children exit when their input closes
        limit=LINE_LIMIT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            if await process.stdout.readline() != b"ready\n":
                raise RuntimeError(f"{module} {' '.join(arguments)} did not start; see its error above")
        yield process.pid, process.stdout
    finally:
        process.stdin.close()
        try:
            async with asyncio.timeout(30):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def until(met: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            if await met():
                return
            await asyncio.sleep(POLL_SECONDS)


def _bytes_without_times(event: HistoryEvent) -> int:
    """The size of an event without its time, its task id, and the history size so far, which includes both."""
    copy = HistoryEvent()
    copy.CopyFrom(event)
    copy.ClearField("event_time")
    copy.ClearField("task_id")
    if event.HasField("workflow_task_started_event_attributes"):
        copy.workflow_task_started_event_attributes.ClearField("history_size_bytes")
    return copy.ByteSize()


def server_pid() -> int | None:
    """The pid of the embedded server, a child of this process; None on systems without /proc."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            name, rest = stat.read_text().split("(", 1)[1].rsplit(")", 1)
            if int(rest.split()[1]) == os.getpid() and name == "temporal":
                return int(stat.parent.name)
    return None


def _id(work: Work) -> str:
    return f"{work}.{next(_numbers):06}"
