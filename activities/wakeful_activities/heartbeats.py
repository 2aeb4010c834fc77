"""Signs of life. The runtime gives them, not the user's code, so that cancel and loss are noticed within seconds."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from temporalio import activity

INTERVAL_SECONDS = 1.0
"""Cancellation reaches an activity only with a heartbeat, so this is also how long a cancel may take."""


@contextlib.contextmanager
def heartbeating(details: Callable[[], Any] = lambda: None) -> Iterator[None]:
    """Heartbeat while the body runs, with what `details` says at the time.

    A body of less than one interval gives none: nothing is added to a short call.
    """
    loop = asyncio.get_running_loop()
    next_beat: asyncio.TimerHandle

    def beat() -> None:
        nonlocal next_beat
        next_beat = loop.call_later(INTERVAL_SECONDS, beat)
        said = details()
        if said is None:
            activity.heartbeat()
        else:
            activity.heartbeat(said)

    next_beat = loop.call_later(INTERVAL_SECONDS, beat)
    try:
        yield
    finally:
        next_beat.cancel()
