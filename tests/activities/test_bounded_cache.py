"""What workers cache is bounded by bytes: a long conversation evicts others, and is rebuilt from history."""

from dataclasses import replace
from typing import cast

import pytest
from temporalio.client import Client as TemporalClient

from tests.activities.wiring import environment
from wakeful.contract.inference import InferInput, TranscriptRef
from wakeful.contract.messages import Message, Role, TextBlock
from wakeful.contract.tools import ToolOutcome, ToolResult
from wakeful.contract.transcript import EMPTY_DIGEST, chained, tool_message
from wakeful_activities import HistoryCache
from wakeful_activities.bounded_cache import BoundedCache


def test_the_value_that_was_used_the_longest_time_ago_is_evicted_first() -> None:
    cache: BoundedCache[str, str] = BoundedCache(10, len)
    for key in ("a", "b", "c"):
        cache.put(key, "xxx")
    assert (cache.get("a"), cache.bytes) == ("xxx", 9)
    cache.put("d", "xxx")
    assert [cache.get(key) for key in "abcd"] == ["xxx", None, "xxx", "xxx"]
    assert cache.bytes == 9


def test_a_value_that_has_grown_evicts_others_and_stays_however_large_it_is() -> None:
    cache: BoundedCache[str, list[int]] = BoundedCache(10, len)
    growing = [0]
    cache.put("a", growing)
    cache.put("b", [0] * 9)
    growing += [0] * 20
    cache.put("a", growing)
    assert (cache.get("a"), cache.get("b"), cache.bytes) == (growing, None, 21)
    cache.put("a", [0])
    assert cache.bytes == 1


class Unreachable(HistoryCache):
    """A cache that may not read history."""

    async def _read(self, execution: object) -> None:  # type: ignore[override]
        raise LookupError("it was evicted")


ASKED = Message(id="1", role=Role.USER, content=(TextBlock(text="go"),))


async def in_thread(cache: HistoryCache, thread_id: str, text: str) -> str:
    """A tool call of this thread, and the inference that reads its result."""

    async def call_and_read() -> str:
        outcome = ToolOutcome(result=ToolResult.success("look", text))
        cache.put_outcome("tool-1-1", "1-1", outcome)
        digest = chained(chained(EMPTY_DIGEST, ASKED), tool_message("1-1", outcome.result))
        ref = TranscriptRef(length=2, digest=digest)
        transcript = await cache.transcript(InferInput(agent="a", transcript=ref, appended=(ASKED, "tool-1-1")))
        return transcript.since(1)[0].text

    running = environment()
    running.info = replace(running.info, workflow_id=thread_id)
    return cast("str", await running.run(call_and_read))


async def read_again(cache: HistoryCache, thread_id: str, text: str) -> int:
    async def read() -> int:
        digest = chained(chained(EMPTY_DIGEST, ASKED), tool_message("1-1", ToolResult.success("look", text)))
        return (await cache.transcript(InferInput(agent="a", transcript=TranscriptRef(length=2, digest=digest)))).length

    running = environment()
    running.info = replace(running.info, workflow_id=thread_id)
    return cast("int", await running.run(read))


async def test_a_long_conversation_evicts_others() -> None:
    cache = Unreachable(cast("TemporalClient", None), max_bytes=200_000)
    for number in range(10):
        assert await in_thread(cache, f"short-{number}", "sunny") == "sunny"
    assert [await read_again(cache, f"short-{number}", "sunny") for number in range(10)] == [2] * 10
    await in_thread(cache, "long", "x" * 190_000)
    assert await read_again(cache, "long", "x" * 190_000) == 2
    with pytest.raises(LookupError):
        await read_again(cache, "short-0", "sunny")
