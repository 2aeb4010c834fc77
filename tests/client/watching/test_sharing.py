"""Many who ask the same at the same time are one question, and nobody gets an answer from before they asked."""

import asyncio

import pytest

from wakeful.client.watching.retrying import Shared


class Counter:
    """Answers with the number of the question, when it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()

    async def ask(self) -> int:
        self.asked += 1
        number = self.asked
        await self.may_answer.wait()
        return number


async def test_who_asks_meanwhile_shares_the_next_question() -> None:
    shared, counter = Shared(), Counter()
    first = asyncio.create_task(shared.newest("key", counter.ask))
    await asyncio.sleep(0)
    others = [asyncio.create_task(shared.newest("key", counter.ask)) for _ in range(50)]
    elsewhere = asyncio.create_task(shared.newest("other", counter.ask))
    await asyncio.sleep(0)
    counter.may_answer.set()
    assert await first == 1
    assert await elsewhere == 2
    assert set(await asyncio.gather(*others)) == {3}


async def test_who_leaves_takes_the_question_from_nobody() -> None:
    shared, counter = Shared(), Counter()
    asking = [asyncio.create_task(shared.newest("key", counter.ask)) for _ in range(3)]
    await asyncio.sleep(0)
    for task in asking[:2]:
        task.cancel()
    counter.may_answer.set()
    assert await asking[2] in (1, 2)


async def test_a_failure_is_everybodys_and_is_not_kept() -> None:
    shared = Shared()

    async def fail() -> int:
        raise ValueError("no")

    async def answer() -> int:
        return 7

    for ask in (shared.newest("key", fail), shared.newest("key", fail), shared.recent("key", fail, within=0)):
        with pytest.raises(ValueError, match="no"):
            await ask
    assert await shared.newest("key", answer) == 7


async def test_a_recent_answer_is_good_for_a_while() -> None:
    shared, counter = Shared(), Counter()
    counter.may_answer.set()
    assert [await shared.recent("key", counter.ask, within=60) for _ in range(5)] == [1] * 5
