"""`python worker.py` logs as its options and variables say, line by line, until it has stopped."""

import asyncio
import json
from pathlib import Path

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.processes import wakeful, worker_process
from wakeful.client.client import Client


async def test_every_line_of_a_worker_is_json_if_the_variable_says_so(
    temporal: TemporalClient, thread_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAKEFUL_LOG_FORMAT", "json")
    monkeypatch.setenv("WAKEFUL_LOG_LEVEL", "info")
    address = temporal.service_client.config.target_host
    async with worker_process(address, thread_id, tmp_path / "journal.jsonl", errors=asyncio.subprocess.PIPE) as worker:
        await Client(temporal, task_queue=thread_id).run("tester", "hello", thread_id=thread_id)
        worker.terminate()
        _, errors = await worker.communicate()
    lines = [json.loads(line) for line in errors.decode().splitlines()]
    assert [line["message"] for line in lines if line.get("thread_id") == thread_id] == ["run started", "run ended"]


async def test_a_variable_that_is_wrong_is_reported() -> None:
    ran = await wakeful("worker", "--app", "tests.support.app:registry", WAKEFUL_LOG_FORMAT="xml")
    assert ran.code == 2
    assert "'xml'" in ran.err
