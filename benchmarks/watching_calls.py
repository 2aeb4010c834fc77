"""What one streamed answer costs in heartbeats, and its viewers in calls: `python -m benchmarks.watching_calls`.

Every client has a runtime of its own, and so shares its calls with no other, as clients in other processes do.
"""

import asyncio
import re
import sys
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

from temporalio.client import Client as TemporalClient
from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig

from wakeful import Agent, ModelRequest, Registry, StopPart, StopReason, StreamPart, TextPart
from wakeful.cli.process import run_and_leave
from wakeful.client.client import Client
from wakeful.connection import embedded_server, free_port
from wakeful.storage import data_converter
from wakeful.worker import WorkerSettings, running_worker

TOKENS, PAUSE_SECONDS = 200, 0.05
"""An answer of ten seconds."""

CASES = ((0, 0), (1, 1), (20, 1), (20, 4))
"""Viewers, and the clients that they share."""

_REQUESTS = re.compile(r'temporal_(?:long_)?request(?:_total)?\{.*?operation="(\w+)".*?\} (\d+)')


class SlowModel:
    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        del request
        for _ in range(TOKENS):
            await asyncio.sleep(PAUSE_SECONDS)
            yield TextPart("word ")
        yield StopPart(StopReason.END_TURN)


@dataclass(frozen=True)
class CountedClient:
    """A connection whose calls are counted."""

    temporal: TemporalClient
    port: int

    @classmethod
    async def connect(cls, address: str) -> "CountedClient":
        port = free_port()
        metrics = PrometheusConfig(bind_address=f"127.0.0.1:{port}")
        runtime = Runtime(telemetry=TelemetryConfig(metrics=metrics))
        return cls(
            await TemporalClient.connect(address, data_converter=await data_converter({}), runtime=runtime), port
        )

    async def calls(self) -> Counter[str]:
        url = f"http://127.0.0.1:{self.port}/metrics"
        text = await asyncio.to_thread(lambda: urllib.request.urlopen(url).read().decode())
        counted: Counter[str] = Counter()
        for operation, count in _REQUESTS.findall(text):
            counted[operation] += int(count)
        return counted


async def main() -> None:
    registry = Registry(agents=[Agent(id="a", model="m")], models={"m": SlowModel()})
    async with embedded_server(ui=False) as server:
        print("live   viewers  clients  heartbeats  Describe  GetHistory  Query")
        for live in (False, True):
            for viewers, clients in CASES:
                worker = await CountedClient.connect(server.address)
                viewing = [await CountedClient.connect(server.address) for _ in range(clients)]
                settings = WorkerSettings(sweep_interval=None, task_queue=f"{live}-{viewers}-{clients}")
                async with running_worker(worker.temporal, registry, settings):
                    await _answer(worker, viewing, settings.task_queue, viewers=viewers, live=live)
                    heartbeats = (await worker.calls())["RecordActivityTaskHeartbeat"]
                    calls = sum([await viewer.calls() for viewer in viewing], Counter[str]())
                names = ("DescribeWorkflowExecution", "GetWorkflowExecutionHistory", "QueryWorkflow")
                described, read, queried = (calls[name] for name in names)
                print(f"{live!s:5}  {viewers:7}  {clients:7}  {heartbeats:10}  {described:8}  {read:10}  {queried:5}")
                sys.stdout.flush()


async def _answer(worker: CountedClient, viewing: list[CountedClient], queue: str, *, viewers: int, live: bool) -> None:
    sender = Client(worker.temporal, task_queue=queue)
    thread_id = await sender.start("a", "go", live=live)
    clients = [Client(viewer.temporal) for viewer in viewing]

    async def view(client: Client) -> None:
        async for _ in client.watch(thread_id, live=True):
            pass

    await asyncio.gather(sender.result(thread_id), *(view(clients[n % len(clients)]) for n in range(viewers)))


if __name__ == "__main__":
    run_and_leave(lambda: asyncio.run(main()), name="benchmarks.watching_calls")
