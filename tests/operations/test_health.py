"""A worker's answers to the probes of its supervisor."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from temporalio.client import Client as TemporalClient

from tests.conftest import worker_settings
from tests.support.waiting import BOUND_SECONDS
from wakeful import Agent, Registry, ScriptedModel, call, say, tool
from wakeful.client.client import Client
from wakeful.client.diagnosis.evidence import QueueKind, TaskQueue
from wakeful.connection import embedded_server, free_port
from wakeful.contract.errors import ConfigurationError
from wakeful.telemetry.health import Component, HealthChecks, serving_health
from wakeful.telemetry.run_scope import LastTask
from wakeful.worker import running_worker
from wakeful.worker_health import WorkerHealth
from wakeful_activities.user_code import UserCode


@contextlib.asynccontextmanager
async def asking(port: int) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http:
        yield http


def registry(release: asyncio.Event | None = None) -> Registry:
    @tool(read_only=True)
    async def wait() -> str:
        """Wait."""
        if release is not None:
            await release.wait()
        return "done"

    model = ScriptedModel([call("wait"), say("done")])
    return Registry(agents=[Agent(id="a", tools=[wait])], models={"default": model})


async def until_status(http: httpx.AsyncClient, path: str, status: int) -> dict[str, Any]:
    async with asyncio.timeout(BOUND_SECONDS):
        while (answer := await http.get(path)).status_code != status:
            await asyncio.sleep(0.05)
    read: dict[str, Any] = answer.json()
    return read


async def test_a_worker_shows_every_component(temporal: TemporalClient, thread_id: str) -> None:
    """B-720."""
    port = free_port()
    settings = worker_settings(task_queue=thread_id, health_port=port)
    async with running_worker(temporal, registry(), settings), asking(port) as http:
        await until_status(http, "/health/ready", 200)
        await Client(temporal, task_queue=thread_id).run("a", "go", thread_id=thread_id)
        components = (await http.get("/health")).json()["components"]
        assert (await http.get("/health/live?full=1")).json() == {"status": "ok"}
        assert (await http.head("/health/ready")).content == b""
        assert (await http.post("/health")).status_code == 405
        unknown = await http.get("/metrics")
    assert (unknown.status_code, "/health/ready" in unknown.json()["error"]) == (404, True)
    assert {name: each["status"] for name, each in components.items()} == dict.fromkeys(
        ("worker", "threads", "server", "pollers", "tasks"), "ok"
    )
    assert components["worker"]["task_queue"] == thread_id
    assert components["tasks"]["last_seconds_ago"] < BOUND_SECONDS


async def test_without_its_server_a_worker_is_alive_and_not_ready() -> None:
    """B-720."""
    port = free_port()
    async with contextlib.AsyncExitStack() as stack:
        async with embedded_server(ui=False) as server:
            await stack.enter_async_context(
                running_worker(server.client, registry(), worker_settings(health_port=port))
            )
            http = await stack.enter_async_context(asking(port))
            await until_status(http, "/health/ready", 200)
        failing = await until_status(http, "/health/ready", 503)
        assert failing["components"]["server"]["problem"].startswith("Temporal cannot be reached: ")
        assert (await http.get("/health/live")).status_code == 200


async def test_a_worker_that_shuts_down_is_not_ready_while_its_calls_finish(
    temporal: TemporalClient, thread_id: str
) -> None:
    port, stop, release = free_port(), asyncio.Event(), asyncio.Event()
    client = Client(temporal, task_queue=thread_id)

    async def serve() -> None:
        settings = worker_settings(task_queue=thread_id, health_port=port)
        async with running_worker(temporal, registry(release), settings):
            await stop.wait()

    serving = asyncio.create_task(serve())
    async with asking(port) as http, asyncio.timeout(BOUND_SECONDS):
        await client.start("a", "go", thread_id=thread_id)
        while "wait" not in (await client.status(thread_id)).doing:
            await asyncio.sleep(0.05)
        stop.set()
        failing = await until_status(http, "/health/ready", 503)
        assert failing["components"]["worker"]["problem"] == "it is shutting down"
        assert (await http.get("/health/live")).status_code == 200
        release.set()
        await serving


async def test_polls_of_another_worker_are_not_this_worker_s(temporal: TemporalClient, thread_id: str) -> None:
    port = free_port()
    settings = worker_settings(task_queue=thread_id, health_port=port)
    address = temporal.service_client.config.target_host
    stranger = await TemporalClient.connect(address, identity="stranger")
    async with running_worker(temporal, registry(), settings) as worker, asking(port) as http:
        await until_status(http, "/health/ready", 200)
        health = WorkerHealth(stranger, thread_id, [QueueKind.WORKFLOW], UserCode(), LastTask(), worker)
        components = await health.remote()
    assert components["pollers"] == Component(
        False, problem=f"Temporal has seen no poll of this worker on task queue {thread_id!r}"
    )


@pytest.mark.parametrize(("age", "is_ok"), [(61.0, False), (59.0, True)])
async def test_a_worker_that_takes_no_task_although_some_are_queued_is_not_ready(
    temporal: TemporalClient, thread_id: str, age: float, is_ok: bool
) -> None:
    queue = TaskQueue(thread_id, QueueKind.WORKFLOW, backlog=3, backlog_age=age)
    async with running_worker(temporal, registry(), worker_settings(task_queue=thread_id)) as worker:
        health = WorkerHealth(temporal, thread_id, [QueueKind.WORKFLOW], UserCode(), LastTask(), worker)
        idle = health._tasks([queue])
        health.last_task.mark()
        busy = health._tasks([queue])
    assert (idle.is_ok, busy.is_ok) == (is_ok, True)
    assert is_ok or idle.problem == "tasks are queued for up to 61 s, and this worker takes none"


async def test_a_worker_whose_slots_are_all_taken_is_ready(temporal: TemporalClient, thread_id: str) -> None:
    """A worker of an inference queue then polls for nothing, for as long as its models think."""
    queue = TaskQueue(thread_id, QueueKind.ACTIVITY, backlog=3, backlog_age=61.0)
    async with running_worker(temporal, registry(), worker_settings(task_queue=thread_id)) as worker:
        health = WorkerHealth(temporal, thread_id, [QueueKind.ACTIVITY], UserCode(), LastTask(), worker, 2)
        health.last_task.running = 1
        free = (health._pollers([queue]).is_ok, health._tasks([queue]).is_ok)
        health.last_task.running = 2
        full = (health._pollers([queue]).is_ok, health._tasks([queue]).is_ok)
    assert (free, full) == ((False, False), (True, True))


async def test_a_vital_component_that_fails_ends_the_life_of_the_process() -> None:
    def own() -> dict[str, Component]:
        return {"threads": Component(False, problem="too many hang", is_vital=True)}

    async def remote() -> dict[str, Component]:
        return {}

    port = free_port()
    async with serving_health(port, HealthChecks(own, remote)), asking(port) as http:
        live = await http.get("/health/live")
    assert (live.status_code, live.json()) == (
        503,
        {"status": "failing", "components": {"threads": {"status": "failing", "problem": "too many hang"}}},
    )


async def test_a_port_that_is_in_use_is_reported() -> None:
    checks, port = HealthChecks(dict, lambda: asyncio.sleep(0, {})), free_port()
    async with serving_health(port, checks):
        with pytest.raises(ConfigurationError, match=f"health on 127.0.0.1, port {port}: .*choose another"):
            async with serving_health(port, checks):
                pass
