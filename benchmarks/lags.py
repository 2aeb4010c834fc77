"""How late a watcher is: from a token that the provider sends, and from a decision, to the moment it can be seen."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from temporalio.api.enums.v1 import EventType

from benchmarks.audience import watch
from benchmarks.bare_stream import answer
from benchmarks.figures import Results, percentile
from benchmarks.plan import Plan
from benchmarks.samples import add, in_turn, new_series, say
from benchmarks.sides import BARE, DIRECT, OURS
from benchmarks.sights import Sights
from benchmarks.stage import PATIENCE_SECONDS, Bare, Side, Stage, Wakeful
from benchmarks.workload import ASK, TOKEN, Work, words
from tests.support.fake_provider.script import Answer
from tests.support.fake_provider.server import FakeProvider
from wakeful.client.watching.watcher import POLL_SECONDS
from wakeful.contract.events import RunFinish

TOKENS = 400
"""Of an answer that is watched."""
THOUGHT_SECONDS = 0.2
"""Between a question and the answer to it, so that whoever watches has nothing left to read."""


async def measure_token_lag(ours: Wakeful, bare: Bare, provider: FakeProvider, plan: Plan, results: Results) -> None:
    """All sides at once: they spend the time waiting, and so meet the same noise."""
    p50 = new_series(results, "watching.lag_p50", "token lag, p50", "ms")
    p95 = new_series(results, "watching.lag_p95", "token lag, p95", "ms")
    watchers = {BARE: _watch_bare(bare), OURS: _watch_ours(ours), DIRECT: _read(provider.chat_url)}
    for number in range(plan.answers):
        say(f"watching: token lag, {number + 1} of {plan.answers}")
        provider.forget()
        provider.always(Answer(words(TOKENS), chunk=TOKEN, pause=plan.pause))
        async with asyncio.timeout(PATIENCE_SECONDS):
            seen = await asyncio.gather(*(watcher(Work(0, TOKENS)) for watcher in watchers.values()))
        sent_at = {asked.model: asked.sent_at for asked in provider.asked}
        for name, sights in zip(watchers, seen, strict=True):
            if sights.text != words(TOKENS):
                raise RuntimeError(f"the watcher of {name!r} lost or doubled words")
            lags = sights.lags(sent_at[name])
            for series, percent in ((p50, 50), (p95, 95)):
                series.samples.setdefault(name, []).append(round(percentile(lags, percent), 2))


Watcher = Callable[[Work], Awaitable[Sights]]


def _watch_ours(side: Wakeful) -> Watcher:
    async def watcher(work: Work) -> Sights:
        return (await watch(side.client, await side.start(work), asyncio.Event())).sights

    return watcher


def _watch_bare(side: Bare) -> Watcher:
    """Look at the pending activity as often as our watcher does, and at the result when there is one."""

    async def watcher(work: Work) -> Sights:
        sights = Sights()
        id = await side.start(work)
        result = asyncio.create_task(side.result(id))
        handle = side.client.get_workflow_handle(id)
        while not result.done():
            for pending in (await handle.describe()).raw_description.pending_activities:
                for text in await side.client.data_converter.decode(pending.heartbeat_details.payloads):
                    sights.read(text)
            await asyncio.wait({result}, timeout=POLL_SECONDS)
        sights.read(await result)
        return sights

    return watcher


def _read(url: str) -> Watcher:
    async def watcher(work: Work) -> Sights:
        sights, text = Sights(), ""
        async for delta in answer(url, DIRECT, str(work)):
            text += delta
            sights.read(text)
        return sights

    return watcher


async def measure_visible(stage: Stage, plan: Plan, results: Results) -> None:
    """From sending a decision to seeing what it brought about, by whoever has been watching."""
    series = new_series(results, "watching.visible", "decision to visible", "ms")
    for repeat in range(plan.repeat * plan.decisions):
        for side in in_turn(stage.deciding, repeat):
            say(f"watching: decision, {side.name}, {repeat + 1} of {plan.repeat * plan.decisions}")
            async with asyncio.timeout(PATIENCE_SECONDS):
                add(series, side, await _visible(side))


async def _visible(side: Side) -> float:
    """Milliseconds."""
    id = await side.start(Work(1, 100, ASK))
    asked = asyncio.Event()
    goes_on = _see_ours(side, id, asked) if isinstance(side, Wakeful) else _see_bare(side, id, asked)
    seen = asyncio.create_task(goes_on)
    await asked.wait()
    await asyncio.sleep(THOUGHT_SECONDS)
    decided = time.perf_counter()
    await side.decide(id)
    visible = await seen
    await side.result(id)
    return (visible - decided) * 1000


async def _see_ours(side: Wakeful, id: str, asked: asyncio.Event) -> float:
    """When the first event that the decision brought about has come: the run goes on."""
    async for record in side.client.watch(id, live=True):
        if asked.is_set():
            return time.perf_counter()
        if isinstance(record.event, RunFinish):
            asked.set()
    raise RuntimeError(f"run {id!r} ended, and nobody saw its decision")


async def _see_bare(side: Bare, id: str, asked: asyncio.Event) -> float:
    """When history shows the activity that the decision let go on: the least that says it was understood."""
    inferred = False
    async for event in side.client.get_workflow_handle(id).fetch_history_events(wait_new_event=True):
        match event.event_type:
            case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                inferred = True
            case EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED if inferred:
                asked.set()
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED if asked.is_set():
                return time.perf_counter()
            case _:
                pass
    raise RuntimeError(f"run {id!r} ended, and nobody saw its decision")
