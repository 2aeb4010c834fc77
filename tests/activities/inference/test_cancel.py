"""Cancel stops the model call itself, whatever its state."""

import time

import pytest

from tests.support.fake_provider.script import HANG, SILENCE, Answer, Reply, Stall, Status
from tests.support.fake_provider.server import FakeProvider
from tests.support.waiting import until
from wakeful.client.client import Client
from wakeful.contract.events import InferenceComplete, RunFinish, TextDelta
from wakeful.contract.model_settings import InferenceOverrides

SLOW = Answer("word " * 400, chunk=5, pause=0.1)
"""Forty seconds of answer."""

BOUND_SECONDS = 2.0


@pytest.mark.parametrize("reply", [HANG, SILENCE, SLOW], ids=["no headers yet", "no token yet", "in the middle"])
async def test_the_connection_is_closed_within_two_seconds(
    client: Client, provider: FakeProvider, wire: str, reply: Reply, thread_id: str
) -> None:
    provider.will(reply)
    await client.start(f"{wire}-patient", "Tell me.", thread_id=thread_id)
    asked = await provider.request()
    if reply is SLOW:
        await provider.until(lambda: asked.deltas >= 10)
    started = time.monotonic()
    await client.cancel(thread_id, reason="enough")
    await provider.until(asked.closed.is_set)
    assert asked.closed_at is not None
    assert asked.closed_at - started < BOUND_SECONDS
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
    started = time.monotonic()
    await client.cancel(thread_id)
    await provider.until(asked.closed.is_set)
    assert asked.closed_at is not None
    assert asked.closed_at - started < BOUND_SECONDS
    await client.result(thread_id)
