"""No test hangs: each has a time limit, and fails if an event loop was blocked while it ran."""

import asyncio
import contextlib
import faulthandler
import functools
import inspect
import signal
from collections.abc import Awaitable, Callable, Iterator
from types import FrameType

import pytest

from tests.support.blocked_loops import Blocked, watching_loops

MARKED_SECONDS = {"integration": 600, "faults": 3600}
"""The limits of marked tests; others have `time_limit` of pyproject.toml."""

BODY = 0.9
"""The part of its limit that an async test's body may take. It is cancelled then, which shows the line where it waits
and cleans up; a signal ends what does not react to that, and fixtures."""


LEFT_SECONDS = 30
"""What is left to a test that has blocked an event loop, which may be blocked for ever."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("time_limit", "seconds that a test may take, and its fixtures before and after it", default="120")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_TimeLimits(config))


class _TimeLimits:
    def __init__(self, config: pytest.Config) -> None:
        self._seconds = float(config.getini("time_limit"))
        self._blocked: list[Blocked] = []
        self._may_block = True
        self._watching = contextlib.ExitStack()

    def pytest_sessionstart(self) -> None:
        self._watching.enter_context(watching_loops(self._on_blocked))

    def pytest_sessionfinish(self) -> None:
        self._watching.close()

    @pytest.hookimpl(trylast=True)  # conftest.py adds markers
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
                item.obj = _limited(item.obj, BODY * self._limit(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        with _ended_after(self._limit(item)):
            yield

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        self._blocked.clear()
        try:
            with _ended_after(self._limit(item)):
                self._may_block = item.get_closest_marker("blocks_loop") is not None
                yield
        finally:
            self._may_block = True  # fixtures start servers and workers, once
            if self._blocked:
                pytest.fail(str(self._blocked[0]), pytrace=False)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        with _ended_after(self._limit(item)):
            yield

    def _on_blocked(self, blocked: Blocked) -> None:
        if not self._may_block:
            self._blocked.append(blocked)
            signal.setitimer(signal.ITIMER_REAL, LEFT_SECONDS)

    def _limit(self, item: pytest.Item) -> float:
        return max(
            [self._seconds, *(seconds for name, seconds in MARKED_SECONDS.items() if item.get_closest_marker(name))]
        )


@contextlib.contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """Raise an error in the main thread, wherever it is then."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        faulthandler.dump_traceback(2)  # of all threads
        pytest.fail(f"not finished after {seconds:.0f} s")

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)  # again: what catches the error may hang, too
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _limited(body: Callable[..., Awaitable[None]], seconds: float) -> Callable[..., Awaitable[None]]:
    @functools.wraps(body)
    async def limited(*args: object, **kwargs: object) -> None:
        try:
            async with asyncio.timeout(seconds) as limit:
                await body(*args, **kwargs)
        except TimeoutError:
            if limit.expired():
                pytest.fail(f"not finished after {seconds:.0f} s")  # the error that it follows shows where it waited
            raise

    return limited
