"""What a tool call may do besides returning: tell its task's owner things, and hand the run over."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, cast

import pytest
from temporalio import workflow
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from wakeful import Agent, Registry, ToolContext, ToolError, ToolResult, tool
from wakeful.contract.mail import TaskEvent
from wakeful.contract.messages import ToolCall
from wakeful.contract.names import SIGNAL_DELIVER
from wakeful.contract.runs import RunIdentity, TaskRef
from wakeful.contract.tools import ToolCallInput, ToolOutcome
from wakeful_activities import HistoryCache, ToolActivity
from wakeful_activities.tools import emit as emitting_module

TASK = TaskRef(task_id="bg_0", thread_id="task", owner_thread_id="owner")
left_behind: list[ToolContext] = []


@tool(background=True)
async def search(ctx: ToolContext) -> list[bool]:
    """Tell three things, at once."""
    return [ctx.emit("found", {"n": n}) for n in range(1, 4)]


@tool(background=True)
def count(ctx: ToolContext) -> list[bool]:
    """Tell two things from each of two threads."""
    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(lambda: [ctx.emit("counted"), ctx.emit("counted")]) for _ in range(2)]
        return [went for told in both for went in told.result()]


@tool(background=True)
async def fail(ctx: ToolContext) -> None:
    """Tell something, and fail."""
    ctx.emit("failing", "soon")
    raise ToolError("no")


@tool(background=True)
async def leave(ctx: ToolContext) -> None:
    """Leave the context to somebody."""
    left_behind.append(ctx)


@tool(background=True)
async def wait(ctx: ToolContext) -> None:
    """Tell something, wait until it is cancelled, and tell that too."""
    ctx.emit("waiting")
    try:
        await asyncio.Event().wait()
    finally:
        ctx.emit("stopping")


@tool
def hand_over(to: list[str], how: str, ctx: ToolContext) -> Any:
    """Hand the run over."""
    for agent_id in to:
        ctx.handoff(agent_id)
    if how == "raise":
        raise ToolError("no")
    if how == "suspend":
        ctx.suspend("May I?")
    return ToolResult.suspended("hand_over", message="May I?") if how == "pending" else how


REGISTRY = Registry(agents=[Agent(id="a", tools=[search, count, fail, leave, wait, hand_over])])


class Owners:
    """A client of a server that fails as it is told to, and keeps what it was signalled."""

    def __init__(self, *failures: RPCStatusCode) -> None:
        self.failures = list(failures)
        self.told: list[tuple[str, str, TaskEvent]] = []
        self._thread_id = ""

    def get_workflow_handle(self, thread_id: str) -> "Owners":
        self._thread_id = thread_id
        return self

    async def signal(self, name: str, event: TaskEvent, *, rpc_timeout: timedelta) -> None:
        await asyncio.sleep(0)
        if self.failures:
            raise RPCError("not now", self.failures.pop(0), b"")
        self.told.append((self._thread_id, name, event))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emitting_module, "FIRST_WAIT_SECONDS", 0.001)


def input_of(tool: str, arguments: Any = None, *, task: TaskRef | None = TASK) -> ToolCallInput:
    return ToolCallInput(
        call=ToolCall(id="c", name=tool, arguments=arguments),
        identity=RunIdentity(thread_id="owner", run_id="r", agent_id="a", task=task),
        idempotency_key="owner/c",
    )


def environment(owners: Owners | None = None) -> ActivityEnvironment:
    made = ActivityEnvironment(client=cast("Client", owners))
    made.payload_converter = pydantic_data_converter.payload_converter
    return made


async def run(input: ToolCallInput, owners: Owners | None = None, memory: HistoryCache | None = None) -> ToolOutcome:
    (payload,) = pydantic_data_converter.payload_converter.to_payloads([input])
    with ThreadPoolExecutor(1) as threads:
        execution = ToolActivity(REGISTRY, memory or HistoryCache(cast("Client", None)), threads)
        return await environment(owners).run(execution.call_tool, [RawValue(payload)])


def event(number: int, event_type: str, payload: Any = None) -> tuple[str, str, TaskEvent]:
    told = TaskEvent(
        message_id=f"owner/c:{number}",
        task_id="bg_0",
        thread_id=TASK.thread_id,
        event_type=event_type,
        payload=payload,
    )
    return ("owner", SIGNAL_DELIVER, told)


async def test_a_task_tells_its_owner_in_order_before_its_call_has_ended() -> None:
    """B-535, B-536."""
    owners = Owners()
    outcome = await run(input_of("search"), owners)
    assert outcome.result.data == [True, True, True]
    assert owners.told == [event(n, "found", {"n": n}) for n in (1, 2, 3)]


async def test_a_task_tells_its_owner_from_any_thread() -> None:
    owners = Owners()
    outcome = await run(input_of("count"), owners)
    assert outcome.result.data == [True] * 4
    assert owners.told == [event(n, "counted") for n in (1, 2, 3, 4)]


async def test_what_a_task_told_before_it_failed_is_heard() -> None:
    owners = Owners()
    outcome = await run(input_of("fail"), owners)
    assert (outcome.result.message, owners.told) == ("Execution failed: no", [event(1, "failing", "soon")])


async def test_what_a_task_tells_when_it_is_cancelled_is_heard() -> None:
    """B-535."""
    owners = Owners()
    calling = asyncio.create_task(run(input_of("wait"), owners))
    async with asyncio.timeout(5):
        while not owners.told:
            await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert owners.told == [event(1, "waiting"), event(2, "stopping")]


async def test_a_call_that_is_part_of_no_task_has_nobody_to_tell() -> None:
    assert (await run(input_of("search", task=None))).result.data == [False, False, False]


async def test_a_call_that_has_ended_tells_nothing_more() -> None:
    owners = Owners()
    await run(input_of("leave"), owners)
    went: list[bool] = []
    thread = threading.Thread(target=lambda: went.append(left_behind.pop().emit("late")))
    thread.start()
    await asyncio.to_thread(thread.join)
    assert (went, owners.told) == ([False], [])


async def test_an_event_is_sent_again_when_the_server_is_out_of_reach() -> None:
    owners = Owners(RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.RESOURCE_EXHAUSTED)
    await run(input_of("search"), owners)
    assert owners.told == [event(n, "found", {"n": n}) for n in (1, 2, 3)]


@pytest.mark.parametrize(
    "failures", [[RPCStatusCode.NOT_FOUND], [RPCStatusCode.UNAVAILABLE] * emitting_module.ATTEMPTS]
)
async def test_an_event_that_cannot_be_delivered_is_dropped_with_a_warning(
    failures: list[RPCStatusCode], caplog: pytest.LogCaptureFixture
) -> None:
    owners = Owners(*failures)
    outcome = await run(input_of("search"), owners)
    assert outcome.result.data == [True, True, True]
    assert owners.told == [event(n, "found", {"n": n}) for n in (2, 3)]
    said = [record.message.partition(" (")[0] for record in caplog.records if record.name == "temporalio.activity"]
    assert said == ["task event dropped"]


@pytest.mark.parametrize(
    ("to", "how", "handoff"),
    [
        (["clerk"], "return", "clerk"),
        (["clerk", "boss"], "return", "boss"),
        ([], "return", None),
        (["clerk"], "raise", None),
        (["clerk"], "suspend", None),
        (["clerk"], "pending", None),
    ],
)
async def test_a_tool_that_returns_may_hand_the_run_over(to: list[str], how: str, handoff: str | None) -> None:
    outcome = await run(input_of("hand_over", {"to": to, "how": how}, task=None))
    assert outcome.handoff == handoff


@pytest.mark.parametrize(("workflow_id", "remembered"), [("test", []), ("task", ["test"])])
async def test_the_result_of_a_task_is_no_entry_of_a_transcript(workflow_id: str, remembered: list[str]) -> None:
    class Keeping(HistoryCache):
        def remember_outcome(self, id: str, call_id: str, outcome: ToolOutcome) -> None:
            kept.append(id)

    kept: list[str] = []
    task = TASK.model_copy(update={"thread_id": workflow_id})  # the environment's workflow is called "test"
    await run(input_of("leave", task=task), Owners(), Keeping(cast("Client", None)))
    assert kept == remembered


@workflow.defn(name="TestOwner")
class Owner:
    """Hears three events."""

    def __init__(self) -> None:
        self.heard: list[TaskEvent] = []

    @workflow.run
    async def run(self) -> list[TaskEvent]:
        await workflow.wait_condition(lambda: len(self.heard) == 3)
        return self.heard

    @workflow.signal(name=SIGNAL_DELIVER)
    def deliver(self, event: TaskEvent) -> None:
        self.heard.append(event)


@workflow.defn(name="TestTask")
class Task:
    """Makes one call."""

    @workflow.run
    async def run(self, input: ToolCallInput) -> ToolOutcome:
        made = await workflow.execute_activity(
            input.call.name, input, start_to_close_timeout=timedelta(seconds=30), result_type=ToolOutcome
        )
        assert isinstance(made, ToolOutcome)
        return made


async def test_events_reach_a_workflow_through_the_workers_own_client(temporal: Client, thread_id: str) -> None:
    owner = await temporal.start_workflow("TestOwner", id=thread_id, task_queue=thread_id)
    task = TaskRef(task_id="bg_0", thread_id=f"{thread_id}-task", owner_thread_id=thread_id)
    with ThreadPoolExecutor(1) as threads:
        async with Worker(
            temporal,
            task_queue=thread_id,
            workflows=[Owner, Task],
            activities=[ToolActivity(REGISTRY, HistoryCache(temporal), threads).call_tool],
            workflow_runner=UnsandboxedWorkflowRunner(),
        ):
            await temporal.execute_workflow(
                "TestTask", input_of("search", task=task), id=task.thread_id, task_queue=thread_id
            )
            heard = await asyncio.wait_for(owner.result(), timeout=10)
    wanted = [event(n, "found", {"n": n})[2].model_copy(update={"thread_id": task.thread_id}) for n in (1, 2, 3)]
    assert [TaskEvent.model_validate(told) for told in heard] == wanted
