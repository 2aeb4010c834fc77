"""Where the sides meet: one embedded server, one worker process a side, and the same few verbs for all of them."""

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

from benchmarks import bare, ours
from benchmarks.sides import BARE, BARE_SANDBOXED, LOCAL, OURS, WHOLE, streaming
from benchmarks.workload import ASK, PAD, PAD_LOCAL, Work
from wakeful import RunStatus
from wakeful.client.client import Client
from wakeful.connection import embedded_server

ROOT = Path(__file__).parents[1]
PATIENCE_SECONDS = 600.0
POLL_SECONDS = 0.02
LINE_LIMIT = 64 * 1024 * 1024
"""Of what another process says: fifty watchers have much to tell."""

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Wakeful:
    """Our side. `pid` is the process of its worker, `tool` the tool its script calls."""

    client: Client
    pid: int
    name: str = OURS
    tool: str = PAD
    agent: str = ours.AGENT

    async def start(self, work: Work) -> str:
        return await self.client.start(self.agent, str(work), thread_id=_id(work))

    async def result(self, id: str) -> str:
        result = await self.client.result(id)
        if result.status_reason != "natural":
            raise RuntimeError(f"run {id!r} ended as {result.status_reason!r}")
        return result.response

    async def until_waiting(self, id: str) -> None:
        async def met() -> bool:
            return (await self.client.status(id)).status is RunStatus.WAITING

        await _until(met)

    async def decide(self, id: str) -> None:
        await self.client.decide(id, "1-1", "resume")


@dataclass(frozen=True)
class Bare:
    """The hand-written side."""

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
        await _until(lambda: handle.query(bare.BareRun.waiting))

    async def decide(self, id: str) -> None:
        await self.client.get_workflow_handle_for(bare.BareRun.run, id).signal(bare.BareRun.decide)


Side = Wakeful | Bare


@dataclass(frozen=True)
class Execution:
    """One closed execution of a run; a run that continued as new has several."""

    history: WorkflowHistory = field(repr=False)
    events: int
    bytes: int

    @property
    def timeless_bytes(self) -> int:
        """What its events weigh without what depends on when they were written, so that two runs can be equal."""
        return sum(_timeless_bytes(event) for event in self.history.events)


@dataclass(frozen=True)
class Stage:
    """`sides` are compared: the yardstick first. `whole` is only weighed."""

    client: TemporalClient
    sides: tuple[Side, ...]
    whole: Side
    address: str
    server_pid: int | None

    @property
    def pids(self) -> list[int | None]:
        """Every process of ours but this one."""
        return [self.server_pid, *{side.pid for side in self.sides}]

    @property
    def deciding(self) -> tuple[Side, ...]:
        """One side a worker: the sides that differ only in their tool are one for decisions."""
        return tuple(side for side in self.sides if side.tool == PAD)

    async def run(self, side: Side, *, steps: int, size: int) -> str:
        """Run the workload to its end; gives the run's id."""
        id = await side.start(Work(steps, size, side.tool))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await side.result(id)
        return id

    async def suspend(self, side: Side) -> str:
        """Run until the workload's tool waits for a decision."""
        id = await side.start(Work(1, 100, ASK))
        await side.until_waiting(id)
        return id

    async def executions(self, id: str) -> list[Execution]:
        """What the run wrote, as the server counts it, newest execution first."""
        found: list[Execution] = []
        run_id: str | None = None
        while run_id != "":
            handle = self.client.get_workflow_handle(id, run_id=run_id)
            described = await handle.describe()
            history = await handle.fetch_history()
            size = described.raw_description.workflow_execution_info.history_size_bytes
            found.append(Execution(history, len(history.events), size))
            started = history.events[0].workflow_execution_started_event_attributes
            run_id = started.continued_execution_run_id
        return found


@contextlib.asynccontextmanager
async def stage(*, sandboxed: bool) -> AsyncIterator[Stage]:
    """Set the stage on a server of its own, with everybody warm."""
    async with (
        embedded_server(ui=False) as server,
        worker_process(BARE_SANDBOXED if sandboxed else BARE, server.address) as bare_pid,
        worker_process(OURS, server.address) as our_pid,
    ):
        client = server.client
        wakeful = Client(client, task_queue=OURS)
        sides: list[Side] = [Bare(client, bare_pid), Wakeful(wakeful, our_pid)]
        if ours.HAS_LOCAL_TOOLS:
            sides.append(Wakeful(wakeful, our_pid, name=LOCAL, tool=PAD_LOCAL))
        whole = Bare(client, bare_pid, name=WHOLE, workflow=bare.BareWholeRun.__name__)
        set_up = Stage(client, tuple(sides), whole, server.address, _server_pid())
        for side in set_up.sides:
            await set_up.run(side, steps=3, size=100)
        yield set_up


@contextlib.asynccontextmanager
async def streaming_ours(stage: Stage, agent: str, *provider: str) -> AsyncIterator[Wakeful]:
    """Our side with a worker of its own over that model provider."""
    async with worker_process(OURS, stage.address, *provider) as pid:
        yield Wakeful(Client(stage.client, task_queue=streaming(OURS)), pid, agent=agent)


@contextlib.asynccontextmanager
async def streaming_bare(stage: Stage, workflow: str, *provider: str) -> AsyncIterator[Bare]:
    """The hand-written side with a worker of its own over that model provider."""
    async with worker_process(BARE, stage.address, *provider) as pid:
        yield Bare(stage.client, pid, workflow=workflow, task_queue=streaming(BARE))


@contextlib.asynccontextmanager
async def worker_process(side: str, address: str, *provider: str) -> AsyncIterator[int]:
    """The worker of a side while the body runs; its streaming one where the address of a model provider is named."""
    async with child_process("benchmarks.worker", side, address, *provider) as (pid, _said):
        yield pid


@contextlib.asynccontextmanager
async def child_process(module: str, *arguments: str) -> AsyncIterator[tuple[int, asyncio.StreamReader]]:
    """A program of ours while the body runs, once it is ready: its process, and what it says after that."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the benchmark; the others leave when their input closes
        limit=LINE_LIMIT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            if await process.stdout.readline() != b"ready\n":
                raise RuntimeError(f"{module} {' '.join(arguments)} did not start; its error stands above")
        yield process.pid, process.stdout
    finally:
        process.stdin.close()
        try:
            async with asyncio.timeout(30):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _until(met: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if await met():
                return
            await asyncio.sleep(POLL_SECONDS)


def _timeless_bytes(event: HistoryEvent) -> int:
    """An event without its time and task number, and without the size of the history so far, which counts them."""
    timeless = HistoryEvent()
    timeless.CopyFrom(event)
    timeless.ClearField("event_time")
    timeless.ClearField("task_id")
    if event.HasField("workflow_task_started_event_attributes"):
        timeless.workflow_task_started_event_attributes.ClearField("history_size_bytes")
    return timeless.ByteSize()


def _server_pid() -> int | None:
    """The embedded server, which is a child of this process; unknown where there is no /proc."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            name, rest = stat.read_text().split("(", 1)[1].rsplit(")", 1)
            if int(rest.split()[1]) == os.getpid() and name == "temporal":
                return int(stat.parent.name)
    return None


def _id(work: Work) -> str:
    return f"{work}.{next(_numbers):06}"
