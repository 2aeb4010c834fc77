"""What an activity shows of itself: the spans of its attempts, on the clock of the Temporal server."""

import time
from collections.abc import Callable
from datetime import datetime

from temporalio import activity

from wakeful.telemetry.spans import SpanRef
from wakeful.telemetry.tracing import Tracing


def server_clock() -> Callable[[], int]:
    """The time in nanoseconds since 1970, as the server that started this attempt has it.

    The workflow's spans have the server's times, too: a worker whose clock is wrong, or a server that skips time, would
    otherwise tear a trace apart.
    """
    info, began = activity.info(), time.monotonic_ns()
    started = nanoseconds(info.started_time)
    return lambda: started + time.monotonic_ns() - began


def nanoseconds(at: datetime) -> int:
    """Since 1970."""
    return round(at.timestamp() * 1_000_000) * 1_000


def activity_ref(tracing: Tracing, name: str, *about: object) -> SpanRef:
    """The span of this activity that is about this: the same whichever worker makes it."""
    info = activity.info()
    return tracing.root(tracing.current(), name, info.workflow_run_id, info.activity_id, *about)
