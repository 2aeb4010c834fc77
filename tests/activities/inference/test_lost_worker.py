"""A worker is lost in the middle of an answer: no word is lost, repeated or paid for twice."""

from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.fake_provider.models import INTERRUPTED, continuing
from tests.support.fake_provider.script import Answer
from tests.support.fake_provider.server import FakeProvider
from tests.support.processes import kill, worker_process
from tests.support.provider_app import PORT, WIRES, registry_for
from wakeful.client.client import Client
from wakeful.contract.events import RunFinish
from wakeful.worker import WorkerSettings, running_worker

TOKENS = [f"token{number} " for number in range(200)]
ANSWER = Answer("".join(TOKENS), chunk=9, pause=0.015)
APP = "tests.support.provider_app:registry"


@pytest.mark.faults
async def test_kill_9_in_the_middle_of_a_streamed_answer(
    temporal: TemporalClient, provider: FakeProvider, thread_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-138: one worker dies under three answers, one in each wire format."""
    monkeypatch.setenv(PORT, str(provider.port))
    provider.always(continuing(ANSWER))
    client = Client(temporal, task_queue=thread_id)
    address, journal = temporal.service_client.config.target_host, tmp_path / "journal.jsonl"
    async with worker_process(address, thread_id, journal, app=APP) as first:
        for wire in WIRES:
            await client.start(wire, "Count.", thread_id=f"{thread_id}-{wire}", live=True)
        await provider.request(len(WIRES))
        await provider.until(lambda: all(asked.deltas >= 120 for asked in provider.asked))
        await kill(first)
    async with worker_process(address, thread_id, journal, app=APP):
        for wire in WIRES:
            await check(client, f"{thread_id}-{wire}", provider, wire)


async def test_a_worker_that_shuts_down_leaves_its_answer_to_another(
    temporal: TemporalClient, provider: FakeProvider, thread_id: str
) -> None:
    provider.always(continuing(ANSWER))
    client = Client(temporal, task_queue=thread_id)
    registry, settings = (
        registry_for(provider.port),
        WorkerSettings(thread_id, graceful_shutdown=timedelta(seconds=0.2)),
    )
    async with running_worker(temporal, registry, settings):
        await client.start("chat", "Count.", thread_id=thread_id)
        asked = await provider.request()
        await provider.until(lambda: asked.deltas >= 100)
    async with running_worker(temporal, registry, settings):
        await check(client, thread_id, provider, "chat")


async def check(client: Client, thread_id: str, provider: FakeProvider, wire: str) -> None:
    result = await client.result(thread_id)
    transcript = await client.transcript(thread_id)
    events = [record.event async for record in client.watch(thread_id)]
    assert result.response.split() == "".join(TOKENS).split()
    assert [message.text for message in transcript] == ["Count.", ANSWER.text]
    before, after = [asked for asked in provider.asked if asked.format == wire]
    assert INTERRUPTED in after.turns[-1].text
    assert len(after.turns[-2].text) > 9 * 60
    assert before.deltas + after.deltas < 200 + 60
    assert len([event for event in events if isinstance(event, RunFinish)]) == 1
