"""The worker is killed in the middle of an answer: nothing of it is paid for twice, and no word is lost or doubled."""

from pathlib import Path

import pytest
from temporalio.client import Client

from tests.support.fake_provider.models import INTERRUPTED, continuing
from tests.support.fake_provider.script import Answer
from tests.support.fake_provider.server import FakeProvider
from tests.support.processes import kill, worker_process
from tests.support.provider_app import PORT
from wakeful.client import WakefulClient
from wakeful.contract.events import RunFinish

TOKENS = [f"token{number} " for number in range(200)]
ANSWER = Answer("".join(TOKENS), chunk=9, pause=0.015)
APP = "tests.support.provider_app:registry"


async def test_kill_9_in_the_middle_of_a_streamed_answer(
    temporal: Client,
    provider: FakeProvider,
    wire: str,
    thread_id: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(PORT, str(provider.port))
    provider.always(continuing(ANSWER))
    client = WakefulClient(temporal, task_queue=thread_id)
    address, journal = temporal.service_client.config.target_host, tmp_path / "journal.jsonl"
    async with worker_process(address, thread_id, journal, app=APP) as first:
        await client.start(wire, "Count.", thread_id=thread_id)
        asked = await provider.request()
        await provider.until(lambda: asked.deltas >= 120)
        await kill(first)
    async with worker_process(address, thread_id, journal, app=APP):
        result = await client.result(thread_id)
        transcript = await client.transcript(thread_id)
        events = [record.event async for record in client.watch(thread_id)]

    assert result.response.split() == "".join(TOKENS).split()
    assert [message.text for message in transcript] == ["Count.", ANSWER.text]
    first_request, second_request = provider.asked
    assert INTERRUPTED in second_request.turns[-1].text
    assert len(second_request.turns[-2].text) > 9 * 60
    assert first_request.deltas + second_request.deltas < 200 + 60
    assert len([event for event in events if isinstance(event, RunFinish)]) == 1
