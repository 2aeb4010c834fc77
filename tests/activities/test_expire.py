"""The activity by which the last archive of an expired thread deletes the thread, unless the thread is needed."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from temporalio.client import Client as TemporalClient
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from tests.support.waiting import until, until_status
from wakeful import RunStatus
from wakeful.client.client import Client
from wakeful.contract.archive import ExpireInput
from wakeful.contract.runs import ThreadMode
from wakeful.history.reader import HistoryReader
from wakeful_activities import ArchiveActivity


@pytest.fixture
async def archive(temporal: TemporalClient) -> AsyncIterator[ArchiveActivity]:
    reader = HistoryReader(temporal)
    yield ArchiveActivity(temporal, reader)
    await reader.aclose()


async def delete_expired(archive: ArchiveActivity, client: Client, thread_id: str, run_id: str | None = None) -> bool:
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, workflow_id=f"{thread_id}/archive/1-none")
    run_id = run_id or (await client.handle(thread_id).describe()).run_id
    input = ExpireInput(thread_id=thread_id, run_id=run_id)
    deleted: bool = await environment.run(archive.delete_expired_thread, input)
    return deleted


async def test_a_thread_with_a_message_that_no_run_has_read_is_not_deleted(
    archive: ArchiveActivity, client: Client, thread_id: str
) -> None:
    await client.start("tester", "approve", thread_id=thread_id, mode=ThreadMode.THREAD)
    await until_status(client, thread_id, RunStatus.WAITING)
    await client.send(thread_id, "and then?")
    await until(client, thread_id, lambda view: view.queued == 1)
    with pytest.raises(ApplicationError, match="the thread is still closing"):
        await delete_expired(archive, client, thread_id)
    await client.handle(thread_id).terminate()
    assert await delete_expired(archive, client, thread_id) is False
    assert len(await client.transcript(thread_id)) > 0


async def test_a_thread_that_was_woken_is_not_deleted(archive: ArchiveActivity, client: Client, thread_id: str) -> None:
    await client.run("tester", "add", thread_id=thread_id)
    assert await delete_expired(archive, client, thread_id, "an earlier execution") is False
    assert len(await client.transcript(thread_id)) > 0
