"""The events of a background task: signals to its owner, in order, each with an id that no other event ever has."""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from temporalio import workflow
from temporalio.client import Client as TemporalClient
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from tests.activities.wiring import activities, cache_of, environment, raw
from wakeful import Agent, Registry, ToolContext, ToolError, tool
from wakeful.contract import ids
from wakeful.contract.mail import TaskEvent
from wakeful.contract.messages import ToolCall
from wakeful.contract.names import SIGNAL_DELIVER
from wakeful.contract.runs import RunIdentity, TaskRef
from wakeful.contract.tools import ToolCallInput, ToolOutcome
from wakeful_activities import HistoryCache
from wakeful_activities.tools import emit as emit_module

TASK = TaskRef(task_id="bg_1", thread_id="task", owner_thread_id="owner")
contexts: list[ToolContext] = []


@tool(background=True)
async def search(ctx: ToolContext) -> list[bool]:
    """Emit three events without a pause."""
    return [ctx.emit("found", {"n": n}) for n in range(1, 4)]


@tool(background=True)
def count(ctx: ToolContext) -> list[bool]:
    """Emit two events from each of two threads."""
    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(lambda: [ctx.emit("counted"), ctx.emit("counted")]) for _ in range(2)]
        return [accepted for pair in both for accepted in pair.result()]


@tool(background=True)
async def fail(ctx: ToolContext) -> None:
    """Emit an event, and fail."""
    ctx.emit("failing", "soon")
    raise ToolError("no")


@tool(background=True)
async def advise(ctx: ToolContext) -> bool:
    """Send a message that the owner's model reads as it is."""
    return ctx.emit_message("Look at row 7.")


@tool(background=True)
async def leave(ctx: ToolContext) -> None:
    """Leave the context where a thread can use it after the call has ended."""
    contexts.append(ctx)


@tool(background=True)
async def wait(ctx: ToolContext) -> None:
    """Emit an event, wait to be cancelled, and emit another."""
    ctx.emit("waiting")
    try:
        await asyncio.Event().wait()
    finally:
        ctx.emit("stopping")


REGISTRY = Registry(agents=[Agent(id="a", tools=[search, count, fail, advise, leave, wait])])


class Server:
    """A Temporal client of which some signals fail, and which keeps the ones that arrived.

    Args:
        failures: the statuses of the first signals.
        arrive_anyway: a signal that fails has arrived nevertheless, as after a lost reply.
    """

    def __init__(self, *failures: RPCStatusCode, arrive_anyway: bool = False) -> None:
        self.signals: list[tuple[str, str, TaskEvent]] = []
        self._failures = list(failures)
        self._arrive_anyway = arrive_anyway
        self._thread_id = ""

    def get_workflow_handle(self, thread_id: str) -> "Server":
        self._thread_id = thread_id
        return self

    async def signal(self, name: str, event: TaskEvent, *, rpc_timeout: timedelta) -> None:
        await asyncio.sleep(0)
        fails = bool(self._failures)
        if self._arrive_anyway or not fails:
            self.signals.append((self._thread_id, name, event))
        if fails:
            raise RPCError("not now", self._failures.pop(0), b"")


@pytest.fixture(autouse=True)
def _short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emit_module, "FIRST_BACKOFF_SECONDS", 0.001)


def input_of(tool: str, *, task: TaskRef | None = TASK) -> ToolCallInput:
    return ToolCallInput(
        call=ToolCall(id="1-1", name=tool),
        identity=RunIdentity(thread_id="owner", run_id="r", agent_id="a", task=task),
        idempotency_key="r:1-1",
    )


async def run(input: ToolCallInput, server: Server | None = None, emitter: str = "execution:tool-1-1:1") -> ToolOutcome:
    execution, activity, attempt = emitter.split(":")
    running = environment(cast("TemporalClient", server), tool=input.call.name)
    running.info = replace(running.info, workflow_run_id=execution, activity_id=activity, attempt=int(attempt))
    with activities(REGISTRY, cache_of()) as made:
        return await running.run(made.tools.call_tool, raw(input))


def signals(event_type: str, numbers: Sequence[int], payload: Any = None) -> list[tuple[str, str, TaskEvent]]:
    """What the owner is signalled in the first attempt."""
    events = [
        TaskEvent(
            message_id=ids.task_event_id("task", "execution:tool-1-1:1", number),
            task_id="bg_1",
            thread_id="task",
            event_type=event_type,
            payload={"n": number} if payload is None and event_type == "found" else payload,
        )
        for number in numbers
    ]
    return [("owner", SIGNAL_DELIVER, event) for event in events]


async def test_a_tasks_events_reach_its_owner_in_order_before_its_call_has_ended() -> None:
    """B-535, B-536."""
    server = Server()
    outcome = await run(input_of("search"), server)
    assert outcome.result.data == [True, True, True]
    assert server.signals == signals("found", (1, 2, 3))


async def test_a_message_of_a_task_reaches_its_owner() -> None:
    """B-537"""
    server = Server()
    outcome = await run(input_of("advise"), server)
    [(_, _, event)] = signals("message", (1,))
    assert outcome.result.data is True
    assert [event for *_, event in server.signals] == [event.model_copy(update={"message": "Look at row 7."})]


