"""Name the async user code that blocks a worker's event loop.

A worker has one event loop. While an async tool computes or calls something that blocks, no other run of the worker
advances, and nothing heartbeats. So the loop beats a few times a second, and a thread looks what runs in it when the
beats stay away. Code that awaits is not seen, however long it takes.
"""

import asyncio
import contextlib
import logging
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextvars import Context, ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

BLOCKED_SECONDS = 1.0
"""How long the loop may stand still before the worker warns."""

LOOKS = 4
"""How often the thread looks in that time. It must find the same code each time: on a machine without free CPU, both
the loop and the thread stand still."""

REMEDY = "make it a sync function, which runs in a thread, or call what blocks with asyncio.to_thread"

_code: ContextVar[str | None] = ContextVar("wakeful_user_code", default=None)

_logger = logging.getLogger("wakeful")


@contextlib.contextmanager
def running_in_loop(code: str) -> Iterator[None]:
    """Async user code runs in the body, with the tasks that it starts; `code` names it, as in `tool fetch`."""
    token = _code.set(code)
    try:
        yield
    finally:
        _code.reset(token)


@contextlib.asynccontextmanager
async def warning_of_blocked_loop(seconds: float = BLOCKED_SECONDS) -> AsyncIterator[None]:
    """Warn when user code blocks the event loop, while the body runs. Workers in one loop share one watch."""
    loop = asyncio.get_running_loop()
    watch = _watches.get(loop) or _LoopWatch(loop, seconds)
    _watches[loop] = watch
    watch.users += 1
    try:
        yield
    finally:
        watch.users -= 1
        if not watch.users:
            del _watches[loop]
            watch.stop()


@dataclass(frozen=True)
class _Blocking:
    """User code that the thread of a loop is in."""

    code: str
    at: str
    """The file, line and function that the runtime called."""
    context: Context
    """Of the task, which names its run in log lines."""


class _LoopWatch:
    """Beats in the loop, and listens to the beats in a thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self.users = 0
        """The workers that it watches for."""
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._seconds = seconds
        self._beats = 0
        self._stopped = threading.Event()
        self._next = loop.call_later(self._pause, self._beat)
        self._thread = threading.Thread(target=self._listen, name="wakeful-loop-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._next.cancel()
        self._thread.join(timeout=self._seconds)  # it wakes at once, and reports nothing afterwards

    @property
    def _pause(self) -> float:
        return self._seconds / LOOKS

    def _beat(self) -> None:
        self._beats += 1
        self._next = self._loop.call_later(self._pause, self._beat)

    def _listen(self) -> None:
        heard, since, looks = self._beats, time.monotonic(), 0
        found: _Blocking | None = None
        while not self._stopped.wait(self._pause):
            if heard != self._beats:
                if found is not None and looks >= LOOKS:
                    _report("event loop runs again", found, since)
                heard, since, looks, found = self._beats, time.monotonic(), 0, None
                continue
            now = _blocking(self._loop_thread)
            is_same = now is not None and (found is None or now.code == found.code)
            looks, found = (looks + 1, now) if is_same else (0, None)
            if found is not None and looks == LOOKS:
                _report("event loop blocked", found, since, remedy=REMEDY)


_watches: dict[asyncio.AbstractEventLoop, _LoopWatch] = {}


def _report(message: str, blocking: _Blocking, since: float, **more: str) -> None:
    seconds = round(time.monotonic() - since, 1)
    extra = {"code": blocking.code, "at": blocking.at, "seconds": seconds, **more}
    blocking.context.run(_logger.warning, message, extra=extra)


def _blocking(thread: int) -> _Blocking | None:
    """The user code that an event loop's thread is in; None if it is in none."""
    innermost = entry = frame = sys._current_frames().get(thread)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if module in ("wakeful_activities", "asyncio"):
            break
        entry, frame = frame, frame.f_back
    context = _context_of(frame)
    code = context.get(_code) if context is not None else None
    shown = entry or innermost
    if context is None or code is None or shown is None:
        return None
    at = f"{Path(shown.f_code.co_filename).name}:{shown.f_lineno} in {shown.f_code.co_name}"
    return _Blocking(code, at, context.copy())


def _context_of(frame: FrameType | None) -> Context | None:
    """The context of the callback that the loop runs: that of its task. Python 3.11 has no other way to it."""
    while frame is not None:
        if frame.f_code is asyncio.Handle._run.__code__:
            context = getattr(frame.f_locals.get("self"), "_context", None)
            return context if isinstance(context, Context) else None
        frame = frame.f_back
    return None
