"""Watch latency: from a token that the provider sends, and from a decision, until a watcher sees it."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from temporalio.api.enums.v1 import EventType

from benchmarks.bare_stream import stream_deltas
from benchmarks.environment import TIMEOUT_SECONDS, BareSide, Environment, Side, WakefulSide
from benchmarks.plan import Plan
from benchmarks.results import Results, percentile
from benchmarks.sampling import add_sample, interleaved, new_series, progress
from benchmarks.watcher_process import Arrivals, watch
from benchmarks.workload import ASK, BARE, DIRECT, TOKEN, WAKEFUL, Work, answer_text
from tests.support.fake_provider.script import Answer
from tests.support.fake_provider.server import FakeProvider
from wakeful.client.watching.heartbeat_feed import POLL_SECONDS
from wakeful.contract.events import RunFinish

TOKENS = 400
"""Of a watched answer."""
IDLE_SECONDS = 0.2
"""From suspension to decision, in which watchers read every earlier event."""


async def measure_token_lag(
    wakeful: WakefulSide, bare: BareSide, provider: FakeProvider, plan: Plan, results: Results
) -> None:
    """All sides run at once: they mostly wait, and so meet the same noise."""
    p50 = new_series(results, "watching.lag_p50", "token lag, p50", "ms")
    p95 = new_series(results, "watching.lag_p95", "token lag, p95", "ms")
    watchers = {BARE: _watch_bare(bare), WAKEFUL: _watch_wakeful(wakeful), DIRECT: _read_directly(provider.chat_url)}
    for number in range(plan.answers):
        progress(f"watching: token lag, {number + 1} of {plan.answers}")
        provider.forget()
        provider.always(Answer(answer_text(TOKENS), chunk=TOKEN, pause=plan.pause))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            received = await asyncio.gather(*(watcher(Work(0, TOKENS)) for watcher in watchers.values()))
        sent_at = {asked.model: asked.sent_at for asked in provider.asked}
        for name, arrivals in zip(watchers, received, strict=True):
            if arrivals.text != answer_text(TOKENS):
                raise RuntimeError(f"the watcher of {name!r} lost or duplicated tokens")
            lags = arrivals.lags(sent_at[name])
            for series, percent in ((p50, 50), (p95, 95)):
                series.samples.setdefault(name, []).append(round(percentile(lags, percent), 2))


Watcher = Callable[[Work], Awaitable[Arrivals]]


def _watch_wakeful(side: WakefulSide) -> Watcher:
    async def watcher(work: Work) -> Arrivals:
        return (await watch(side.client, await side.start(work), asyncio.Event())).arrivals

    return watcher


def _watch_bare(side: BareSide) -> Watcher:
    """Poll the pending activity as often as Wakeful's watcher does, and read the result at the end."""

    async def watcher(work: Work) -> Arrivals:
        arrivals = Arrivals()
        id = await side.start(work)
        result = asyncio.create_task(side.result(id))
        handle = side.client.get_workflow_handle(id)
        while not result.done():
            for pending in (await handle.describe()).raw_description.pending_activities:
                for text in await side.client.data_converter.decode(pending.heartbeat_details.payloads):
                    arrivals.record(text)
            await asyncio.wait({result}, timeout=POLL_SECONDS)
        arrivals.record(await result)
        return arrivals

    return watcher


def _read_directly(url: str) -> Watcher:
    async def watcher(work: Work) -> Arrivals:
        arrivals, text = Arrivals(), ""
        async for delta in stream_deltas(url, DIRECT, str(work)):
            text += delta
            arrivals.record(text)
        return arrivals

    return watcher


async def measure_decision_lag(env: Environment, plan: Plan, results: Results) -> None:
    """From sending a decision until a watcher sees its first effect."""
    series = new_series(results, "watching.visible", "decision to visible", "ms")
    for repeat in range(plan.repeat * plan.decisions):
        for side in interleaved(env.deciding, repeat):
            progress(f"watching: decision, {side.name}, {repeat + 1} of {plan.repeat * plan.decisions}")
            async with asyncio.timeout(TIMEOUT_SECONDS):
                add_sample(series, side, await _decision_lag(side))


async def _decision_lag(side: Side) -> float:
    """In milliseconds."""
    id = await side.start(Work(1, 100, ASK))
    suspended = asyncio.Event()
    if isinstance(side, WakefulSide):
        seen = asyncio.create_task(_first_event(side, id, suspended))
    else:
        seen = asyncio.create_task(_first_activity(side, id, suspended))
    await suspended.wait()
    await asyncio.sleep(IDLE_SECONDS)
    decided = time.perf_counter()
    await side.decide(id)
    visible = await seen
    await side.result(id)
    return (visible - decided) * 1000


async def _first_event(side: WakefulSide, id: str, suspended: asyncio.Event) -> float:
    """The time at which Wakeful's watcher receives the first event after the decision."""
    async for record in side.client.watch(id, live=True):
        if suspended.is_set():
            return time.perf_counter()
        if isinstance(record.event, RunFinish):
            suspended.set()
    raise RuntimeError(f"run {id!r} ended before its watcher saw the decision")


async def _first_activity(side: BareSide, id: str, suspended: asyncio.Event) -> float:
    """The time at which history shows the activity that the decision resumes."""
    inferred = False
    async for event in side.client.get_workflow_handle(id).fetch_history_events(wait_new_event=True):
        match event.event_type:
            case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                inferred = True
            case EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED if inferred:
                suspended.set()
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED if suspended.is_set():
                return time.perf_counter()
            case _:
                pass
    raise RuntimeError(f"run {id!r} ended before its watcher saw the decision")