async def test_a_task_emits_from_any_thread() -> None:
    server = Server()
    outcome = await run(input_of("count"), server)
    assert outcome.result.data == [True] * 4
    assert server.signals == signals("counted", (1, 2, 3, 4))


async def test_the_events_of_a_task_that_fails_are_sent() -> None:
    server = Server()
    outcome = await run(input_of("fail"), server)
    assert (outcome.result.message, server.signals) == ("Execution failed: no", signals("failing", (1,), "soon"))


async def test_what_a_task_emits_when_it_is_cancelled_is_sent() -> None:
    """B-535."""
    server = Server()
    running = asyncio.create_task(run(input_of("wait"), server))
    async with asyncio.timeout(5):
        while not server.signals:
            await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert server.signals == [*signals("waiting", (1,)), *signals("stopping", (2,))]


async def test_a_call_that_belongs_to_no_task_emits_nothing() -> None:
    assert (await run(input_of("search", task=None))).result.data == [False, False, False]


async def test_a_call_that_has_ended_emits_nothing_more() -> None:
    server = Server()
    await run(input_of("leave"), server)
    accepted: list[bool] = []
    thread = threading.Thread(target=lambda: accepted.append(contexts.pop().emit("late")))
    thread.start()
    await asyncio.to_thread(thread.join)
    assert (accepted, server.signals) == ([False], [])


async def test_a_signal_is_retried_when_the_server_is_out_of_reach() -> None:
    server = Server(RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.RESOURCE_EXHAUSTED)
    await run(input_of("search"), server)
    assert server.signals == signals("found", (1, 2, 3))


async def test_a_signal_that_is_sent_twice_in_one_attempt_is_the_same_event() -> None:
    """Its id is the same, so that the owner's loop treats the second one as a no-op."""
    server = Server(RPCStatusCode.DEADLINE_EXCEEDED, arrive_anyway=True)
    await run(input_of("search"), server)
    assert server.signals == signals("found", (1, 1, 2, 3))


async def test_the_events_of_another_attempt_execution_or_activity_are_other_events() -> None:
    """A retried tool emits again; its owner must not take that for a signal that was sent twice."""
    server = Server()
    emitters = ("execution:tool-1-1:1", "execution:tool-1-1:2", "execution:tool.2-1-1:1", "reset:tool-1-1:1")
    for emitter in emitters:
        await run(input_of("search"), server, emitter)
    sent = [event.message_id for _, _, event in server.signals]
    assert sent == [ids.task_event_id("task", emitter, number) for emitter in emitters for number in (1, 2, 3)]
    assert len(set(sent)) == 12


@pytest.mark.parametrize("failures", [[RPCStatusCode.NOT_FOUND], [RPCStatusCode.UNAVAILABLE] * emit_module.ATTEMPTS])
async def test_an_event_that_cannot_be_sent_is_dropped_with_a_warning(
    failures: list[RPCStatusCode], caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(*failures)
    outcome = await run(input_of("search"), server)
    assert outcome.result.data == [True, True, True]
    assert server.signals == signals("found", (2, 3))
    logged = [record.msg for record in caplog.records if record.name == "wakeful"]
    assert logged == ["task event dropped: %s"]


@workflow.defn(name="TestOwner")
class Owner:
    """Waits for three events."""

    def __init__(self) -> None:
        self.events: list[TaskEvent] = []

    @workflow.run
    async def run(self) -> list[TaskEvent]:
        await workflow.wait_condition(lambda: len(self.events) == 3)
        return self.events

    @workflow.signal(name=SIGNAL_DELIVER)
    def deliver(self, event: TaskEvent) -> None:
        self.events.append(event)


@workflow.defn(name="TestTask")
class Task:
    """Makes one tool call."""

    @workflow.run
    async def run(self, input: ToolCallInput) -> ToolOutcome:
        outcome: ToolOutcome = await workflow.execute_activity(
            input.call.name,
            input,
            activity_id="tool-1-1",
            start_to_close_timeout=timedelta(seconds=30),
            result_type=ToolOutcome,
        )
        return outcome


async def test_events_reach_a_workflow_through_the_workers_own_client(temporal: TemporalClient, thread_id: str) -> None:
    owner = await temporal.start_workflow("TestOwner", id=thread_id, task_queue=thread_id)
    task = TaskRef(task_id="bg_1", thread_id=f"{thread_id}-task", owner_thread_id=thread_id)
    with activities(REGISTRY, HistoryCache(temporal)) as made:
        async with Worker(
            temporal,
            task_queue=thread_id,
            workflows=[Owner, Task],
            activities=[made.tools.call_tool],
            workflow_runner=UnsandboxedWorkflowRunner(),
        ):
            running = await temporal.start_workflow(
                "TestTask", input_of("search", task=task), id=task.thread_id, task_queue=thread_id
            )
            await running.result()
            events = [TaskEvent.model_validate(event) for event in await asyncio.wait_for(owner.result(), timeout=10)]
    emitter = f"{running.result_run_id}:tool-1-1:1"
    assert [event.message_id for event in events] == [ids.task_event_id(task.thread_id, emitter, n) for n in (1, 2, 3)]
    assert [(event.task_id, event.event_type, event.payload) for event in events] == [
        ("bg_1", "found", {"n": n}) for n in (1, 2, 3)
    ]
