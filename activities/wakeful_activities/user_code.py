"""Run what users write: tools, gates and hooks. Async functions run in the event loop, sync ones in threads.

Python cannot stop a thread. So every sync call has a daemon thread of its own, and a thread whose call has timed out or
was cancelled is abandoned: it takes no capacity from other calls, but it is counted until it ends. A worker that has
too many of them stops, so that its supervisor starts another (`wakeful/worker.py`).
"""

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

from wakeful.registry.dependencies import Dependencies
from wakeful_activities.blocked_loop import running_in_loop

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")

MAX_THREADS = 200
"""Sync calls at a time. An activity makes one at a time, so this need not be more than a worker's activities."""

MAX_ABANDONED = 100
"""Abandoned threads, each of which holds some memory and perhaps a connection, before a worker is replaced."""

_logger = logging.getLogger("wakeful")


class UserCode:
    """Runs the sync functions of a worker's tools, gates and hooks, one thread per call.

    Args:
        on_abandoned: called with the number of abandoned threads whenever it has changed.
    """

    def __init__(
        self,
        max_threads: int = MAX_THREADS,
        *,
        max_abandoned: int = MAX_ABANDONED,
        on_abandoned: Callable[[int], None] = lambda _count: None,
        dependencies: Dependencies | None = None,
    ) -> None:
        self._free = asyncio.Semaphore(max_threads)
        self.max_abandoned = max_abandoned
        self._on_abandoned = on_abandoned
        self.dependencies = dependencies or Dependencies()
        """What tools, gates, hooks and dynamic instructions receive as `deps`."""
        self.abandoned = 0
        """Threads that still run although their calls have timed out or were cancelled."""
        self.is_full = asyncio.Event()
        """There are too many of them."""

    async def call(self, name: str, function: Callable[[A], Any], argument: A) -> Any:
        """Call a function with one argument: an async one in the event loop, a sync one in a thread."""
        with contained(), running_in_loop(name):
            if inspect.iscoroutinefunction(function):
                returned: object = function(argument)
            else:
                returned = await self.in_thread(name, partial(function, argument))
            return await returned if inspect.isawaitable(returned) else returned

    async def in_thread(
        self,
        name: str,
        function: Callable[[], T],
        *,
        on_cancel: Callable[[], None] = lambda: None,
        grace_seconds: float = 0.0,
    ) -> T:
        """Call a sync function in a thread; if this call is cancelled, abandon the thread.

        Args:
            name: of the thread and in the log, such as `tool fetch`.
            on_cancel: called when this call is cancelled.
            grace_seconds: how long the function may then take to return; if it does, its result counts.
        """
        async with self._free:
            executor = _DaemonThread(f"wakeful-{name}")
            running = asyncio.get_running_loop().run_in_executor(executor, partial(_call_contained, function))
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                on_cancel()
                if not grace_seconds or not (await asyncio.wait([running], timeout=grace_seconds))[0]:
                    raise
                return running.result()
            finally:
                if not running.done():
                    self._abandon(running, name)

    def _abandon(self, running: "asyncio.Future[Any]", name: str) -> None:
        self._count(1)
        running.add_done_callback(self._on_abandoned_ended)
        counts = {"code": name, "abandoned": self.abandoned, "max_abandoned": self.max_abandoned}
        _logger.warning("thread abandoned", extra=counts)
        if self.abandoned >= self.max_abandoned:
            self.is_full.set()

    def _on_abandoned_ended(self, running: "asyncio.Future[Any]") -> None:
        self._count(-1)
        if not running.cancelled():
            running.exception()  # its call has ended long ago: asyncio would log that it was never retrieved

    def _count(self, change: int) -> None:
        self.abandoned += change
        self._on_abandoned(self.abandoned)


class _DaemonThread(Executor):
    """Runs each call in a daemon thread of its own: one that hangs keeps neither another nor the process waiting."""

    def __init__(self, name: str) -> None:
        self._name = name

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def work() -> None:
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        future.set_running_or_notify_cancel()
        # In a copy of the caller's context, so that spans of the function are below the caller's.
        threading.Thread(target=copy_context().run, args=(work,), name=self._name, daemon=True).start()
        return future


@contextmanager
def contained() -> Iterator[None]:
    """Raise what user code must not raise as a `RuntimeError`.

    A `SystemExit` would end the worker. A `CancelledError` that is not a cancellation of the call would look like one.
    """
    try:
        yield
    except SystemExit as error:
        raise RuntimeError(f"SystemExit: it called sys.exit({error.code!r})") from error
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        raise RuntimeError("CancelledError: it cancelled itself") from error


def _call_contained(function: Callable[[], T]) -> T:
    try:
        with contained():
            return function()
    except StopIteration as error:  # a future cannot hold it: its caller would wait forever
        raise RuntimeError("StopIteration: next() found nothing") from error
    except Exception:
        raise
    except BaseException as error:  # such as KeyboardInterrupt, which only the main thread is meant to raise
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


def _is_cancelled() -> bool:
    """Whether the current task is being cancelled; False in a thread."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


def described(error: Exception) -> str:
    """An exception of user code, as a model or a person reads it."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
