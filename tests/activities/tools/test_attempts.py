"""Errors of a tool that Temporal retries, and checkpoints: what each attempt leaves for the next one."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pydantic_core import to_json
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError

from tests.activities.attempts import ONCE, Attempts
from tests.activities.wiring import cache_of, environment, raw
from wakeful import Agent, GateCall, Registry, RetryLater, StateKey, ToolContext, ToolError, gate, tool
from wakeful.contract.error_text import error_text
from wakeful.contract.messages import ToolCall
from wakeful.contract.missing import NOT_ON_THIS_WORKER
from wakeful.contract.runs import RunIdentity
from wakeful.contract.state import StateView
from wakeful.contract.tool_attempts import RAISED_ERROR
from wakeful.contract.tools import ToolCallInput, ToolOutcome, ToolStatus
from wakeful_activities import ToolActivity
from wakeful_activities.heartbeats import HeartbeatIntervals
from wakeful_activities.hooks.gates import Gates
from wakeful_activities.hooks.hook_run import Hooks
from wakeful_activities.other_workers import OtherWorkers, Patience
from wakeful_activities.user_code import UserCode

raising: list[Exception] = []
"""What the next attempts raise, in this order."""
gated: list[str] = []
COUNT = StateKey("count", int, merge="add", default=0)


def _raise_next() -> str:
    if raising:
        raise raising.pop(0)
    return "fetched"


@tool(read_only=True, retries=3, retry_on=(TimeoutError, ConnectionError), retry_delay=2)
async def fetch() -> str:
    """Fetch."""
    return _raise_next()


@tool
def pay() -> str:
    """Pay once."""
    return _raise_next()


@tool(retries=0)
async def hurry() -> str:
    """Fail at once."""
    return _raise_next()


@tool(idempotent=True, retry_on=ConnectionError)
def copy(ctx: ToolContext) -> Any:
    """Copy three pages, and fail after one."""
    match ctx.last_checkpoint:
        case {"page": int(page)}:
            done = page
        case _:
            done = 0
    if done < 3:
        ctx.checkpoint({"page": done + 1})
        raise ConnectionError("cut off")
    return done


@tool(idempotent=True)
async def resume(how: str, ctx: ToolContext) -> Any:
    """Report, and perhaps make a checkpoint, until it is lost."""
    if how == "checkpoint":
        ctx.checkpoint([1, 2])
    ctx.report("resumed")
    if how != "again":
        await asyncio.Event().wait()
    return ctx.last_checkpoint


@tool(idempotent=True)
def mark(ctx: ToolContext) -> None:
    """Make two checkpoints in a thread, the second when the first was sent."""
    ctx.checkpoint(1)
    assert sent.wait(10)
    ctx.checkpoint(2)
    while not ctx.cancelled:
        time.sleep(0.001)


sent = threading.Event()


@tool
def wait(ctx: ToolContext) -> str:
    """Wait until it is cancelled, and want to be retried."""
    waiting.set()
    while not ctx.cancelled:
        time.sleep(0.001)
    raise RetryLater("cancelled in between")


waiting = threading.Event()


@tool
async def count(ctx: ToolContext) -> str:
    """Count, and fail at first."""
    ctx.state.add(COUNT, 1)
    return _raise_next()


@gate
async def watching(call: GateCall) -> None:
    gated.append(call.tool_name)


TOOLS = [fetch, pay, hurry, copy, resume, mark, wait, count]
NEW = Registry(agents=[Agent(id="a", tools=TOOLS), Agent(id="gated", tools=TOOLS, gates=[watching], state=[COUNT])])
OLD = Registry(agents=[Agent(id="old")])


@pytest.fixture(autouse=True)
def _nothing_raised() -> Iterator[None]:
    yield
    raising.clear()
    gated.clear()


def call_tool(registry: Registry = NEW) -> Any:
    """The activity of a worker with this registry, which heartbeats what has to be known at once."""
    code, intervals = UserCode(), HeartbeatIntervals(usual=3600, live=0)
    others = OtherWorkers(registry, Patience(timedelta(minutes=2), timedelta(minutes=15)))
    cache, hooks, gates = cache_of(NEW.resolve("gated")), Hooks(registry, code), Gates(registry, code)
    return ToolActivity(registry, cache, hooks, gates, code, intervals, others).call_tool


def input_of(tool: str, *, agent: str | None = None, **arguments: Any) -> Any:
    return raw(
        ToolCallInput(
            call=ToolCall(id="1-1", name=tool, arguments=arguments),
            identity=RunIdentity(thread_id="t", run_id="r", agent_id="a"),
            idempotency_key="r:1-1",
            agent=NEW.resolve(agent).digest() if agent else None,
            state=StateView() if agent else None,
        )
    )


def failed(error: object) -> str | None:
    """The text of a failure that Temporal retries."""
    assert isinstance(error, ApplicationError)
    assert (error.type, error.non_retryable) == (RAISED_ERROR, False)
    assert "boom" not in str(error)  # only its detail has the text, which a codec encrypts
    return error_text(error.details)


async def test_errors_of_the_listed_types_are_retried_with_a_growing_delay_and_then_the_model_reads_the_last() -> None:
    raising.extend([TimeoutError("boom 1"), ConnectionResetError("boom 2"), TimeoutError("boom 3"), TimeoutError("4")])
    attempts = Attempts(tool="fetch")
    failures = [await attempts.make(call_tool(), input_of("fetch")) for _ in range(3)]
    assert [failed(each) for each in failures] == [
        "Execution failed: TimeoutError: boom 1 [retry 1 of 3 follows]",
        "Execution failed: ConnectionResetError: boom 2 [retry 2 of 3 follows]",
        "Execution failed: TimeoutError: boom 3 [retry 3 of 3 follows]",
    ]
    for delay, longest in zip(attempts.delays, (2, 4, 8), strict=True):
        assert longest * 0.75 <= delay <= longest
    last = await attempts.make(call_tool(), input_of("fetch"))
    assert last.result.status is ToolStatus.ERROR
    assert last.result.message == (
        "Execution failed: TimeoutError: 4\nThe call was tried 4 times, and failed each time; this is the last error."
    )


@pytest.mark.parametrize("error", [ValueError("no"), ToolError("no")])
async def test_the_model_reads_other_errors_at_once(error: Exception) -> None:
    raising.append(error)
    outcome = await Attempts(tool="fetch").make(call_tool(), input_of("fetch"))
    assert isinstance(outcome, ToolOutcome)
    assert "tried" not in str(outcome.result.message)


async def test_an_error_that_is_not_retried_after_one_that_was_says_how_often_the_call_was_tried() -> None:
    raising.extend([TimeoutError(), ValueError("no")])
    attempts = Attempts(tool="fetch")
    await attempts.make(call_tool(), input_of("fetch"))
    outcome = await attempts.make(call_tool(), input_of("fetch"))
    assert outcome.result.message.startswith("Execution failed: ValueError: no\nThe call was tried 2 times")


async def test_a_tool_that_must_not_run_twice_is_retried_after_the_time_that_it_asks_for() -> None:
    """The three retries are the default."""
    raising.extend([RetryLater("rate limited", after=5), RetryLater("rate limited", after=0), RetryLater("locked")])
    attempts = Attempts(tool="pay", retry_policy=ONCE)
    failures = [await attempts.make(call_tool(), input_of("pay")) for _ in range(3)]
    assert failed(failures[0]) == "Execution failed: rate limited [retry 1 of 3 follows]"
    assert attempts.delays[:2] == [5, 0.001]
    assert 3 <= attempts.delays[2] <= 4
    paid = await attempts.make(call_tool(), input_of("pay"))
    assert paid.result.data == "fetched"


async def test_a_lost_worker_after_a_retry_still_means_that_the_outcome_is_unknown() -> None:
    raising.append(RetryLater("locked"))
    attempts = Attempts(tool="pay", retry_policy=ONCE)
    await attempts.make(call_tool(), input_of("pay"))
    attempts.attempt += 1  # executed, and its worker stopped
    lost = await attempts.make(call_tool(), input_of("pay"))
    assert isinstance(lost, ApplicationError)
    assert (lost.type, lost.non_retryable) == ("WorkersLost", True)


async def test_lost_workers_and_workers_without_the_tool_do_not_use_up_retries() -> None:
    raising.extend(TimeoutError() for _ in range(4))
    attempts = Attempts(tool="fetch")
    await attempts.make(call_tool(), input_of("fetch"))
    attempts.attempt += 5
    await attempts.make(call_tool(), input_of("fetch"))
    without = await attempts.make(call_tool(OLD), input_of("fetch"))
    assert without.type == NOT_ON_THIS_WORKER
    attempts.attempt += 5
    third = await attempts.make(call_tool(), input_of("fetch"))
    assert str(failed(third)).endswith("[retry 3 of 3 follows]")
    last = await attempts.make(call_tool(), input_of("fetch"))
    assert "The call was tried 4 times" in last.result.message


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("hurry", {}),
        ("pay", {"is_local": True}),
        ("pay", {"retry_policy": RetryPolicy(maximum_attempts=1)}),
    ],
)
async def test_a_call_that_cannot_be_retried_ends_with_its_error(tool: str, given: dict[str, Any]) -> None:
    raising.append(RetryLater("busy"))
    outcome = await Attempts(tool=tool, **given).make(call_tool(), input_of(tool))
    assert outcome.result.message == "Execution failed: busy"


async def test_a_cancelled_call_is_not_retried() -> None:
    running = environment(tool="wait")
    attempt = asyncio.create_task(running.run(call_tool(), input_of("wait")))
    await asyncio.to_thread(waiting.wait, 10)
    running.cancel()
    outcome = await attempt
    assert outcome.result.message == "Execution failed: cancelled in between"


async def test_each_attempt_is_gated_and_only_the_last_one_changes_the_state() -> None:
    raising.append(RetryLater("busy"))
    attempts = Attempts(tool="count")
    await attempts.make(call_tool(), input_of("count", agent="gated"))
    outcome = await attempts.make(call_tool(), input_of("count", agent="gated"))
    assert gated == ["count", "count"]
    assert [each.key for each in outcome.effects.state] == ["count"]


async def test_a_sync_tool_continues_from_the_checkpoint_that_it_made_just_before_it_failed() -> None:
    attempts = Attempts(tool="copy")
    for page in (1, 2, 3):
        failed(await attempts.make(call_tool(), input_of("copy")))
        assert {"page": page} in [each.get("checkpoint") for each in attempts.heartbeat if isinstance(each, dict)]
    outcome = await attempts.make(call_tool(), input_of("copy"))
    assert outcome.result.data == 3


async def test_heartbeats_carry_the_checkpoint_of_an_earlier_attempt_until_there_is_a_new_one() -> None:
    """Also those of a worker that lacks the tool."""
    attempts = Attempts(tool="resume")
    for how in ("checkpoint", "lost"):
        attempts.attempt += 1
        attempts.heartbeat = await _heartbeats_until_lost(attempts, how)
        shown, left = [each for each in attempts.heartbeat if isinstance(each, dict)]
        assert (shown, left["checkpoint"]) == ({"message": "resumed"}, [1, 2])
    await attempts.make(call_tool(OLD), input_of("resume", how="again"))
    outcome = await attempts.make(call_tool(), input_of("resume", how="again"))
    assert outcome.result.data == [1, 2]


async def _heartbeats_until_lost(attempts: Attempts, how: str) -> list[Any]:
    """The newest heartbeat of an attempt whose worker is lost."""
    running = environment(tool="resume")
    running.info = replace(running.info, attempt=attempts.attempt, heartbeat_details=attempts.heartbeat)
    beats: list[Any] = []
    running.on_heartbeat = lambda *details: beats.__setitem__(slice(None), json.loads(to_json(details)))
    input = input_of("resume", how=how)
    call = ToolCallInput.model_validate_json(input[0].payload.data).model_copy(update={"live": True})
    attempt = asyncio.create_task(running.run(call_tool(), raw(call)))
    async with asyncio.timeout(10):
        while {"message": "resumed"} not in beats:
            await asyncio.sleep(0.001)
    attempt.cancel()
    await asyncio.gather(attempt, return_exceptions=True)
    return beats


async def test_a_checkpoint_is_sent_at_once_although_no_one_watches() -> None:
    """Other heartbeats are an hour apart here. The first detail, which watchers read, is empty."""
    running, beats = environment(tool="mark"), []
    running.on_heartbeat = lambda *details: beats.append(json.loads(to_json(details)))
    attempt = asyncio.create_task(running.run(call_tool(), input_of("mark")))
    async with asyncio.timeout(10):
        for number in (1, 2):
            while len(beats) < number:
                await asyncio.sleep(0.001)
            sent.set()
    assert [beat[:2] for beat in beats] == [[None, {"raised_errors": 0, "checkpoint": number}] for number in (1, 2)]
    running.cancel()
    await attempt
