"""A worker is killed with -9 and another takes over: nothing is lost, and no tool runs twice that must not."""

import asyncio
import json
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client as TemporalClient
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from tests.support.checkpoint_app import PAGES, STOPS_AFTER
from tests.support.journal import Journal
from tests.support.processes import kill, worker_process
from tests.support.waiting import BOUND_SECONDS, until, until_status
from wakeful import RunStatus
from wakeful.client.client import Client
from wakeful_workflows import AgentRun


async def test_a_worker_killed_under_its_tools(temporal: TemporalClient, thread_id: str, tmp_path: Path) -> None:
    """I-04: the completed sibling is not run again, the idempotent tool is, and the plain one is unknown."""
    client = Client(temporal, task_queue=thread_id)
    address, path = temporal.service_client.config.target_host, tmp_path / "journal.jsonl"
    journal = Journal(path)
    async with worker_process(address, thread_id, path) as first:
        await client.start("parallel", "survive", thread_id=thread_id)
        await journal.until("linger", "began")
        await journal.until("linger_idempotent", "began")
        await journal.until("echo", "ran")
        await kill(first)
    async with worker_process(address, thread_id, path):
        result = await client.result(thread_id)
        transcript = await client.transcript(thread_id)

    assert result.status_reason == "natural"
    echoed, plain, idempotent = [message.text for message in transcript if message.tool_call_id]
    assert echoed == "first"
    assert plain.startswith("outcome unknown: its worker was lost")
    assert idempotent == "lingered, attempt 2"
    assert journal.said("echo") == ["ran"]
    assert journal.said("linger") == ["began"]
    again = journal.lines("linger_idempotent")
    assert [(line["what"], line["attempt"]) for line in again] == [("began", 1), ("began", 2), ("ended", 2)]
    assert len({line["key"] for line in again}) == 1


async def test_a_tool_whose_worker_is_killed_continues_from_its_checkpoint_on_another(
    temporal: TemporalClient, thread_id: str, tmp_path: Path
) -> None:
    """B-213: attempt 1 fails with an error that is retried, attempt 2 is killed at 60 %; the model is asked once."""
    client = Client(temporal, task_queue=thread_id)
    address, path = temporal.service_client.config.target_host, tmp_path / "journal.jsonl"
    app = "tests.support.checkpoint_app:registry"
    async with worker_process(address, thread_id, path, app=app) as first:
        await client.start("copyist", "copy the book", thread_id=thread_id)
        await _until_checkpoint(client, thread_id, STOPS_AFTER)
        await kill(first)
    async with worker_process(address, thread_id, path, app=app):
        result = await client.result(thread_id)

    assert (result.response, result.steps) == ("copied 10 pages, the last 4 in attempt 3", 2)
    copied = [(line["attempt"], line["page"]) for line in Journal(path).lines() if line["what"] == "copied"]
    assert copied == [*((1, n) for n in (1, 2, 3)), *((2, n) for n in (4, 5, 6)), *((3, n) for n in (7, 8, 9, 10))]
    scheduled = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    history = await client.handle(thread_id).fetch_history()
    types = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in history.events
        if event.event_type == scheduled
    ]
    assert (types.count("infer"), types.count("copy_pages")) == (2, 1)


async def _until_checkpoint(client: Client, thread_id: str, page: int) -> None:
    """Wait until the server has received the checkpoint, and the progress that was reported with it."""
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            described = await client.handle(thread_id).describe()
            for pending in described.raw_description.pending_activities:
                shown = [json.loads(payload.data) for payload in pending.heartbeat_details.payloads]
                if {"message": f"page {page}", "progress": page / PAGES} in shown:
                    assert any(isinstance(each, dict) and each.get("checkpoint") == page for each in shown)
                    return
            await asyncio.sleep(0.02)


@pytest.mark.faults
async def test_a_worker_killed_while_a_run_is_suspended(
    temporal: TemporalClient, thread_id: str, tmp_path: Path
) -> None:
    """A decision sent while no worker runs is not lost."""
    client = Client(temporal, task_queue=thread_id)
    address, path = temporal.service_client.config.target_host, tmp_path / "journal.jsonl"
    async with worker_process(address, thread_id, path) as first:
        await client.start("tester", "approve", thread_id=thread_id)
        view = await until_status(client, thread_id, RunStatus.WAITING)
        await kill(first)
    await client.decide(thread_id, view.pending[0].pending.id, "resume", result="yes")
    async with worker_process(address, thread_id, path):
        result = await client.result(thread_id)
    assert result.response == 'approval gave {"did":"launch","said":"yes","reason":null}'
    assert Journal(path).said("approve") == ["asked", "ran"]


@pytest.mark.faults
async def test_two_workers_with_caches_of_one_thread_and_one_of_them_killed(
    temporal: TemporalClient, thread_id: str, tmp_path: Path
) -> None:
    """Workers rebuild every conversation from history, many times, and every digest matches."""
    client = Client(temporal, task_queue=thread_id)
    address, path = temporal.service_client.config.target_host, tmp_path / "journal.jsonl"
    tiny_caches = ("--max-cached-mb", "0", "--max-cached", "1")
    threads = [f"{thread_id}-{number}" for number in range(4)]
    async with (
        worker_process(address, thread_id, path, *tiny_caches) as first,
        worker_process(address, thread_id, path, *tiny_caches),
    ):
        for thread in threads:
            await client.start("tester", "count", thread_id=thread)
        await until(client, threads[0], lambda view: view.steps >= 4)
        await kill(first)
        results = [await client.result(thread) for thread in threads]
        transcripts = [[message.text for message in await client.transcript(thread)] for thread in threads]
    assert {result.response for result in results} == {"counted to 11"}
    assert {tuple(transcript) for transcript in transcripts} == {tuple(transcripts[0])}
    assert [text for text in transcripts[0] if text.isdigit()] == [str(n) for n in range(2, 12)]


@pytest.mark.faults
@pytest.mark.parametrize("tries", [10])
async def test_a_query_before_the_workflow_task_leaves_a_run_that_replays(
    temporal: TemporalClient, thread_id: str, tmp_path: Path, tries: int
) -> None:
    """The query waits for the dead worker's queue, then comes to the new worker before the task with the lost tool.

    On a machine that is busy with other things the task may come first; then it is tried again.
    """
    for number in range(tries):
        thread = f"{thread_id}-{number}"
        client = Client(temporal, task_queue=thread)
        address, path = temporal.service_client.config.target_host, tmp_path / f"{number}.jsonl"
        async with worker_process(address, thread, path) as first:
            await client.start("tester", "linger", thread_id=thread)
            await Journal(path).until("linger", "began")
            await kill(first)
        async with worker_process(address, thread, path):
            await client.status(thread)
            await client.send(thread, "go on without it", on_busy="steer")
            result = await client.result(thread)
            transcript = await client.transcript(thread)
        history = await client.handle(thread).fetch_history()
        await Replayer(workflows=[AgentRun], data_converter=pydantic_data_converter).replay_workflow(history)
        failed = [event for event in history.events if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED]
        if failed:
            break
    assert result.steps == 2
    assert [message.role for message in transcript] == ["user", "assistant", "tool", "user", "assistant"]
    [done_again] = [event.workflow_task_failed_event_attributes.failure.message for event in failed]
    assert "a query made this run" in done_again
