"""A watchdog for tests: find each event loop of this process that is blocked, and the stack of its thread.

A thread pings the loops that run, and looks at what their threads do until they answer. A loop is blocked if its thread
has used two seconds of CPU without an answer, or has slept in one call for two seconds. On a busy machine a loop may
answer later than that, but its thread is then ready to run, or waits for a disk. Imports do not count: they end.

It needs Linux, which says what a thread does; elsewhere it finds nothing.
"""

import asyncio
import contextlib
import functools
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

BLOCKED_SECONDS = 2.0

LOOKS = 8
"""How often the thread looks in that time. It gets a CPU each time: a thread that sleeps on does not lack one."""

IMPORTS = "<frozen importlib._bootstrap>"

_running: dict[asyncio.AbstractEventLoop, threading.Thread] = {}
"""The loops that run, and their threads."""


def _noting(run_forever: Callable[[asyncio.BaseEventLoop], None]) -> Callable[[asyncio.BaseEventLoop], None]:
    @functools.wraps(run_forever)
    def noted(loop: asyncio.BaseEventLoop) -> None:
        is_real = isinstance(loop, asyncio.SelectorEventLoop)  # a simulated one has a time of its own
        if is_real:
            _running[loop] = threading.current_thread()
        try:
            run_forever(loop)
        finally:
            if is_real:
                del _running[loop]

    return noted


setattr(asyncio.BaseEventLoop, "run_forever", _noting(asyncio.BaseEventLoop.run_forever))  # noqa: B010


@dataclass(frozen=True)
class Blocked:
    """A loop that did not answer, and what its thread did meanwhile."""

    seconds: float
    cpu_seconds: float
    stack: str

    def __str__(self) -> str:
        used = f"its thread used {self.cpu_seconds:.1f} s of CPU"
        return f"an event loop has been blocked for {self.seconds:.1f} s ({used}) in:\n{self.stack}"


@contextlib.contextmanager
def watching_loops(report: Callable[[Blocked], object], seconds: float = BLOCKED_SECONDS) -> Iterator[None]:
    """Report each loop of the process that is blocked for so long, once and while it is blocked."""
    stopped = threading.Event()
    watch = threading.Thread(target=_watch, args=(report, seconds, stopped), name="tests-loop-watch", daemon=True)
    watch.start()
    try:
        yield
    finally:
        stopped.set()
        watch.join(timeout=seconds)


@dataclass(frozen=True)
class _Activity:
    """What a thread does now."""

    is_asleep: bool
    cpu_seconds: float


@dataclass
class _Ping:
    """A callback that a loop was given, and what its thread has done since."""

    since: float
    first: _Activity
    last: _Activity
    position: tuple[int, int] | None = None
    """The innermost frame at the last look, and the instruction there."""
    asleep: int = 0
    """At how many looks in a row the thread slept on in one call."""
    is_reported: bool = False
    answered: threading.Event = field(default_factory=threading.Event)


def _watch(report: Callable[[Blocked], object], seconds: float, stopped: threading.Event) -> None:
    pings: dict[asyncio.AbstractEventLoop, _Ping] = {}
    while not stopped.wait(seconds / LOOKS):
        for blocked in _look(pings, seconds):
            report(blocked)


def _look(pings: dict[asyncio.AbstractEventLoop, _Ping], seconds: float) -> list[Blocked]:
    """Ping the loops that have answered, and return what blocks those that have not for too long."""
    running, found = _running.copy(), []
    for loop in [*pings]:
        if loop not in running or pings[loop].answered.is_set():
            del pings[loop]
    for loop, thread in running.items():
        with contextlib.suppress(RuntimeError, OSError):  # the loop is closed, or its thread has just ended
            activity = _activity(thread)
            frame = sys._current_frames().get(thread.ident or 0) if loop in pings else None
            if frame is None or _is_importing(frame):
                pings[loop] = _Ping(time.monotonic(), activity, activity)
                loop.call_soon_threadsafe(pings[loop].answered.set)
            elif (blocked := _blocked(pings[loop], activity, frame, seconds)) is not None:
                found.append(blocked)
    return found


def _activity(thread: threading.Thread) -> _Activity:
    state, *fields = Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[10]) + int(fields[11])
    return _Activity(state == "S", ticks / os.sysconf("SC_CLK_TCK"))


def _is_importing(frame: FrameType) -> bool:
    return any(each.f_code.co_filename == IMPORTS for each, _ in traceback.walk_stack(frame))


def _blocked(ping: _Ping, now: _Activity, frame: FrameType, seconds: float) -> Blocked | None:
    """What blocks the loop, if it does so for long enough and is not reported yet."""
    position = (id(frame), frame.f_lasti)
    ping.asleep = ping.asleep + 1 if now.is_asleep and (now, position) == (ping.last, ping.position) else 0
    ping.last, ping.position, cpu_seconds = now, position, now.cpu_seconds - ping.first.cpu_seconds
    if ping.is_reported or not (cpu_seconds >= seconds or ping.asleep >= LOOKS):
        return None
    ping.is_reported = True
    return Blocked(time.monotonic() - ping.since, cpu_seconds, "".join(traceback.format_stack(frame)))
