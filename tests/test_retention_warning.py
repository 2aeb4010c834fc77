"""A worker warns once if the namespace deletes closed threads early."""

from datetime import timedelta

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.namespaces import empty_namespace
from wakeful import Agent, Registry, ScriptedModel, WorkerSettings, running_worker, say

REGISTRY = Registry(agents=[Agent(id="a")], models={"default": ScriptedModel([say("hello")])})


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "retention" in record.getMessage()]


async def test_a_worker_warns_of_a_retention_that_is_too_short(
    temporal: TemporalClient, caplog: pytest.LogCaptureFixture
) -> None:
    client = await empty_namespace(temporal)  # its retention is a day
    async with running_worker(client, REGISTRY):
        pass
    assert warnings(caplog) == [
        f"namespace {client.namespace!r} has a retention of 24h: so long after a thread has closed, Temporal deletes "
        "it, and a message can no longer wake it. Change it with `temporal operator namespace update -n "
        f"{client.namespace} --retention 72h`, or set WorkerSettings.min_retention"
    ]
    caplog.clear()
    for long_enough in (timedelta(days=1), None):
        async with running_worker(client, REGISTRY, WorkerSettings(min_retention=long_enough)):
            pass
    assert warnings(caplog) == []


async def test_the_embedded_server_keeps_threads_for_long(
    temporal: TemporalClient, caplog: pytest.LogCaptureFixture, thread_id: str
) -> None:
    async with running_worker(temporal, REGISTRY, WorkerSettings(task_queue=thread_id)):
        pass
    assert warnings(caplog) == []
