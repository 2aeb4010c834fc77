"""The plugin in a Temporal worker of the user's own: what it adds, what it leaves alone, and how it ends."""

import asyncio
import contextlib
import gc
import threading
import weakref
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import Client as TemporalClient
from temporalio.converter import DataConverter
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor, Replayer, Worker

from tests.embedding.conftest import QUEUE, registry
from tests.embedding.desk import Ask, Asks, Quotes, stamp
from tests.support.waiting import BOUND_SECONDS
from wakeful import (
    Agent,
    Client,
    HookContext,
    Plugin,
    Registry,
    ScriptedModel,
    WakefulPlugin,
    WorkerExhausted,
    WorkerSettings,
    call,
    say,
    tool,
)
from wakeful.storage import SharedPayloadConverter

QUIET = WorkerSettings(sweep_interval=None)


async def test_the_plugin_leaves_what_the_worker_sets_and_shortens_the_default_throttle(
    temporal: TemporalClient,
) -> None:
    """B-682."""
    usual = _config(temporal, "usual")
    assert usual["max_heartbeat_throttle_interval"] == WorkerSettings().heartbeat_throttle
    assert usual["default_heartbeat_throttle_interval"] == WorkerSettings().heartbeat_throttle
    own = _config(temporal, "own", max_heartbeat_throttle_interval=timedelta(seconds=7), max_cached_workflows=3)
    assert own["max_heartbeat_throttle_interval"] == timedelta(seconds=7)
    assert (own["max_cached_workflows"], own["sticky_queue_schedule_to_start_timeout"]) == (3, timedelta(seconds=10))
    assert [each.__name__ for each in own["workflows"][:2]] == ["Quotes", "AgentRun"]
    assert own["activities"][0] is stamp


def _config(temporal: TemporalClient, queue: str, **arguments: Any) -> Any:
    plugins = [WakefulPlugin(registry)]
    worker = Worker(temporal, task_queue=queue, workflows=[Quotes], activities=[stamp], plugins=plugins, **arguments)
    return worker.config(active_config=True)


async def test_a_client_with_the_plugin_has_workers_that_serve_the_agents(
    temporal: TemporalClient, thread_id: str
) -> None:
    """Also one that would have the SDK's own data converter."""
    config: Any = {
        **temporal.config(),
        "data_converter": DataConverter.default,
        "plugins": [WakefulPlugin(registry, QUIET)],
    }
    connected = TemporalClient(**config)
    assert connected.data_converter.payload_converter_class is SharedPayloadConverter
    async with (
        Worker(connected, task_queue=thread_id, workflows=[Quotes], activities=[stamp]),
        Worker(connected, task_queue=f"{thread_id}-2", workflows=[Quotes], activities=[stamp]),
    ):
        for queue in (thread_id, f"{thread_id}-2"):
            said = await connected.execute_workflow(Quotes.run, "quoter", id=queue, task_queue=queue)
            assert said == "tea costs 3, stamped"


async def test_the_plugin_keeps_nothing_of_a_worker_that_has_ended(temporal: TemporalClient, thread_id: str) -> None:
    plugin = WakefulPlugin(registry, QUIET)
    connected = TemporalClient(**temporal.config())
    client = weakref.ref(connected)
    worker = Worker(connected, task_queue=thread_id, workflows=[Quotes], plugins=[plugin])
    async with worker:
        pass
    del connected, worker
    gc.collect()
    assert client() is None


class Refusing(Interceptor):
    """Refuses an activity that the user does not know."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _RefusingActivity(next)


class _RefusingActivity(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        if input.fn.__name__ == "describe_worker":
            raise PermissionError("not on our list of activities")
        return await super().execute_activity(input)


async def test_a_run_ends_although_an_interceptor_refuses_to_describe_the_worker(
    temporal: TemporalClient, thread_id: str
) -> None:
    settings = WorkerSettings(sweep_interval=None, new_run_patience=timedelta())
    plugins = [WakefulPlugin(registry, settings)]
    client = Client(temporal, task_queue=thread_id)
    async with Worker(temporal, task_queue=thread_id, interceptors=[Refusing()], plugins=plugins):
        await client.start("unknown", "hello", thread_id=thread_id)
        try:
            async with asyncio.timeout(BOUND_SECONDS):
                result = await client.result(thread_id)
        except TimeoutError:
            # A run that asks its worker again and again is in one workflow task, for which a worker waits that stops.
            await client.handle(thread_id).terminate()
            raise
    assert result.status_reason.startswith("error")


async def test_a_replayer_with_the_plugin_replays_the_workflow_and_its_agent(agents: Client, thread_id: str) -> None:
    ask = Ask(agent_id="talker")
    asks = await agents.temporal.start_workflow(Asks.run, ask, id=thread_id, task_queue=QUEUE)
    await asks.result()
    child = await asks.query(Asks.thread_id)
    assert child is not None
    replayer = Replayer(workflows=[Asks], plugins=[WakefulPlugin(registry)])
    for handle in (asks, agents.handle(child)):
        await replayer.replay_workflow(await handle.fetch_history())


async def test_the_lifespan_exits_after_the_last_activity_of_the_worker(
    temporal: TemporalClient, thread_id: str
) -> None:
    """B-680."""
    order: list[str] = []

    @contextlib.asynccontextmanager
    async def lifespan() -> AsyncIterator[str]:
        order.append("in")
        yield "value"
        order.append("out")

    started = asyncio.Event()

    @tool
    async def work() -> str:
        """Work until the worker stops."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            order.append("drained")
        return "never"

    script = ScriptedModel([call("work")])
    app = Registry(agents=[Agent(id="a", tools=[work])], models={"default": script}, lifespan=lifespan)
    worker = Worker(temporal, task_queue=thread_id, workflows=[Quotes], plugins=[WakefulPlugin(app, QUIET)])
    async with Client(temporal, task_queue=thread_id) as client:
        async with worker:
            await client.start("a", "go", thread_id=thread_id)
            await started.wait()
        await client.handle(thread_id).terminate()
    assert order == ["in", "drained", "out"]


async def test_a_worker_with_too_many_hung_threads_shuts_down_and_says_why(
    temporal: TemporalClient, thread_id: str
) -> None:
    released = threading.Event()

    class Hangs(Plugin):
        id = "hangs"
        timeout = 0.1

        def run_start(self, ctx: HookContext) -> None:
            released.wait()

    app = Registry(agents=[Agent(id="a", plugins=[Hangs()])], models={"default": ScriptedModel([say("done")])})
    settings = WorkerSettings(sweep_interval=None, max_abandoned_threads=1)
    worker = Worker(temporal, task_queue=thread_id, workflows=[Quotes], plugins=[WakefulPlugin(app, settings)])
    try:
        async with Client(temporal, task_queue=thread_id) as client:
            with pytest.raises(WorkerExhausted, match="because 1 sync tools, gates or hooks still run"):
                await _serve_until_cancelled(worker, client, thread_id)
    finally:
        released.set()


async def _serve_until_cancelled(worker: Worker, client: Client, thread_id: str) -> None:
    async with worker:
        await client.start("a", "go", thread_id=thread_id)
        await asyncio.Event().wait()
