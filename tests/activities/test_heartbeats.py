"""How often activities heartbeat: news of a run that is watched goes out soon, other news with the next heartbeat."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.activities.wiring import cache_of, environment, raw
from wakeful import (
    Agent,
    ContextPolicy,
    HookContext,
    ModelRequest,
    Plugin,
    Registry,
    StopPart,
    StopReason,
    StreamPart,
    TextPart,
    ToolContext,
    tool,
)
from wakeful.contract.hooks import HooksInput, LifecyclePhase
from wakeful.contract.inference import CompactInput, CompactOutput, InferInput, TranscriptRef
from wakeful.contract.messages import Message, Role, TextBlock, ToolCall
from wakeful.contract.runs import RunIdentity
from wakeful.contract.tools import ToolCallInput
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful_activities import HooksActivity, InferActivity, ToolActivity
from wakeful_activities.compact import CompactActivity
from wakeful_activities.heartbeats import HeartbeatIntervals
from wakeful_activities.hooks.gates import Gates
from wakeful_activities.hooks.hook_run import Hooks
from wakeful_activities.user_code import UserCode

LONG = (TextBlock(text="word " * 900),)
ASKED = Message(id="1", role=Role.USER, content=(TextBlock(text="go"),))
RARELY_AND_AT_ONCE = HeartbeatIntervals(usual=3600, live=0)
IDENTITY = RunIdentity(thread_id="t", run_id="r", agent_id="a")


async def _let_heartbeats_out() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Writer:
    """Writes three words, and waits after each for the event loop."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        for word in ("one ", "two ", "three"):
            yield TextPart(word)
            await _let_heartbeats_out()
        yield StopPart(StopReason.END_TURN)


@tool
async def dig(ctx: ToolContext) -> str:
    """Dig."""
    for percent in (0.2, 0.4):
        ctx.report("digging", progress=percent)
        await _let_heartbeats_out()
    return "done"


REGISTRY = Registry(agents=[Agent(id="a", model="m", tools=[dig])], models={"m": Writer()})


async def heartbeats(activity: Any, argument: Any, *, within: timedelta | None = None) -> list[tuple[Any, ...]]:
    """What the activity heartbeats while it runs."""
    beats: list[tuple[Any, ...]] = []
    running = environment(tool="dig")
    running.info = replace(running.info, heartbeat_timeout=within)
    running.on_heartbeat = lambda *details: beats.append(details)
    await running.run(activity, argument)
    return beats


def inference(intervals: HeartbeatIntervals) -> InferActivity:
    cache = cache_of(REGISTRY.resolve("a"))
    return InferActivity(
        REGISTRY, cache, Hooks(REGISTRY, UserCode()), Gates(REGISTRY, UserCode()), {}, intervals=intervals
    )


def infer_input(*, live: bool) -> InferInput:
    ref = TranscriptRef(length=1, digest=chained(EMPTY_DIGEST, ASKED))
    return InferInput(agent=REGISTRY.resolve("a").digest(), transcript=ref, appended=(ASKED,), live=live)


async def test_an_answer_that_is_watched_is_heartbeaten_while_it_is_written() -> None:
    beats = await heartbeats(inference(RARELY_AND_AT_ONCE).infer, infer_input(live=True))
    assert [checkpoint.text for checkpoint, _ in beats] == ["one ", "one two ", "one two three"]


async def test_an_answer_that_is_not_watched_is_heartbeaten_at_the_usual_interval_only() -> None:
    activity = inference(RARELY_AND_AT_ONCE)
    assert await heartbeats(activity.infer, infer_input(live=False)) == []
    often = inference(HeartbeatIntervals(usual=0, live=3600))
    checkpoint, next_in = (await heartbeats(often.infer, infer_input(live=False)))[-1]
    assert (checkpoint.text, next_in) == ("one two three", 0.0)


@pytest.mark.parametrize(("live", "reported"), [(True, [0.2, 0.4]), (False, [])])
async def test_the_progress_of_a_tool_is_heartbeaten_soon_if_it_is_watched(live: bool, reported: list[float]) -> None:
    code, cache = UserCode(), cache_of(REGISTRY.resolve("a"))
    hooks, gates = Hooks(REGISTRY, code), Gates(REGISTRY, code)
    activity = ToolActivity(REGISTRY, cache, hooks, gates, code, RARELY_AND_AT_ONCE)
    input = ToolCallInput(
        call=ToolCall(id="1-1", name="dig", arguments={}), identity=IDENTITY, idempotency_key="k", live=live
    )
    assert [report["progress"] for report, _ in await heartbeats(activity.call_tool, raw(input))] == reported


class Slow(Plugin):
    id = "slow"

    async def run_start(self, ctx: HookContext) -> None:
        await _let_heartbeats_out()


@pytest.mark.parametrize(("usual", "beats"), [(0, True), (3600, False)])
async def test_hooks_heartbeat_at_the_usual_interval(usual: float, beats: bool) -> None:
    registry = Registry(agents=[Agent(id="a", model="m", plugins=[Slow()])], models={"m": Writer()})
    agent = registry.resolve("a")
    hooks = HooksActivity(cache_of(agent), Hooks(registry, UserCode()), HeartbeatIntervals(usual=usual))
    input = HooksInput(agent=agent.digest(), phases=(LifecyclePhase.RUN_START,), identity=IDENTITY, step=0)
    assert bool(await heartbeats(hooks.run_hooks, input, within=timedelta(hours=3))) is beats


@pytest.mark.parametrize(("usual", "beats"), [(0, True), (3600, False)])
async def test_a_summary_heartbeats_at_the_usual_interval(usual: float, beats: bool) -> None:
    policy = ContextPolicy(max_context_tokens=20_000, max_output_tokens=100, autocompact_threshold=2_000)
    said = tuple(ASKED.model_copy(update={"id": str(number), "content": LONG}) for number in range(6))
    digest = EMPTY_DIGEST
    for message in said:
        digest = chained(digest, message)
    registry = Registry(agents=[Agent(id="a", model="m", context=policy)], models={"m": Writer()})
    cache, ref = cache_of(registry.resolve("a")), TranscriptRef(length=len(said), digest=digest)
    hooks, gates = Hooks(registry, UserCode()), Gates(registry, UserCode())
    infer = InferActivity(registry, cache, hooks, gates, {}, intervals=HeartbeatIntervals(usual=usual))

    async def compact(input: CompactInput) -> CompactOutput:
        await cache.transcript(InferInput(agent="", transcript=ref, appended=said))
        return await CompactActivity(infer, cache).compact(input)

    input = CompactInput(agent=registry.resolve("a").digest(), transcript=ref)
    assert bool(await heartbeats(compact, input, within=timedelta(hours=3))) is beats


async def test_an_activity_heartbeats_before_its_heartbeat_times_out() -> None:
    activity = inference(RARELY_AND_AT_ONCE)
    assert await heartbeats(activity.infer, infer_input(live=False), within=timedelta(microseconds=2)) != []
