"""Cancel all active runs that a query finds: of a tenant, of an agent, of both (B-673)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import pytest
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.client import Client as TemporalClient
from temporalio.client import (
    Interceptor,
    ListWorkflowsInput,
    OutboundInterceptor,
    WorkflowExecution,
    WorkflowExecutionAsyncIterator,
)

from tests.support.namespaces import empty_namespace, register
from tests.support.processes import wakeful
from tests.support.waiting import BOUND_SECONDS, until, until_status
from wakeful import Agent, CallerError, Registry, RunStatus, ScriptedModel, ThreadMode, call, say, tool
from wakeful.client.cancel_many import ActiveRun, cancel_many, filter_of, select_runs, wait_until_ended
from wakeful.client.client import Client
from wakeful.contract.runs import Cancelled
from wakeful.worker import WorkerSettings, running_worker


async def waiting(client: Client, thread_id: str, *, tenant: str, agent_id: str = "tester") -> str:
    await client.start(agent_id, "approve", thread_id=thread_id, tenant=tenant)
    await until_status(client, thread_id, RunStatus.WAITING)
    return thread_id


async def until_listed(client: Client, filter: str, threads: set[str]) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        while {run.thread_id for run in await select_runs(client.temporal, filter)} != threads:
            await asyncio.sleep(0.05)


async def test_the_runs_of_one_tenant_are_cancelled_after_a_confirmation(client: Client, thread_id: str) -> None:
    tenant, address = f"tenant-{thread_id[:40]}", client.temporal.service_client.config.target_host
    ours = {await waiting(client, f"{thread_id}-{number}", tenant=tenant) for number in range(3)}
    other = await waiting(client, f"{thread_id}-other", tenant="other")
    idle = f"{thread_id}-idle"
    await client.send(idle, "hi", agent_id="tester", tenant=tenant)
    await until_status(client, idle, RunStatus.DONE)
    await until_listed(client, filter_of(query=None, agent_id=None, tenant=tenant), ours)

    asked = await wakeful("cancel", "--tenant", tenant, "--agent", "tester", address=address)
    assert (asked.code, asked.err.splitlines()[-1]) == (
        1,
        "wakeful: 3 active runs match, and nothing is cancelled: without a terminal to ask at, confirm with --yes",
    )
    assert all(f"  {id}  tester" in asked.err for id in ours)

    done = await wakeful("cancel", "--tenant", tenant, "--yes", "--reason", "bankrupt", address=address)
    assert (done.code, done.out) == (0, "cancelled 3 runs\n"), done.err
    for id in ours:
        assert isinstance((await client.result(id)).termination, Cancelled)
    assert (await client.status(other)).status is RunStatus.WAITING
    await client.cancel(other)
    again = await wakeful("cancel", "--tenant", tenant, "--yes", address=address)
    assert (again.code, again.err) == (1, f"wakeful: no active run matches WakefulTenant = '{tenant}'\n")


async def test_a_run_that_has_ended_meanwhile_does_not_stop_the_others(client: Client, thread_id: str) -> None:
    ended, open = f"{thread_id}-ended", await waiting(client, f"{thread_id}-open", tenant="t")
    await client.run("tester", "hi", thread_id=ended)
    progress: list[int] = []
    outcome = await cancel_many(client, list(map(ActiveRun, [ended, open, "nowhere"])), on_progress=progress.append)
    # Temporal accepts the cancel of a workflow that is closed.
    assert (sorted(outcome.requested), outcome.ended, outcome.failed) == ([ended, open], ["nowhere"], {})
    assert sorted(progress) == [1, 2, 3]


@tool(read_only=True)
async def wait() -> str:
    """Wait."""
    await asyncio.Event().wait()
    return "never"


@tool(background=True)
async def dig() -> str:
    """Dig in the background."""
    await asyncio.Event().wait()
    return "never"


LEAD = ScriptedModel(
    [call("spawn_agent", agent="helper", prompt="go")], when={"wait": [call("wait")], "hi": [say("hello")]}
)
TREES = Registry(
    agents=[
        Agent(id="lead", tools=[wait], spawns=["helper"], max_rounds=1, model="lead"),
        Agent(id="helper", tools=[wait], model="helper"),
        Agent(id="digger", tools=[dig], max_rounds=1, model="digger"),
    ],
    models={"lead": LEAD, "helper": ScriptedModel([call("wait")]), "digger": ScriptedModel([call("dig")])},
)


@pytest.fixture
async def trees(temporal: TemporalClient, thread_id: str) -> AsyncIterator[Client]:
    at_once = timedelta()  # the tools never end
    settings = WorkerSettings(task_queue=thread_id, sweep_interval=None, graceful_shutdown=at_once)
    async with running_worker(temporal, TREES, settings), Client(temporal, task_queue=thread_id) as client:
        yield client


async def test_a_task_of_an_earlier_run_is_cancelled_beside_its_parent(trees: Client, thread_id: str) -> None:
    await trees.start("lead", "spawn", thread_id=thread_id, tenant=thread_id, mode=ThreadMode.THREAD)
    view = await until_status(trees, thread_id, RunStatus.DONE)
    (task,) = view.children
    await trees.send(thread_id, "wait", tenant=thread_id)
    await until(trees, thread_id, lambda view: view.doing == "running wait")
    filter = filter_of(query=None, agent_id=None, tenant=thread_id)
    await until_listed(trees, filter, {thread_id, task})
    await cancel_many(trees, await select_runs(trees.temporal, filter))
    assert isinstance((await trees.result(task)).termination, Cancelled)
    await trees.close(thread_id)


async def digging(client: Client, thread_id: str, *, tenant: str | None = None, user: str | None = None) -> str:
    """The background tool of an idle thread."""
    await client.start("digger", "go", thread_id=thread_id, mode=ThreadMode.THREAD, tenant=tenant, user=user)
    (tool,) = (await until_status(client, thread_id, RunStatus.DONE)).children
    return tool


@pytest.mark.parametrize("by", ["tenant", "agent"])
async def test_a_background_tool_of_an_idle_thread_is_cancelled_and_starts_no_run(
    trees: Client, thread_id: str, by: str
) -> None:
    tool, address = await digging(trees, thread_id, tenant=thread_id), trees.temporal.service_client.config.target_host
    named = {"tenant": thread_id, "agent": "digger"}[by]
    only = f"TaskQueue = '{thread_id}'"
    filter = filter_of(query=only, agent_id=named if by == "agent" else None, tenant=named if by == "tenant" else None)
    await until_listed(trees, filter, {tool})
    done = await wakeful("cancel", f"--{by}", named, "--query", only, "--yes", address=address)
    assert (done.code, done.out) == (0, "cancelled 1 background tool\n"), done.err
    view = await until(trees, thread_id, lambda view: view.tasks[0].status.is_terminal)
    assert (view.tasks[0].status.value, view.runs, view.status) == ("cancelled", 1, RunStatus.DONE)
    await trees.close(thread_id)


async def test_the_thread_of_a_tool_that_is_found_alone_reads_that_it_was_cancelled(
    trees: Client, thread_id: str
) -> None:
    tool = await digging(trees, thread_id, user=thread_id)
    filter = f"WorkflowType = 'ToolTask' AND WakefulParent = '{thread_id}' AND WakefulUser = '{thread_id}'"
    await until_listed(trees, filter, {tool})
    (found,) = await select_runs(trees.temporal, filter)
    assert found == ActiveRun(tool, "digger", is_tool=True)
    await cancel_many(trees, [found])
    await until(trees, thread_id, lambda view: view.runs == 2)
    await trees.close(thread_id)


async def test_a_background_tool_can_be_cancelled_by_its_own_id(trees: Client, thread_id: str) -> None:
    tool, address = await digging(trees, thread_id), trees.temporal.service_client.config.target_host
    done = await wakeful("cancel", tool, address=address)
    assert (done.code, done.out) == (0, f"thread {tool}: cancelled\n"), done.err
    assert (await trees.temporal.get_workflow_handle(tool).result())["status"] == "cancelled"
    await trees.close(thread_id)


async def test_a_background_tool_has_the_search_attributes_of_its_owner_that_the_namespace_has(
    temporal: TemporalClient, thread_id: str
) -> None:
    namespace = await empty_namespace(temporal)
    await register(namespace, WakefulUser=IndexedValueType.INDEXED_VALUE_TYPE_INT)  # ours is a keyword
    async with running_worker(namespace, TREES), Client(namespace) as client:
        tool = await digging(client, thread_id, tenant="acme", user="ann")
        described = await client.handle(tool).describe()
        await client.close(thread_id)
        await client.result(thread_id)
    shown = {pair.key.name: pair.value for pair in described.typed_search_attributes}
    ours = {name: value for name, value in shown.items() if name.startswith("Wakeful")}
    assert ours == {"WakefulAgent": "digger", "WakefulParent": thread_id, "WakefulTenant": "acme"}


async def test_a_run_that_a_queued_message_starts_is_not_waited_for(trees: Client, thread_id: str) -> None:
    await trees.start("lead", "wait", thread_id=thread_id, mode=ThreadMode.THREAD)
    await until(trees, thread_id, lambda view: view.doing == "running wait")
    await trees.send(thread_id, "wait", confirm=True)
    await until_listed(trees, f"WorkflowId = '{thread_id}'", {thread_id})
    await cancel_many(trees, [ActiveRun(thread_id)])
    async with asyncio.timeout(BOUND_SECONDS):
        assert await wait_until_ended(trees.temporal, [thread_id], on_progress=lambda _: None) == [thread_id]
    assert (await until(trees, thread_id, lambda view: view.doing == "running wait")).runs == 2
    await trees.close(thread_id)


class Listed(WorkflowExecutionAsyncIterator):
    """A list that leaves nothing of these executions."""

    def __init__(self, executions: list[WorkflowExecution]) -> None:
        self.executions = executions

    async def __anext__(self) -> WorkflowExecution:
        if not self.executions:
            raise StopAsyncIteration
        return self.executions.pop()


class LateVisibility(Interceptor):
    """Lists at first what was listed before the runs ended."""

    def __init__(self, listed: Sequence[WorkflowExecution]) -> None:
        self.late = list(listed)

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        late = self.late

        class Outbound(OutboundInterceptor):
            def list_workflows(self, input: ListWorkflowsInput) -> WorkflowExecutionAsyncIterator:
                return Listed(late) if late else super().list_workflows(input)

        return Outbound(next)


async def test_a_run_that_has_ended_has_no_next_run_although_it_is_still_listed(trees: Client, thread_id: str) -> None:
    await trees.start("lead", "wait", thread_id=thread_id)
    await until(trees, thread_id, lambda view: view.doing == "running wait")
    await until_listed(trees, f"WorkflowId = '{thread_id}'", {thread_id})
    listed = [each async for each in trees.temporal.list_workflows(f"WorkflowId = '{thread_id}'")]
    await cancel_many(trees, [ActiveRun(thread_id)])
    await trees.result(thread_id)
    visibility, progress = LateVisibility(listed), list[int]()
    config = trees.temporal.config()
    config["interceptors"] = [visibility]
    async with asyncio.timeout(BOUND_SECONDS):
        assert await wait_until_ended(TemporalClient(**config), [thread_id], on_progress=progress.append) == []
    assert (visibility.late, progress[0], progress[-1]) == ([], 0, 1)


async def test_a_query_that_temporal_does_not_understand_is_refused(client: Client) -> None:
    with pytest.raises(CallerError, match="Temporal refused the query"):
        await select_runs(client.temporal, "WakefulAgent LIKES 'x'")


@pytest.mark.parametrize("args", [[], ["t", "--agent", "a"]])
async def test_a_thread_is_named_or_runs_are_found(args: list[str]) -> None:
    ran = await wakeful("cancel", *args)
    assert (ran.code, "name a thread, or find runs with --query, --agent, --tenant or --user" in ran.err) == (2, True)
