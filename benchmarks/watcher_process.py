"""Watchers of one run, in a process of their own: `python -m benchmarks.watcher_process ADDRESS THREAD COUNT`.

The process prints `ready` when every watcher has seen the run suspend. When the run has ended, it prints what each
watcher received. Watchers share nothing but a connection, and there are several connections.
"""

import asyncio
import sys
import time
from collections.abc import Sequence

from pydantic import BaseModel, TypeAdapter

from benchmarks.workload import TOKEN
from wakeful.cli.process import run_and_leave
from wakeful.client.client import Client
from wakeful.connection import Address, connect
from wakeful.contract.events import RunFinish, StreamReset, TextDelta

WATCHERS_PER_CONNECTION = 10


class Arrivals(BaseModel):
    """When a growing text reached one watcher, on the monotonic clock, which all processes share."""

    text: str = ""
    grown: list[tuple[int, float]] = []
    """The length of the text and the time, for each time that it had grown."""

    def record(self, text: str) -> None:
        """Record the text so far."""
        self.text = text
        if len(text) > (self.grown[-1][0] if self.grown else 0):
            self.grown.append((len(text), time.monotonic()))

    def lags(self, sent_at: Sequence[float]) -> list[float]:
        """Milliseconds from sending each token to its first arrival."""
        lags: list[float] = []
        arrivals = iter(self.grown)
        length, at = 0, 0.0
        for number, sent in enumerate(sent_at, start=1):
            while length < number * TOKEN:
                length, at = next(arrivals)
            lags.append((at - sent) * 1000)
        return lags


class WatcherReport(BaseModel):
    """What one watcher received: the text, and the number of the last event."""

    arrivals: Arrivals
    last: int = 0


REPORTS = TypeAdapter(list[WatcherReport])


async def watch(client: Client, thread_id: str, suspended: asyncio.Event) -> WatcherReport:
    """Watch a run live until it ends, and assemble its text."""
    report = WatcherReport(arrivals=Arrivals())
    text = ""
    async for record in client.watch(thread_id, live=True):
        report.last = record.seq
        match record.event:
            case TextDelta(delta=delta):
                text += delta
                report.arrivals.record(text)
            case StreamReset():
                text = ""
            case RunFinish():
                suspended.set()
            case _:
                pass
    return report


async def watch_all(address: str, thread_id: str, count: int) -> None:
    clients = [Client(await connect(Address(address=address))) for _ in range(0, count, WATCHERS_PER_CONNECTION)]
    suspensions = [asyncio.Event() for _ in range(count)]
    async with asyncio.TaskGroup() as group:
        watchers = [
            group.create_task(watch(clients[number // WATCHERS_PER_CONNECTION], thread_id, suspended))
            for number, suspended in enumerate(suspensions)
        ]
        for suspended in suspensions:
            await suspended.wait()
        print("ready", flush=True)
    print(REPORTS.dump_json([watcher.result() for watcher in watchers]).decode(), flush=True)


async def serve(address: str, thread_id: str, count: int) -> None:
    """Watch until the standard input closes, so that the process never outlives the benchmark."""
    watching = asyncio.create_task(watch_all(address, thread_id, count))
    closed = asyncio.create_task(_input_closed())
    await asyncio.wait({watching, closed}, return_when=asyncio.FIRST_COMPLETED)
    if watching.done():
        watching.result()
        await closed
    watching.cancel()


async def _input_closed() -> None:
    # Not in a thread: a blocked thread would keep the process alive after a watcher has failed.
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


if __name__ == "__main__":
    run_and_leave(
        lambda: asyncio.run(serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))), name="benchmarks.watcher_process"
    )
