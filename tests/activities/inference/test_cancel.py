"""Cancel stops the model call itself, whatever its state."""

import asyncio
import time

import pytest

from tests.support.fake_provider.script import HANG, SILENCE, Answer, Reply, Stall, Status
from tests.support.fake_provider.server import FakeProvider
from tests.support.waiting import until
from wakeful.client.client import Client
from wakeful.contract.agents import RetryPolicy
from wakeful.contract.events import InferenceComplete, RunFinish, TextDelta
from wakeful.contract.model_settings import InferenceOverrides

SLOW = Answer("word " * 4000, chunk=5, pause=0.1)
"""Minutes of answer, longer than a test waits for anything."""


@pytest.mark.parametrize("reply", [HANG, SILENCE, SLOW], ids=["no headers yet", "no token yet", "in the middle"])
async def test_the_connection_is_closed_by_a_cancel(
    client: Client, provider: FakeProvider, wire: str, reply: Reply, thread_id: str
) -> None:
    """None of these answers ends by itself, nor does the agent lose its patience, while the test waits."""
    provider.will(reply)
    await client.start(f"{wire}-patient", "Tell me.", thread_id=thread_id)
    asked = await provider.request()
    if reply is SLOW:
        await provider.until(lambda: asked.deltas >= 10)
    await client.cancel(thread_id, reason="enough")
    await provider.until(asked.closed.is_set)
    result = await client.result(thread_id)
    assert (result.status_reason, result.detail) == ("cancelled", "enough")


async def test_a_cancelled_answer_is_in_the_events_and_not_in_the_transcript(
    client: Client, provider: FakeProvider, wire: str, thread_id: str
) -> None:
    provider.will(SLOW)
    await client.start(f"{wire}-patient", "Tell me.", thread_id=thread_id)
    asked = await provider.request()
    await provider.until(lambda: asked.deltas >= 10)
    await client.cancel(thread_id)
    await client.result(thread_id)
    events = [record.event async for record in client.watch(thread_id)]
    [delta] = [event.delta for event in events if isinstance(event, TextDelta)]
    assert SLOW.text.startswith(delta)
    assert len(delta) >= 50
    assert len([event for event in events if isinstance(event, InferenceComplete)]) == 1
    assert len([event for event in events if isinstance(event, RunFinish)]) == 1
    assert [message.text for message in await client.transcript(thread_id)] == ["Tell me."]


async def test_cancel_does_not_wait_for_the_backoff(
    client: Client, provider: FakeProvider, wire: str, thread_id: str
) -> None:
    provider.will(Status(429, retry_after=60))
    await client.start(wire, "Tell me.", thread_id=thread_id, overrides=InferenceOverrides(upstream_model=thread_id))
    await provider.request()
    await until(client, thread_id, lambda view: view.steps == 1)
    started = time.monotonic()
    await client.cancel(thread_id)
    result = await client.result(thread_id)
    assert result.status_reason == "cancelled"
    assert time.monotonic() - started < 20
    assert len(provider.asked) == 1


async def test_cancel_stops_a_stalled_stream(client: Client, provider: FakeProvider, wire: str, thread_id: str) -> None:
    provider.will(Answer("Well, well, well, well.", faults=(Stall(2),)))
    await client.start(f"{wire}-patient", "Tell me.", thread_id=thread_id)
    asked = await provider.request()
    await provider.until(lambda: asked.deltas >= 2)
    await client.cancel(thread_id)
    async with asyncio.timeout(RetryPolicy().stream_idle_timeout_secs / 2):  # the stall itself would close it later
        await provider.until(asked.closed.is_set)
    await client.result(thread_id)
