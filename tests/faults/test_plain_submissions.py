"""A plain Temporal client gives its messages no ids: each is read once, in order, however often the worker is killed.

WAKEFUL_FAULT_MESSAGES=100 WAKEFUL_FAULT_KILLS=3 make faults is a short run.
"""

import json
import os
from pathlib import Path

import pytest
from temporalio.client import Client as TemporalClient

from tests.faults.subagent_worker import KilledWorker
from tests.support.journal import Journal
from tests.support.subagent_app import plan, written
from tests.support.waiting import until
from wakeful import RunStatus
from wakeful.client.client import Client

MESSAGES = min(1000, int(os.environ.get("WAKEFUL_FAULT_MESSAGES", "1000")))
KILLS = int(os.environ.get("WAKEFUL_FAULT_KILLS", "20"))
EVENTS_BUDGET = 200
BATCH = 10
"""So many messages are sent before the thread has answered any of them."""


@pytest.mark.faults
async def test_every_message_without_an_id_is_read_once_and_in_order(temporal: TemporalClient, tmp_path: Path) -> None:
    thread, client = "plain-submissions", Client(temporal, task_queue="plain-submissions")
    texts = [written(plan(say=f"answer {number}")) for number in range(MESSAGES)]
    every = max(1, MESSAGES // (KILLS + 1))
    async with KilledWorker(temporal, thread, Journal(tmp_path / "journal.jsonl"), events=EVENTS_BUDGET) as worker:
        await client.start("node", texts[0], thread_id=thread, mode="thread")
        for number, text in enumerate(texts[1:], start=1):
            await client.handle(thread).signal("submit", {"input": text})
            if number % every == 0 and number // every <= KILLS:
                await worker.kill_after(0, 0.3)
            if number % BATCH == 0:
                await until(client, thread, lambda view, sent=number: view.runs > sent - BATCH)  # type: ignore[misc]
        view = await until(client, thread, lambda view: view.runs == MESSAGES and view.status is RunStatus.DONE)
        messages = await client.transcript(thread)
    assert view.refusals == ()
    assert [message.text for message in messages if message.role == "user"] == texts
    answers = [json.loads(message.text)["say"] for message in messages if message.role == "assistant"]
    assert answers == [f"answer {number}" for number in range(MESSAGES)]
    executions = [each async for each in temporal.list_workflows(f"WorkflowId = '{thread}'")]
    print(f"{MESSAGES} messages in {len(executions)} executions, {KILLS} kills")
    assert len(executions) >= MESSAGES // 20
