"""The company's own worker: its workflow and activity, its client with codec and tracing, and the agents as a plugin.

python -m examples.order_desk.worker
"""

import asyncio
import dataclasses
import os
import signal
from datetime import timedelta

from temporalio.client import Client
from temporalio.contrib.opentelemetry import TracingInterceptor
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter
from temporalio.worker import Worker

from examples.order_desk.agents import registry
from examples.order_desk.orders import OrderDesk, write_to
from examples.order_desk.sealed import SealedCodec
from wakeful import WakefulPlugin

TASK_QUEUE = "order-desk"


def data_converter() -> DataConverter:
    key = os.environ.get("ORDER_DESK_KEY", "a key for trying it out").encode()
    return dataclasses.replace(pydantic_data_converter, payload_codec=SealedCodec(key))


async def connect(address: str | None = None, namespace: str = "default") -> Client:
    """For the worker, and for every `wakeful` command: `WAKEFUL_CLIENT=examples.order_desk.worker:connect`."""
    return await Client.connect(
        address or os.environ.get("TEMPORAL_ADDRESS", "localhost:7233"),
        namespace=namespace,
        data_converter=data_converter(),
        interceptors=[TracingInterceptor()],  # spans go where the OpenTelemetry SDK of the process sends them
    )


def worker_of(client: Client, task_queue: str = TASK_QUEUE) -> Worker:
    return Worker(
        client,
        task_queue=task_queue,
        workflows=[OrderDesk],
        activities=[write_to],
        plugins=[WakefulPlugin(registry)],
        graceful_shutdown_timeout=timedelta(seconds=20),
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
    )


async def main() -> None:
    stop = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    async with worker_of(await connect()):
        print(f"the order desk is open: task queue {TASK_QUEUE!r}", flush=True)
        await stop.wait()
    await asyncio.sleep(0.1)  # the SDK's native threads need a moment to leave Python (SDK 1.35)


if __name__ == "__main__":
    asyncio.run(main())
