"""Signs of life. The runtime gives them, not the user's code, so that cancel and loss are noticed within seconds."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from temporalio import activity

INTERVAL_SECONDS = 1.0
"""Cancellation reaches an activity only with a heartbeat, so this is also how long a cancel may take."""


@contextlib.asynccontextmanager
async def heartbeating(details: Callable[[], Any] = lambda: None) -> AsyncIterator[None]:
    """Heartbeat while the body runs, with what `details` says at the time.

    A body of less than one interval gives none: nothing is added to a short call.
    """
    beating = asyncio.create_task(_beat(details))
    try:
        yield
    finally:
        beating.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await beating


async def _beat(details: Callable[[], Any]) -> None:
    while True:
        await asyncio.sleep(INTERVAL_SECONDS)
        said = details()
        if said is None:
            activity.heartbeat()
        else:
            activity.heartbeat(said)
