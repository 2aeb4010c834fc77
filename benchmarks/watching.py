"""What watching costs: the same run with nobody, one and many watching it, weighed; and a peer's, for comparison.

The run asks a person first. When everybody who watches has seen that, it is let go on: it calls tools step by step and
then says many words. So all watchers are there from the decision on, and that is where its time begins.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHandle

from benchmarks.audience import AUDIENCE, Watched
from benchmarks.bare_stream import BareTelling
from benchmarks.clocks import cpu_seconds
from benchmarks.figures import Results, WatchedRun, percentile
from benchmarks.lags import TOKENS, measure_token_lag, measure_visible
from benchmarks.peer_stream import PeerStream, view
from benchmarks.plan import Plan
from benchmarks.samples import say
from benchmarks.sides import OURS, PEER, STREAMED, WATCHED
from benchmarks.stage import PATIENCE_SECONDS, Bare, Stage, Wakeful, child_process, streaming_bare, streaming_ours
from benchmarks.workload import ASK, PAD, TOKEN, Work, words
from tests.support.fake_provider.asked import Asked
from tests.support.fake_provider.script import Answer, Call
from tests.support.fake_provider.server import FakeProvider, fake_provider

STEPS = 6
"""The first of them waits for a decision."""
RESULT_BYTES = 200

_TRIED_AGAIN = {EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED, EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT}


async def measure_watching(stage: Stage, plan: Plan, results: Results) -> None:
    """What watchers add to a run's history and time, and how late they see its words and its decisions."""
    async with (
        fake_provider(validate=False) as provider,
        streaming_ours(stage, WATCHED, provider.chat_url) as ours,
        streaming_bare(stage, PeerStream.__name__, provider.chat_url) as bare,
    ):
        await _measure_watched(stage, ours, provider, plan, results)
        await _measure_peer(stage, replace(bare, name=PEER), provider, plan, results)
        telling = replace(bare, workflow=BareTelling.__name__)
        await measure_token_lag(replace(ours, agent=STREAMED), telling, provider, plan, results)
    await measure_visible(stage, plan, results)


async def _measure_watched(stage: Stage, side: Wakeful, provider: FakeProvider, plan: Plan, results: Results) -> None:
    await _watched(stage, side, provider, pause=0, watchers=0)  # everybody is warm for those that count
    for repeat in range(plan.watched):
        for watchers in plan.watchers if repeat % 2 == 0 else reversed(plan.watchers):
            say(f"watching: {watchers} watchers, {repeat + 1} of {plan.watched}")
            results.watched.append(await _watched(stage, side, provider, pause=plan.pause, watchers=watchers))


async def _watched(stage: Stage, side: Wakeful, provider: FakeProvider, *, pause: float, watchers: int) -> WatchedRun:
    provider.forget()  # also its numbers: the answers of all runs are to carry request ids of one length
    provider.always(_script(pause))
    id = await side.start(Work(STEPS, RESULT_BYTES))
    async with _audience(stage, id, watchers) as seen, asyncio.timeout(PATIENCE_SECONDS):
        await _until_asked(side.client.handle(id))
        began, cpu_before = time.perf_counter(), cpu_seconds(side.pid)
        await side.decide(id)
        answer = await side.result(id)
        seconds, cpu_after = time.perf_counter() - began, cpu_seconds(side.pid)
        audience = await seen()
    _check(answer, audience)
    sent_at = provider.asked[-1].sent_at
    lags = [lag for watched in audience for lag in watched.sights.lags(sent_at)]
    weighed = await _weighed(stage, OURS, id, watchers)
    weighed.seconds = seconds
    if cpu_before is not None and cpu_after is not None:
        weighed.worker_cpu = cpu_after - cpu_before
    if lags:
        weighed.lag_p50, weighed.lag_p95 = percentile(lags, 50), percentile(lags, 95)
    return weighed


async def _measure_peer(stage: Stage, side: Bare, provider: FakeProvider, plan: Plan, results: Results) -> None:
    """The answer alone, without the steps before it. Only what is written counts, so all runs are made at once."""
    provider.forget()
    provider.always(Answer(words(TOKENS), chunk=TOKEN, pause=plan.pause))

    async def viewed(viewers: int) -> WatchedRun:
        say(f"watching: {side.name}, {viewers} viewers")
        id = await side.start(Work(0, TOKENS))
        audience = asyncio.gather(*(view(stage.client, id) for _ in range(viewers)))
        answer = await side.result(id)
        if {answer, *await audience} != {words(TOKENS)}:
            raise RuntimeError(f"a viewer of {side.name!r} lost or doubled words")
        return await _weighed(stage, PEER, id, viewers)

    async with asyncio.timeout(PATIENCE_SECONDS):
        results.watched += await asyncio.gather(*(viewed(viewers) for viewers in plan.viewers))


async def _weighed(stage: Stage, side: str, id: str, watchers: int) -> WatchedRun:
    [execution] = await stage.executions(id)
    return WatchedRun(
        side=side,
        watchers=watchers,
        tokens=TOKENS,
        events=execution.events,
        bytes=execution.timeless_bytes,
        tried_again=sum(event.event_type in _TRIED_AGAIN for event in execution.history.events),
    )


def _check(answer: str, audience: Sequence[Watched]) -> None:
    if {answer, *(watched.sights.text for watched in audience)} != {words(TOKENS)}:
        raise RuntimeError("a watcher lost or doubled words")
    if len(ends := {watched.last for watched in audience}) > 1:
        raise RuntimeError(f"watchers of one run saw it end at different events: {sorted(ends)}")


def _script(pause: float) -> Callable[[Asked], Answer]:
    """The model: a call that a person has to agree to, the other steps, and then the words."""

    def reply(asked: Asked) -> Answer:
        done = sum(turn.role == "tool" for turn in asked.turns)
        if done == STEPS:
            return Answer(words(TOKENS), chunk=TOKEN, pause=pause)
        arguments = json.dumps({"step": done + 1, "size": RESULT_BYTES})
        return Answer(calls=(Call(f"call_{done + 1}", PAD if done else ASK, arguments),))

    return reply


@contextlib.asynccontextmanager
async def _audience(
    stage: Stage, id: str, watchers: int
) -> AsyncIterator[Callable[[], Coroutine[None, None, list[Watched]]]]:
    """So many watchers while the body runs, once they have seen the run pause; asked, they tell what they have seen."""

    async def told() -> list[Watched]:
        return AUDIENCE.validate_json(await says.readline())

    async def nobody() -> list[Watched]:
        return []

    if not watchers:
        yield nobody
        return
    async with child_process("benchmarks.audience", stage.address, id, str(watchers)) as (_pid, says):
        yield told


async def _until_asked(handle: WorkflowHandle[Any, Any]) -> None:
    """The run waits for the decision. History says so: asking the run itself would make a watcher of the benchmark."""
    asking: int | None = None
    asked = False
    async for event in handle.fetch_history_events(wait_new_event=True):
        if event.activity_task_scheduled_event_attributes.activity_id == "tool-1-1":
            asking = event.event_id
        elif asking is not None and event.activity_task_completed_event_attributes.scheduled_event_id == asking:
            asked = True
        elif asked and event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            return
    raise RuntimeError(f"run {handle.id!r} ended without asking anybody")
