"""What streaming wastes and what it writes: workers that are killed in the middle of an answer, and histories weighed.

The model is a fake provider in this process. It counts the tokens that it sends, which is what a user would pay for.
"""

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import replace

from benchmarks.bare_stream import BareStream
from benchmarks.figures import AnswerHistory, Results
from benchmarks.plan import Plan
from benchmarks.samples import add, new_series, say
from benchmarks.sides import BARE, COMPLETE, OURS, STREAMED
from benchmarks.stage import PATIENCE_SECONDS, Side, Stage, Wakeful, streaming_bare, streaming_ours
from benchmarks.workload import TOKEN, Work, words
from tests.support.fake_provider.models import continuing
from tests.support.fake_provider.script import Answer
from tests.support.fake_provider.server import FakeProvider, fake_provider

KILLED_TOKENS = 200
KILLED_AFTER = (114, 117, 120, 123, 126)
"""Tokens, in turn. One number would meet the same moment between two heartbeats, some 13 tokens, again and again."""
KILLED_PAUSE = 0.015
STICKY_SECONDS = "1"
"""Who takes over from a killed worker would wait five for it, which says nothing about streams."""
WEIGHED_TOKENS = 2_000
WEIGHED_PAUSE = 0.001
"""Seconds between tokens: slow enough for many heartbeats to carry a part of the answer."""


async def measure_stream(stage: Stage, plan: Plan, results: Results) -> None:
    """Streams that lose their worker, and what a stream leaves in history."""
    async with fake_provider(validate=False) as provider:
        await _measure_kills(stage, provider, plan.kills, results)
        await _weigh(stage, provider, results)


async def _measure_kills(stage: Stage, provider: FakeProvider, kills: int, results: Results) -> None:
    """Both sides at once: they spend the time waiting, and so meet the same noise."""
    if not kills:
        return
    wasted = new_series(results, "stream.wasted", "tokens wasted a killed stream", "tokens")
    took = new_series(results, "stream.recovery", "kill to whole answer", "s")
    for kill in range(kills):
        say(f"stream: killed in the middle of an answer, {kill + 1} of {kills}")
        provider.forget()
        provider.always(continuing(Answer(words(KILLED_TOKENS), chunk=TOKEN, pause=KILLED_PAUSE)))
        after = KILLED_AFTER[kill % len(KILLED_AFTER)]
        both = await asyncio.gather(*(_killed(stage, provider, name, after=after) for name in (BARE, OURS)))
        for side, tokens, seconds in both:
            add(wasted, side, tokens)
            add(took, side, seconds)


async def _killed(stage: Stage, provider: FakeProvider, name: str, *, after: int) -> tuple[Side, int, float]:
    """Tokens that were sent besides those of the answer, and seconds from the kill to the whole answer."""

    def sent() -> int:
        return sum(asked.deltas for asked in provider.asked if asked.model == name)

    async with _streaming(stage, provider, name) as side:
        id = await side.start(Work(0, KILLED_TOKENS))
        await provider.until(lambda: sent() >= after)
        killed = time.perf_counter()
        os.kill(side.pid, signal.SIGKILL)
    async with _streaming(stage, provider, name) as side, asyncio.timeout(PATIENCE_SECONDS):
        answer = await side.result(id)
        seconds = time.perf_counter() - killed
    if answer != words(KILLED_TOKENS):
        raise RuntimeError(f"{name!r} lost or doubled words of an answer whose worker was killed: {answer!r}")
    return side, sent() - KILLED_TOKENS, seconds


async def _weigh(stage: Stage, provider: FakeProvider, results: Results) -> None:
    """The history of an answer that streams in, beside that of the same answer as a whole."""
    provider.forget()  # also its numbers: both answers are to carry request ids of one length
    provider.always(continuing(Answer(words(WEIGHED_TOKENS), chunk=TOKEN, pause=WEIGHED_PAUSE)))

    async def weigh(side: Wakeful) -> AnswerHistory:
        [execution] = await stage.executions(await stage.run(side, steps=0, size=WEIGHED_TOKENS))
        weight = execution.timeless_bytes
        return AnswerHistory(agent=side.agent, tokens=WEIGHED_TOKENS, events=execution.events, bytes=weight)

    async with streaming_ours(stage, STREAMED, provider.chat_url) as side:
        say(f"stream: history, {WEIGHED_TOKENS} tokens")
        agents = (replace(side, agent=agent) for agent in (STREAMED, COMPLETE))
        results.answers += await asyncio.gather(*(weigh(agent) for agent in agents))


def _streaming(stage: Stage, provider: FakeProvider, name: str) -> contextlib.AbstractAsyncContextManager[Side]:
    """A side with a streaming worker of its own."""
    if name == OURS:
        return streaming_ours(stage, STREAMED, provider.chat_url, STICKY_SECONDS)
    return streaming_bare(stage, BareStream.__name__, provider.chat_url, STICKY_SECONDS)
