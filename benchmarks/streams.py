"""Streams: the tokens wasted when a worker is killed in the middle of an answer, and the size of their history.

The model is a fake provider in this process. It counts the tokens that it sends, which are what a user would pay for.
"""

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import replace

from benchmarks.bare_stream import BareStream
from benchmarks.environment import TIMEOUT_SECONDS, Environment, Side, WakefulSide, streaming_bare, streaming_wakeful
from benchmarks.plan import Plan
from benchmarks.results import AnswerHistory, Results
from benchmarks.sampling import add_sample, new_series, progress
from benchmarks.workload import BARE, COMPLETE, STREAMED, TOKEN, WAKEFUL, Work, answer_text
from tests.support.fake_provider.models import continuing
from tests.support.fake_provider.script import Answer
from tests.support.fake_provider.server import FakeProvider, fake_provider

KILLED_TOKENS = 200
KILLED_AFTER = (114, 117, 120, 123, 126)
"""Tokens. They vary because some 13 tokens come between two heartbeats, and one number would always hit one phase."""
KILLED_PAUSE = 0.015
STICKY_SECONDS = "1"
"""The sticky timeout of both sides; the SDK's default of ten seconds would be added to the recovery of bare."""
HISTORY_TOKENS = 2_000
HISTORY_PAUSE = 0.001
"""Seconds between tokens: slow enough for many heartbeats to carry a part of the answer."""


async def measure_stream(env: Environment, plan: Plan, results: Results) -> None:
    """Streams that lose their worker, and the history of a stream."""
    async with fake_provider(validate=False) as provider:
        await _measure_kills(env, provider, plan.kills, results)
        await _measure_history(env, provider, results)


async def _measure_kills(env: Environment, provider: FakeProvider, kills: int, results: Results) -> None:
    """Both sides run at once: they mostly wait, and so meet the same noise."""
    if not kills:
        return
    wasted = new_series(results, "stream.wasted", "tokens wasted per killed stream", "tokens")
    took = new_series(results, "stream.recovery", "kill to whole answer", "s")
    for kill in range(kills):
        progress(f"stream: kill in the middle of an answer, {kill + 1} of {kills}")
        provider.forget()
        provider.always(continuing(Answer(answer_text(KILLED_TOKENS), chunk=TOKEN, pause=KILLED_PAUSE)))
        after = KILLED_AFTER[kill % len(KILLED_AFTER)]
        both = await asyncio.gather(*(_killed(env, provider, name, after=after) for name in (BARE, WAKEFUL)))
        for side, tokens, seconds in both:
            add_sample(wasted, side, tokens)
            add_sample(took, side, seconds)


async def _killed(env: Environment, provider: FakeProvider, name: str, *, after: int) -> tuple[Side, int, float]:
    """The side, the tokens sent beyond those of the answer, and the seconds from the kill to the whole answer."""

    def sent() -> int:
        return sum(asked.deltas for asked in provider.asked if asked.model == name)

    async with _streaming(env, provider, name) as side:
        id = await side.start(Work(0, KILLED_TOKENS))
        await provider.until(lambda: sent() >= after)
        killed = time.perf_counter()
        os.kill(side.pid, signal.SIGKILL)
    async with _streaming(env, provider, name) as side, asyncio.timeout(TIMEOUT_SECONDS):
        answer = await side.result(id)
        seconds = time.perf_counter() - killed
    if answer != answer_text(KILLED_TOKENS):
        raise RuntimeError(f"{name!r} lost or duplicated tokens of an answer whose worker was killed: {answer!r}")
    return side, sent() - KILLED_TOKENS, seconds


async def _measure_history(env: Environment, provider: FakeProvider, results: Results) -> None:
    """The history of a streamed answer, and that of the same answer without streaming."""
    provider.forget()  # restarts its request ids, so that those of both answers have one length
    provider.always(continuing(Answer(answer_text(HISTORY_TOKENS), chunk=TOKEN, pause=HISTORY_PAUSE)))

    async def answer_history(side: WakefulSide) -> AnswerHistory:
        [execution] = await env.executions(await env.run(side, steps=0, size=HISTORY_TOKENS))
        size = execution.bytes_without_times
        return AnswerHistory(agent=side.agent, tokens=HISTORY_TOKENS, events=execution.events, bytes=size)

    async with streaming_wakeful(env, STREAMED, provider.chat_url) as side:
        progress(f"stream: history, {HISTORY_TOKENS} tokens")
        agents = (replace(side, agent=agent) for agent in (STREAMED, COMPLETE))
        results.answers += await asyncio.gather(*(answer_history(agent) for agent in agents))


def _streaming(env: Environment, provider: FakeProvider, name: str) -> contextlib.AbstractAsyncContextManager[Side]:
    """A side with a streaming worker of its own."""
    if name == WAKEFUL:
        return streaming_wakeful(env, STREAMED, provider.chat_url, STICKY_SECONDS)
    return streaming_bare(env, BareStream.__name__, provider.chat_url, STICKY_SECONDS)
