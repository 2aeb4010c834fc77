"""Watch a thread that may not exist yet: the stream begins when someone sends its first message."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from wakeful.client.wake import describe
from wakeful.client.watching.retrying import Retrier
from wakeful.client.watching.watcher import WatchContext
from wakeful.contract.events import EventRecord

POLL_SECONDS = 0.5
"""How often it looks for the thread: Temporal has no long poll for a workflow that does not exist."""


async def once_started(
    context: WatchContext, thread_id: str, records: AsyncGenerator[EventRecord, None]
) -> AsyncGenerator[EventRecord, None]:
    """The records, from when the thread exists."""
    retrier, temporal = Retrier(thread_id, context.outages), context.reader.temporal
    while True:
        if await retrier.call(lambda: describe(temporal, thread_id)) is not None:
            break
        await asyncio.sleep(POLL_SECONDS)
    async with aclosing(records):
        async for record in records:
            yield record
