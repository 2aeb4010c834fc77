"""A worker names the async code that blocks its event loop, while it blocks. Code that awaits is not named."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.waiting import BOUND_SECONDS
from wakeful import Agent, Registry, ScriptedModel, call, say, tool
from wakeful.client.client import Client
from wakeful.worker import WorkerSettings, running_worker
from wakeful_activities.blocked_loop import REMEDY, running_in_loop, warning_of_blocked_loop
from wakeful_activities.user_code import UserCode

in_own_loop = pytest.mark.asyncio(loop_scope="function")
"""The loop of the session has a watch already, if a worker of the session runs: it would share it, and its patience."""


class Warnings(logging.Handler):
    """The warnings about the event loop, which code that blocks can wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: list[dict[str, Any]] = []
        self.blocked = threading.Event()
        self.resumed = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("event loop"):
            self.fields.append({"message": record.getMessage(), **vars(record)})
            (self.blocked if record.getMessage() == "event loop blocked" else self.resumed).set()

    def block(self) -> None:
        """Block the calling thread until there is a warning."""
        assert self.blocked.wait(BOUND_SECONDS), "no warning"


@pytest.fixture
def warnings() -> Iterator[Warnings]:
    handler, logger = Warnings(), logging.getLogger("wakeful")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


async def test_a_worker_warns_of_an_async_tool_that_blocks_its_event_loop(
    temporal: TemporalClient, thread_id: str, warnings: Warnings
) -> None:
    @tool
    async def fetch(url: str) -> str:
        """Fetch a page."""
        warnings.block()
        return f"the page {url}"

    script = ScriptedModel([call("fetch", url="a"), say("{result}")])
    registry = Registry(agents=[Agent(id="reader", tools=[fetch])], models={"default": script})
    async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
        result = await Client(temporal, task_queue=thread_id).run("reader", "Read.", thread_id=thread_id)
        assert result.response == "the page a"
        assert await asyncio.to_thread(warnings.resumed.wait, BOUND_SECONDS)
    blocked, resumed = warnings.fields
    assert (blocked["levelname"], blocked["message"], blocked["code"], blocked["remedy"]) == (
        *("WARNING", "event loop blocked", "tool fetch"),
        REMEDY,
    )
    assert blocked["at"].startswith("test_blocked_loop.py:")
    assert blocked["at"].endswith(" in fetch")
    assert (resumed["message"], resumed["code"]) == ("event loop runs again", "tool fetch")
    assert resumed["seconds"] >= blocked["seconds"] >= 0.9


@in_own_loop
async def test_a_task_of_user_code_that_blocks_is_named_after_that_code(warnings: Warnings) -> None:
    async def part() -> None:
        warnings.block()

    async def hook(_: object) -> None:
        await asyncio.gather(part(), asyncio.sleep(0))

    async with warning_of_blocked_loop(0.1):
        await UserCode().call("hook guard.before_tool", hook, None)
    assert [(each["code"], each["at"].partition(" in ")[2]) for each in warnings.fields[:1]] == [
        ("hook guard.before_tool", "part")
    ]


@in_own_loop
@pytest.mark.parametrize("is_sync", [True, False], ids=["sync", "async"])
async def test_code_that_does_not_block_the_loop_is_not_warned_of(warnings: Warnings, is_sync: bool) -> None:
    """The loop beats meanwhile: the watch is as fast as it can be, and sees nothing in four times its patience."""
    beats = asyncio.Event()
    patience, loop = 0.1, asyncio.get_running_loop()
    released = threading.Event()

    async def awaits(_: object) -> None:
        await beats.wait()

    functions: dict[bool, Callable[[object], Any]] = {True: lambda _: released.wait(BOUND_SECONDS), False: awaits}
    async with warning_of_blocked_loop(patience):
        loop.call_later(4 * patience, beats.set)
        loop.call_later(4 * patience, released.set)
        await UserCode().call("gate allow", functions[is_sync], None)
    assert warnings.fields == []


@in_own_loop
async def test_workers_in_one_loop_share_a_watch_until_the_last_has_stopped(warnings: Warnings) -> None:
    others = watches()
    async with contextlib.AsyncExitStack() as last:
        async with warning_of_blocked_loop(0.1):
            await last.enter_async_context(warning_of_blocked_loop(0.1))
            assert len(watches() - others) == 1
        with running_in_loop("tool fetch"):
            warnings.block()
        assert await asyncio.to_thread(warnings.resumed.wait, BOUND_SECONDS)
    assert [each["message"] for each in warnings.fields] == ["event loop blocked", "event loop runs again"]
    assert watches() <= others


def watches() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "wakeful-loop-watch"}


@in_own_loop
async def test_a_loop_that_blocks_outside_of_user_code_is_not_warned_of(warnings: Warnings) -> None:
    async with warning_of_blocked_loop(0.05):
        assert not warnings.blocked.wait(0.3)
    assert warnings.fields == []
