"""A worker whose threads hang says so, stops and exits, so that its supervisor starts another."""

import asyncio
from pathlib import Path

import httpx
from temporalio.client import Client as TemporalClient

from tests.support.processes import worker_process
from wakeful.client.client import Client
from wakeful.connection import free_port


async def test_a_worker_with_too_many_hung_threads_exits_and_says_why(
    temporal: TemporalClient, thread_id: str, tmp_path: Path
) -> None:
    """B-720."""
    client = Client(temporal, task_queue=thread_id)
    address, port = temporal.service_client.config.target_host, free_port()
    options = ("--max-abandoned", "2", "--health", str(port))
    async with (
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http,
        worker_process(
            *(address, thread_id, tmp_path / "journal.jsonl", *options),
            app="tests.support.hanging_app:registry",
            errors=asyncio.subprocess.PIPE,
        ) as worker,
    ):
        first = await client.run("patient", "go", thread_id=thread_id)
        healthy = await http.get("/health")
        ready = await http.get("/health/ready")
        await client.start("patient", "go", thread_id=f"{thread_id}-2")
        async with asyncio.timeout(60):
            _, errors = await worker.communicate()

    assert first.response == "at last"
    assert (healthy.status_code, ready.status_code, healthy.json()["status"]) == (200, 200, "ok")
    assert healthy.json()["components"]["threads"] == {"status": "ok", "abandoned": 1, "max_abandoned": 2}
    log = errors.decode()
    assert 'WARNING thread abandoned  code="hook hanging.step_start" abandoned=1 max_abandoned=2' in log
    assert "ERROR   worker exhausted: it stops, to be replaced  abandoned=2" in log
    assert "worker: the worker stops, because 2 sync tools, gates or hooks still run although" in log
    assert worker.returncode == 75
