"""The cost of watching: the same run with no, one and many watchers, and Temporal's own streams for comparison.

The run first suspends for a decision. When every watcher has seen that, the benchmark decides, and the run calls tools
step by step and then streams a long answer. So all watchers are connected from the decision on, where timing starts.
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

from benchmarks.bare_stream import BareHeartbeatStream
from benchmarks.environment import (
    TIMEOUT_SECONDS,
    BareSide,
    Environment,
    WakefulSide,
    child_process,
    streaming_bare,
    streaming_wakeful,
)
from benchmarks.lags import TOKENS, measure_decision_lag, measure_token_lag
from benchmarks.plan import Plan
from benchmarks.results import Results, WatchedRun, percentile
from benchmarks.sampling import cpu_seconds, progress
from benchmarks.watcher_process import REPORTS, WatcherReport
from benchmarks.workflow_stream import WorkflowStreamRun, view
from benchmarks.workload import ASK, PAD, STREAMED, TOKEN, WAKEFUL, WATCHED, WORKFLOW_STREAMS, Work, answer_text
from tests.support.fake_provider.asked import Asked
from tests.support.fake_provider.script import Answer, Call
from tests.support.fake_provider.server import FakeProvider, fake_provider

STEPS = 6
"""The first of them waits for a decision."""
RESULT_BYTES = 200

_FAILED_TASK = {EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED, EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT}


async def measure_watching(env: Environment, plan: Plan, results: Results) -> None:
    """What watchers add to a run's history, time and CPU, and the latency with which they see tokens and decisions."""
    async with (
        fake_provider(validate=False) as provider,
        streaming_wakeful(env, WATCHED, provider.chat_url) as wakeful,
        streaming_bare(env, WorkflowStreamRun.__name__, provider.chat_url) as bare,
    ):
        await _measure_watched(env, wakeful, provider, plan, results)
        await _measure_workflow_streams(env, replace(bare, name=WORKFLOW_STREAMS), provider, plan, results)
        heartbeating = replace(bare, workflow=BareHeartbeatStream.__name__)
        await measure_token_lag(replace(wakeful, agent=STREAMED), heartbeating, provider, plan, results)
    await measure_decision_lag(env, plan, results)


async def _measure_watched(
    env: Environment, side: WakefulSide, provider: FakeProvider, plan: Plan, results: Results
) -> None:
    await _watched(env, side, provider, pause=0, watchers=0)  # warms up
    for repeat in range(plan.watched):
        for watchers in plan.watchers if repeat % 2 == 0 else reversed(plan.watchers):
            progress(f"watching: {watchers} watchers, {repeat + 1} of {plan.watched}")
            results.watched.append(await _watched(env, side, provider, pause=plan.pause, watchers=watchers))


async def _watched(
    env: Environment, side: WakefulSide, provider: FakeProvider, *, pause: float, watchers: int
) -> WatchedRun:
    provider.forget()  # restarts its request ids, so that those of all runs have one length
    provider.always(_script(pause))
    id = await side.start(Work(STEPS, RESULT_BYTES))
    async with _watchers(env, id, watchers) as read_reports, asyncio.timeout(TIMEOUT_SECONDS):
        await _until_suspended(side.client.handle(id))
        began, cpu_before = time.perf_counter(), cpu_seconds(side.pid)
        await side.decide(id)
        answer = await side.result(id)
        seconds, cpu_after = time.perf_counter() - began, cpu_seconds(side.pid)
        reports = await read_reports()
    _check(answer, reports)
    sent_at = provider.asked[-1].sent_at
    lags = [lag for report in reports for lag in report.arrivals.lags(sent_at)]
    run = await _history(env, WAKEFUL, id, watchers)
    run.seconds = seconds
    if cpu_before is not None and cpu_after is not None:
        run.worker_cpu = cpu_after - cpu_before
    if lags:
        run.lag_p50, run.lag_p95 = percentile(lags, 50), percentile(lags, 95)
    return run


async def _measure_workflow_streams(
    env: Environment, side: BareSide, provider: FakeProvider, plan: Plan, results: Results
) -> None:
    """The answer alone, without the steps before it. Only history is measured, so the runs are concurrent."""
    provider.forget()
    provider.always(Answer(answer_text(TOKENS), chunk=TOKEN, pause=plan.pause))

    async def viewed(viewers: int) -> WatchedRun:
        progress(f"watching: {side.name}, {viewers} viewers")
        id = await side.start(Work(0, TOKENS))
        views = asyncio.gather(*(view(env.client, id) for _ in range(viewers)))
        answer = await side.result(id)
        if {answer, *await views} != {answer_text(TOKENS)}:
            raise RuntimeError(f"a viewer of {side.name!r} lost or duplicated tokens")
        return await _history(env, WORKFLOW_STREAMS, id, viewers)

    async with asyncio.timeout(TIMEOUT_SECONDS):
        results.watched += await asyncio.gather(*(viewed(viewers) for viewers in plan.viewers))


async def _history(env: Environment, side: str, id: str, watchers: int) -> WatchedRun:
    [execution] = await env.executions(id)
    return WatchedRun(
        side=side,
        watchers=watchers,
        tokens=TOKENS,
        events=execution.events,
        bytes=execution.bytes_without_times,
        failed_tasks=sum(event.event_type in _FAILED_TASK for event in execution.history.events),
    )


def _check(answer: str, reports: Sequence[WatcherReport]) -> None:
    if {answer, *(report.arrivals.text for report in reports)} != {answer_text(TOKENS)}:
        raise RuntimeError("a watcher lost or duplicated tokens")
    if len(ends := {report.last for report in reports}) > 1:
        raise RuntimeError(f"watchers of one run saw it end at different events: {sorted(ends)}")


def _script(pause: float) -> Callable[[Asked], Answer]:
    """The model: a tool call that needs a decision, the other steps, and then the answer."""

    def reply(asked: Asked) -> Answer:
        done = sum(turn.role == "tool" for turn in asked.turns)
        if done == STEPS:
            return Answer(answer_text(TOKENS), chunk=TOKEN, pause=pause)
        arguments = json.dumps({"step": done + 1, "size": RESULT_BYTES})
        return Answer(calls=(Call(f"call_{done + 1}", PAD if done else ASK, arguments),))

    return reply


@contextlib.asynccontextmanager
async def _watchers(
    env: Environment, id: str, watchers: int
) -> AsyncIterator[Callable[[], Coroutine[None, None, list[WatcherReport]]]]:
    """Run watchers while the body runs, from when they have seen the run suspend; gives a reader of their reports."""

    async def read_reports() -> list[WatcherReport]:
        return REPORTS.validate_json(await output.readline())

    async def no_reports() -> list[WatcherReport]:
        return []

    if not watchers:
        yield no_reports
        return
    async with child_process("benchmarks.watcher_process", env.address, id, str(watchers)) as (_pid, output):
        yield read_reports


async def _until_suspended(handle: WorkflowHandle[Any, Any]) -> None:
    """Wait until the run is suspended. Read this from history: a query would add the load of a watcher."""
    scheduled: int | None = None
    returned = False
    async for event in handle.fetch_history_events(wait_new_event=True):
        if event.activity_task_scheduled_event_attributes.activity_id == "tool-1-1":
            scheduled = event.event_id
        elif scheduled is not None and event.activity_task_completed_event_attributes.scheduled_event_id == scheduled:
            returned = True
        elif returned and event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            return
    raise RuntimeError(f"run {handle.id!r} ended without suspending")
