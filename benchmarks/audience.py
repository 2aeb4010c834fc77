"""Watchers of one run as a process of their own: `python -m benchmarks.audience ADDRESS THREAD COUNT`.

It says `ready` when all of them have seen the run pause, goes on until it has ended, and then says what each has seen.
Each watcher is an independent one: nothing is shared between them but a connection, of which there are several.
"""

import asyncio
import sys

from pydantic import BaseModel, TypeAdapter

from benchmarks.sights import Sights
from wakeful.cli.process import run_and_leave
from wakeful.client.client import Client
from wakeful.connection import Address, connect
from wakeful.contract.events import RunFinish, StreamReset, TextDelta

A_CONNECTION = 10
"""Watchers that share one."""


class Watched(BaseModel):
    """What one watcher saw: the text, and the number of the last event."""

    sights: Sights
    last: int = 0


AUDIENCE = TypeAdapter(list[Watched])


async def watch(client: Client, thread_id: str, paused: asyncio.Event) -> Watched:
    """See a run through to its end, as a person would: live, and putting together what comes."""
    watched = Watched(sights=Sights())
    text = ""
    async for record in client.watch(thread_id, live=True):
        watched.last = record.seq
        match record.event:
            case TextDelta(delta=delta):
                text += delta
                watched.sights.read(text)
            case StreamReset():
                text = ""
            case RunFinish():
                paused.set()
            case _:
                pass
    return watched


async def attend(address: str, thread_id: str, count: int) -> None:
    clients = [Client(await connect(Address(address=address))) for _ in range(0, count, A_CONNECTION)]
    pauses = [asyncio.Event() for _ in range(count)]
    async with asyncio.TaskGroup() as group:
        watchers = [
            group.create_task(watch(clients[number // A_CONNECTION], thread_id, paused))
            for number, paused in enumerate(pauses)
        ]
        for paused in pauses:
            await paused.wait()
        print("ready", flush=True)
    print(AUDIENCE.dump_json([watcher.result() for watcher in watchers]).decode(), flush=True)


async def serve(address: str, thread_id: str, count: int) -> None:
    """Attend until the standard input closes, so that no audience outlives the benchmark."""
    attending = asyncio.create_task(attend(address, thread_id, count))
    left = asyncio.create_task(_input_closed())
    await asyncio.wait({attending, left}, return_when=asyncio.FIRST_COMPLETED)
    if attending.done():
        attending.result()
        await left
    attending.cancel()


async def _input_closed() -> None:
    # Not in a thread, which could not be left when a watcher has failed.
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


if __name__ == "__main__":
    run_and_leave(lambda: asyncio.run(serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))), name="benchmarks.audience")
