"""The activity that archives a thread heartbeats: a lost worker does not delay a close for long."""

from dataclasses import replace
from datetime import timedelta

import pytest
from temporalio.client import Client as TemporalClient
from temporalio.testing import ActivityEnvironment

from tests.support.waiting import until_status
from wakeful import RunStatus
from wakeful.client.client import Client
from wakeful.contract.archive import ArchiveInput, ArchiveOutput
from wakeful.contract.names import ACTIVITY_ARCHIVE
from wakeful.contract.runs import ThreadMode
from wakeful.history.reader import HistoryReader
from wakeful_activities import ArchiveActivity, heartbeats


async def test_the_server_notices_within_seconds_that_the_worker_which_archives_is_lost(
    client: Client, temporal: TemporalClient, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.start("tester", "add", thread_id=thread_id, mode=ThreadMode.THREAD)
    await until_status(client, thread_id, RunStatus.DONE)
    await client.close(thread_id)
    await client.result(thread_id)
    history = await client.handle(thread_id).fetch_history()
    scheduled = [event.activity_task_scheduled_event_attributes for event in history.events]
    (archive,) = [each for each in scheduled if each.activity_type.name == ACTIVITY_ARCHIVE]
    assert archive.heartbeat_timeout.ToTimedelta() == timedelta(seconds=30)
    beats = list[object]()
    monkeypatch.setattr(heartbeats, "INTERVAL_SECONDS", 0.0001)
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, workflow_id=thread_id, workflow_run_id=history.run_id)
    environment.on_heartbeat = lambda *details: beats.append(details)
    reader = HistoryReader(temporal)
    rolled_back = ArchiveInput(number=1, messages=2, digest="another", events=0)
    output = await environment.run(ArchiveActivity(temporal, reader).archive_thread, rolled_back)
    await reader.aclose()
    assert output == ArchiveOutput()
    assert beats
