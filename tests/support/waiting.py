"""Wait for what a run comes to, with a bound."""

import asyncio
import contextlib
from collections.abc import Callable

from wakeful.client.client import Client
from wakeful.contract.errors import NoAnswer, NotStarted, ThreadNotFound
from wakeful.contract.runs import RunStatus
from wakeful.contract.views import StatusView

BOUND_SECONDS = 60


async def until(client: Client, thread_id: str, met: Callable[[StatusView], bool]) -> StatusView:
    """Ask for the status until `met` likes it: often at first, and less often while the run takes long."""
    pause = 0.02
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            # A sub-agent has its name a moment before the server has started it, and before a worker has; and on a busy
            # machine, a query may take longer than clients wait.
            with contextlib.suppress(ThreadNotFound, NotStarted, NoAnswer):
                if met(view := await client.status(thread_id)):
                    return view
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, 0.1)


async def until_status(client: Client, thread_id: str, status: RunStatus) -> StatusView:
    return await until(client, thread_id, lambda view: view.status is status)


async def until_refused(client: Client, thread_id: str) -> StatusView:
    return await until(client, thread_id, lambda view: bool(view.refusals))
