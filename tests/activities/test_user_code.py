"""Sync code runs in threads that nothing can stop: those that hang cost other calls nothing, and are counted."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from wakeful_activities.user_code import UserCode, contained


@pytest.fixture
def hang() -> Iterator[Callable[[], str]]:
    """A function that returns when the test has ended."""
    released = threading.Event()
    yield lambda: str(released.wait())
    released.set()


async def cut_off(user_code: UserCode, function: Callable[[], object]) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await user_code.in_thread("tool fetch", function)


async def test_calls_that_hang_leave_every_thread_to_other_calls(hang: Callable[[], str]) -> None:
    user_code = UserCode(max_threads=1)
    for _ in range(40):
        await cut_off(user_code, hang)
    async with asyncio.timeout(10):
        assert await user_code.in_thread("gate allow", lambda: "allowed") == "allowed"


async def test_only_so_many_calls_run_at_a_time() -> None:
    user_code, running, most = UserCode(max_threads=2), 0, 0

    def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        started.wait(0.05)
        running -= 1

    started = threading.Event()
    await asyncio.gather(*(user_code.in_thread("tool work", work) for _ in range(6)))
    assert most == 2


async def test_an_abandoned_thread_is_counted_and_logged_until_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    counts: asyncio.Queue[int] = asyncio.Queue()
    user_code, released = UserCode(on_abandoned=counts.put_nowait), threading.Event()
    with caplog.at_level(logging.WARNING, "wakeful"):
        await cut_off(user_code, released.wait)
        await cut_off(user_code, released.wait)
    assert (user_code.abandoned, user_code.is_full.is_set()) == (2, False)
    assert [vars(record)["code"] for record in caplog.records if record.message == "thread abandoned"] == [
        "tool fetch",
        "tool fetch",
    ]
    released.set()
    async with asyncio.timeout(10):
        assert [await counts.get() for _ in range(4)] == [1, 2, 1, 0]


async def test_too_many_abandoned_threads_mean_that_the_worker_is_full(hang: Callable[[], str]) -> None:
    user_code = UserCode(max_abandoned=2)
    await cut_off(user_code, hang)
    assert not user_code.is_full.is_set()
    await cut_off(user_code, hang)
    assert user_code.is_full.is_set()


async def test_a_cancelled_function_that_returns_in_time_is_not_abandoned() -> None:
    user_code, stopped = UserCode(), threading.Event()

    def work() -> str:
        return f"stopped: {stopped.wait()}"

    call = asyncio.create_task(user_code.in_thread("tool work", work, on_cancel=stopped.set, grace_seconds=10))
    await asyncio.sleep(0)
    call.cancel()
    assert (await call, user_code.abandoned) == ("stopped: True", 0)


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (SystemExit(2), "SystemExit: it called sys.exit(2)"),
        (KeyboardInterrupt(), "KeyboardInterrupt: "),
        (asyncio.CancelledError(), "CancelledError: it cancelled itself"),
        (StopIteration(), "StopIteration: next() found nothing"),
    ],
)
async def test_what_would_stop_a_worker_or_look_cancelled_is_an_ordinary_error(
    error: BaseException, raised: str
) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(RuntimeError) as caught:
        await UserCode().in_thread("tool fail", fail)
    assert str(caught.value) == raised


async def test_a_cancellation_of_the_call_stays_one() -> None:
    async def work() -> None:
        with contained():
            await asyncio.Event().wait()

    call = asyncio.create_task(work())
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
