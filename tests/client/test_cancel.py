"""Cancel and wait: the run of a thread that stays open, a run that ends by itself, tasks of an idle thread, nothing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import pytest
from temporalio.client import CancelWorkflowInput, Interceptor, OutboundInterceptor, WorkflowExecutionStatus
from temporalio.client import Client as TemporalClient

from tests.support.processes import wakeful
from tests.support.subagents import until_closed, until_open
from tests.support.waiting import BOUND_SECONDS, until
from wakeful import Agent, CallerError, Registry, RunStatus, ScriptedModel, call, say, tool
from wakeful.cli.terminal.result_lines import stopped_lines
from wakeful.client.cancel import StoppedWork, cancel_and_wait
from wakeful.client.client import Client
from wakeful.contract.events import FinishSummary, RunFinish
from wakeful.contract.runs import CancelReceipt, NaturalEnd, ThreadModeName
from wakeful.contract.tasks import TaskStatus
from wakeful.worker import WorkerSettings, running_worker


@tool(read_only=True)
async def wait() -> str:
    """Wait."""
    await asyncio.Event().wait()
    return "never"


@tool(background=True, read_only=True)
async def dig() -> str:
    """Dig in the background."""
    await asyncio.Event().wait()
    return "never"


MODEL = ScriptedModel([say("Hello!")], when={"wait": [call("wait")], "dig": [call("dig")]})
SPAWNS = ScriptedModel([call("spawn_agent", agent="solo", prompt="wait")] * 8, strict=False)
REGISTRY = Registry(
    agents=[
        Agent(id="solo", tools=[wait]),
        Agent(id="digger", tools=[dig], max_rounds=1),
        Agent(id="lead", model="spawns", spawns=["solo"], max_rounds=4),
    ],
    models={"default": MODEL, "spawns": SPAWNS},
)


@pytest.fixture
async def client(temporal: TemporalClient, thread_id: str) -> AsyncIterator[Client]:
    settings = WorkerSettings(task_queue=thread_id, graceful_shutdown=timedelta())  # the tools never end
    async with running_worker(temporal, REGISTRY, settings):
        yield Client(temporal, task_queue=thread_id)


async def cancelled(
    client: Client, thread_id: str, reason: str | None = None, *, run_id: str | None = None
) -> StoppedWork:
    async with asyncio.timeout(BOUND_SECONDS):
        return await cancel_and_wait(client, thread_id, reason=reason, run_id=run_id, on_trouble=lambda _: None)


async def test_the_cancel_of_a_thread_that_stays_open_returns_when_its_run_has_ended(
    client: Client, thread_id: str
) -> None:
    await client.send(thread_id, "Hi", agent_id="solo")
    await until(client, thread_id, lambda view: view.status is RunStatus.DONE)
    await client.send(thread_id, "wait")
    await until(client, thread_id, lambda view: view.doing == "running wait")
    await client.send(thread_id, "and then?")  # the next run starts at once
    stopped = await cancelled(client, thread_id, "too slow")
    assert stopped.was_cancelled
    assert stopped_lines(stopped) == ["cancelled: too slow"]
    view = await until(client, thread_id, lambda view: view.status is RunStatus.DONE and view.runs == 3)
    assert view.result is not None
    assert view.result.status_reason == "natural"
    await client.close(thread_id)


async def test_the_tasks_of_an_idle_thread_are_cancelled(client: Client, thread_id: str) -> None:
    await client.send(thread_id, "dig", agent_id="digger")
    await until(client, thread_id, lambda view: view.status is RunStatus.DONE and bool(view.children))
    stopped = await cancelled(client, thread_id)
    assert (stopped.run, stopped.tasks) == (None, ("bg_0",))
    assert stopped_lines(stopped) == ["its run had ended; cancelled 1 task: bg_0"]
    await client.close(thread_id)


async def test_the_tasks_of_a_run_that_has_ended_and_closed_are_cancelled_and_start_no_run(
    client: Client, thread_id: str
) -> None:
    await client.start("digger", "dig", thread_id=thread_id)
    closed = await until(client, thread_id, lambda view: view.status is RunStatus.DONE)
    await client.handle(thread_id).result()
    (task,) = closed.tasks
    assert not task.status.is_terminal
    await client.cancel(thread_id, reason="not needed")
    async with asyncio.timeout(BOUND_SECONDS):
        await client.handle(thread_id).result()
    view = await client.status(thread_id)
    assert [each.status for each in view.tasks] == [TaskStatus.CANCELLED]
    assert (view.status, view.runs) == (RunStatus.DONE, closed.runs)
    assert task.thread_id is not None
    assert (await client.handle(task.thread_id).describe()).status is not WorkflowExecutionStatus.RUNNING
    with pytest.raises(CallerError, match="has ended"):
        await client.cancel(thread_id)


@pytest.mark.parametrize("command", [None, ("--wait",), ("--no-wait",)])
async def test_sub_agents_of_a_run_that_has_stopped_at_its_limit_of_rounds_are_cancelled(
    client: Client, thread_id: str, command: tuple[str, ...] | None
) -> None:
    await client.start("lead", "go", thread_id=thread_id)
    result = await client.result(thread_id)
    assert result.status_reason == "stopped:max_rounds"
    await until_open(client, thread_id, 4)
    if command is None:
        await client.cancel(thread_id)
    else:
        address = client.temporal.service_client.config.target_host
        ran = await wakeful("cancel", thread_id, *command, address=address)
        assert ran.code == 0, ran.err
        assert "cancelled 4 tasks" in ran.out or command == ("--no-wait",)
    await until_closed(client, thread_id)
    view = await client.status(thread_id)
    assert {task.status for task in view.tasks} == {TaskStatus.CANCELLED}
    assert (view.status, view.runs) == (RunStatus.DONE, 1)


async def test_an_idle_thread_has_nothing_to_cancel(client: Client, thread_id: str) -> None:
    await client.send(thread_id, "Hi", agent_id="solo")
    await until(client, thread_id, lambda view: view.status is RunStatus.DONE)
    with pytest.raises(CallerError, match=f"nothing to cancel on thread '{thread_id}': no run is under way"):
        await cancelled(client, thread_id)
    await client.close(thread_id)


async def test_a_run_that_ends_with_its_thread_is_cancelled(client: Client, thread_id: str) -> None:
    await client.start("solo", "wait", thread_id=thread_id)
    stopped = await cancelled(client, thread_id)
    assert stopped_lines(stopped) == ["cancelled"]


class Before(Interceptor):
    """Does something just before Temporal gets a cancel."""

    def __init__(self, action: Callable[[], Awaitable[None]]) -> None:
        self.action = action

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        action = self.action

        class Outbound(OutboundInterceptor):
            async def cancel_workflow(self, input: CancelWorkflowInput) -> None:
                await action()
                await super().cancel_workflow(input)

        return Outbound(next)


async def test_a_run_that_starts_between_the_call_and_its_cancel_is_not_cancelled(
    client: Client, thread_id: str
) -> None:
    async def end_and_wake() -> None:
        await client.close(thread_id)
        await client.result(thread_id)
        await client.send(thread_id, "wait")
        await until(client, thread_id, lambda view: view.doing == "running wait")

    config = client.temporal.config()
    config["interceptors"] = [Before(end_and_wake)]
    await client.start("solo", "wait", thread_id=thread_id)
    with pytest.raises(CallerError):
        await Client(TemporalClient(**config)).cancel(thread_id)
    assert (await client.status(thread_id)).doing == "running wait"
    await client.close(thread_id)


@pytest.mark.parametrize("mode", ["run", "thread"])
async def test_a_cancel_that_names_a_run_cancels_that_one_and_no_other(
    client: Client, thread_id: str, mode: ThreadModeName
) -> None:
    """B-611"""
    await client.start("solo", "wait", thread_id=thread_id, mode=mode)
    view = await until(client, thread_id, lambda view: view.doing == "running wait")
    run_id = view.identity.run_id
    refusal = f"nothing to cancel on thread '{thread_id}': it is for run 'r0', but the newest run of the thread is "
    with pytest.raises(CallerError, match=f"{refusal}{run_id!r}"):
        await cancelled(client, thread_id, run_id="r0")
    assert (await client.status(thread_id)).doing == "running wait"
    assert stopped_lines(await cancelled(client, thread_id, "enough", run_id=run_id)) == ["cancelled: enough"]
    if mode == "run":
        assert (await client.handle(thread_id).describe()).status is WorkflowExecutionStatus.COMPLETED
    else:
        with pytest.raises(CallerError, match=f"it is for run {run_id!r}, which has ended"):
            await cancelled(client, thread_id, run_id=run_id)
        await client.close(thread_id)


async def test_a_cancel_names_no_run_of_a_background_tool_of_a_closed_thread_or_of_none(
    client: Client, thread_id: str
) -> None:
    await client.send(thread_id, "dig", agent_id="digger")
    view = await until(client, thread_id, lambda view: view.status is RunStatus.DONE and bool(view.tasks))
    (task,) = view.tasks
    assert task.thread_id is not None
    with pytest.raises(CallerError, match="is a background tool, which has no run: leave out run_id"):
        await client.cancel(task.thread_id, run_id="r0")
    with pytest.raises(CallerError, match="run_id should have at least 1 character"):
        await client.cancel(thread_id, run_id="")
    await client.close(thread_id)
    await client.result(thread_id)
    for id in (thread_id, "no-such-thread"):
        with pytest.raises(CallerError):
            await client.cancel(id, run_id=view.identity.run_id)


def test_a_run_that_had_ended_by_itself_says_so() -> None:
    summary = FinishSummary(response="Hi", status=RunStatus.DONE, status_reason="natural")
    finished = RunFinish(thread_id="t", run_id="r", result=summary, termination=NaturalEnd())
    stopped = StoppedWork(finished, receipt=CancelReceipt(cancelled=("t/a",), ended=("t/b",)))
    assert stopped_lines(stopped) == [
        "natural, before it was cancelled",
        "  cancelled: t/a",
        "  already ended: t/b",
    ]
