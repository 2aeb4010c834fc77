"""Watchers of one client that need the same result make one call, and none gets a result from before it asked."""

import asyncio

import pytest

from wakeful.client.watching.retrying import SharedCalls


class Counter:
    """A call that returns its number, once it may return."""

    def __init__(self) -> None:
        self.calls = 0
        self.may_return = asyncio.Event()

    async def call(self) -> int:
        self.calls += 1
        number = self.calls
        await self.may_return.wait()
        return number


async def test_callers_who_come_while_a_call_is_in_flight_share_the_next_one() -> None:
    shared, counter = SharedCalls(), Counter()
    first = asyncio.create_task(shared.fresh("key", counter.call))
    await asyncio.sleep(0)
    others = [asyncio.create_task(shared.fresh("key", counter.call)) for _ in range(50)]
    elsewhere = asyncio.create_task(shared.fresh("other", counter.call))
    await asyncio.sleep(0)
    counter.may_return.set()
    assert await first == 1
    assert await elsewhere == 2
    assert set(await asyncio.gather(*others)) == {3}


async def test_a_caller_that_is_cancelled_does_not_cancel_the_call_of_the_others() -> None:
    shared, counter = SharedCalls(), Counter()
    callers = [asyncio.create_task(shared.fresh("key", counter.call)) for _ in range(3)]
    await asyncio.sleep(0)
    for task in callers[:2]:
        task.cancel()
    counter.may_return.set()
    assert await callers[2] in (1, 2)


async def test_a_failure_reaches_every_caller_and_is_not_cached() -> None:
    shared = SharedCalls()

    async def fail() -> int:
        raise ValueError("no")

    async def succeed() -> int:
        return 7

    for call in (shared.fresh("key", fail), shared.fresh("key", fail)):
        with pytest.raises(ValueError, match="no"):
            await call
    assert await shared.fresh("key", succeed) == 7
