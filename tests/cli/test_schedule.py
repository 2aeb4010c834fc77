"""Schedules as `wakeful schedule list` prints them."""

import asyncio
from datetime import UTC, datetime

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.app import registry
from tests.support.processes import wakeful
from tests.support.waiting import BOUND_SECONDS
from wakeful.cli.terminal.outage_notice import warn_without_worker
from wakeful.cli.terminal.schedule_lines import schedule_lines
from wakeful.client.client import Client
from wakeful.client.diagnosis.evidence import QueueKind
from wakeful.client.diagnosis.server_answers import describe_queue
from wakeful.client.schedules import ScheduleEntry
from wakeful.worker import WorkerSettings, running_worker

SIX = datetime(2026, 11, 17, 6, tzinfo=UTC)


def test_a_schedule_is_listed_with_its_next_and_its_last_firing() -> None:
    entries = [
        ScheduleEntry(schedule_id="audit", agent_id="auditor", next_at=SIX, last_at=SIX, last_thread_id="audit-2026"),
        ScheduleEntry(schedule_id="stock", agent_id="buyer", thread_id="bar", paused=True, note="holidays"),
    ]
    assert schedule_lines(entries) == [
        "SCHEDULE  AGENT    THREAD   NEXT                  LAST",
        "audit     auditor  its own  2026-11-17 06:00 UTC  2026-11-17 06:00 UTC audit-2026",
        "stock     buyer    bar      paused: holidays      -",
    ]
    assert schedule_lines([]) == []


async def test_a_schedule_on_a_task_queue_that_no_worker_polls_is_warned_about(
    temporal: TemporalClient, thread_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    client = Client(temporal, task_queue=thread_id)
    await warn_without_worker(client)
    never = "Temporal has seen no worker there in the last five minutes"
    waits = (
        f"What the schedule starts waits there for one: wakeful worker --app module:registry --task-queue {thread_id}"
    )
    assert capsys.readouterr().err == f"! no worker polls task queue {thread_id!r}: {never}. {waits}\n"
    async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
        async with asyncio.timeout(BOUND_SECONDS):
            while (await describe_queue(temporal, thread_id, QueueKind.WORKFLOW)).pollers == ():
                await asyncio.sleep(0.05)
        await warn_without_worker(client)
        assert capsys.readouterr().err == ""


async def test_the_command_warns_when_it_has_created_the_schedule(temporal: TemporalClient, thread_id: str) -> None:
    address = temporal.service_client.config.target_host
    options = ["--every", "1d", "--paused", "--id", thread_id, "--task-queue", thread_id]
    ran = await wakeful("schedule", "create", "tester", "hello", *options, address=address)
    assert (ran.code, ran.out) == (0, f"created: schedule {thread_id}\n")
    assert ran.err.startswith(f"! no worker polls task queue {thread_id!r}: ")
    await Client(temporal).schedules.delete(thread_id)
