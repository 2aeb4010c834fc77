"""A thread can be read as it was at the end of any step, while no worker runs."""

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client as TemporalClient
from temporalio.service import RPCError

from tests.support.app import registry
from tests.support.app.walking import STEPS
from tests.support.processes import wakeful
from tests.support.waiting import until, until_status
from wakeful.client.client import Client
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.errors import CallerError
from wakeful.contract.messages import Role
from wakeful.contract.runs import RunStatus
from wakeful.worker import WorkerSettings, running_worker

EVENTS = {"one execution": 2000, "several executions": 40}


async def walked(client: Client, thread_id: str, *, events: int) -> None:
    """Sixteen steps, each of which but the last paces once."""
    settings = WorkerSettings(task_queue=thread_id, history_budget=HistoryBudget(events=events), sweep_interval=None)
    async with running_worker(client.temporal, registry, settings):
        await client.run("walker", "walk", thread_id=thread_id)


@pytest.mark.parametrize("events", EVENTS.values(), ids=EVENTS)
async def test_a_thread_is_read_as_it_was_at_each_step(temporal: TemporalClient, thread_id: str, events: int) -> None:
    async with Client(temporal, task_queue=thread_id) as client:
        await walked(client, thread_id, events=events)
        messages, newest = await client.transcript(thread_id), await client.status(thread_id)
        for step in (1, 2, 7, 12):
            past = await client.at_step(thread_id, step)
            assert past.state is not None
            assert past.status is not None
            assert past.messages == tuple(messages[: 1 + 2 * step])
            assert (past.state.values["paces"], past.state.values["place"]) == (step, f"at {step}")
            assert (past.status.status, past.status.steps) == (RunStatus.RUNNING, step + 1)
        last = await client.at_step(thread_id, newest.steps)
        assert (last.messages, last.status, last.state) == (
            tuple(messages),
            newest,
            await client.state(thread_id),
        )


async def test_a_fork_shows_the_steps_that_it_inherited(temporal: TemporalClient, thread_id: str) -> None:
    async with Client(temporal, task_queue=thread_id) as client:
        await walked(client, thread_id, events=2000)
        fork = await client.fork(thread_id, at=3, message="turn back")
        async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id, sweep_interval=None)):
            await client.result(fork)
        inherited, own = await client.at_step(fork, 2), await client.at_step(fork, 4)
        assert inherited.state == (await client.at_step(thread_id, 2)).state
        assert inherited.state is not None
        assert own.state is not None
        assert (inherited.state.values["paces"], own.state.values["paces"]) == (2, 4)


async def test_a_step_that_has_not_ended_or_does_not_exist_is_refused(client: Client, thread_id: str) -> None:
    await client.start("tester", "approve", thread_id=thread_id)
    await until_status(client, thread_id, RunStatus.WAITING)
    with pytest.raises(CallerError, match=r"step 1 of thread .* has not ended: approve \(1-1\) has not returned"):
        await client.at_step(thread_id, 1)
    with pytest.raises(CallerError, match="has 1 step, so there is no step 2"):
        await client.at_step(thread_id, 2)
    await client.decide(thread_id, "1-1", "resume")
    await client.result(thread_id)
    past = await client.at_step(thread_id, 1)
    assert past.status is not None
    assert ([message.role for message in past.messages], past.status.steps) == (["user", "assistant", "tool"], 2)


async def test_a_step_whose_execution_was_deleted_has_its_messages_alone(
    temporal: TemporalClient, thread_id: str
) -> None:
    settings = WorkerSettings(task_queue=thread_id, history_budget=HistoryBudget(events=40), sweep_interval=None)
    async with Client(temporal, task_queue=thread_id) as client, running_worker(temporal, registry, settings):
        await client.send(thread_id, "walk", agent_id="walker")
        await until(client, thread_id, lambda view: view.status is RunStatus.DONE)
        newest = (await client.handle(thread_id).describe()).run_id
        first = await client.handle(thread_id).describe()
        while (continued := await _continued(client, thread_id, first.run_id)) is not None:
            first = await client.handle(thread_id, run_id=continued).describe()
        assert first.run_id != newest
        await temporal.workflow_service.delete_workflow_execution(
            DeleteWorkflowExecutionRequest(
                namespace=temporal.namespace,
                workflow_execution=WorkflowExecution(workflow_id=thread_id, run_id=first.run_id),
            )
        )
        await _until_deleted(client, thread_id, first.run_id)
        gone, kept = await client.at_step(thread_id, 1), await client.at_step(thread_id, 12)
        assert (gone.status, gone.state) == (None, None)
        assert gone.messages == kept.messages[: len(gone.messages)]
        assert gone.messages[-1].role is Role.TOOL
        assert kept.state is not None
        assert kept.state.values["paces"] == 12
        await client.close(thread_id)
        await client.result(thread_id)


async def _continued(client: Client, thread_id: str, run_id: str) -> str | None:
    async for event in client.handle(thread_id, run_id=run_id).fetch_history_events(page_size=1):
        return event.workflow_execution_started_event_attributes.continued_execution_run_id or None
    return None


async def _until_deleted(client: Client, thread_id: str, run_id: str) -> None:
    while True:
        try:
            await client.handle(thread_id, run_id=run_id).describe()
        except RPCError:
            return


async def test_show_prints_a_past_step(temporal: TemporalClient, thread_id: str) -> None:
    async with Client(temporal, task_queue=thread_id) as client:
        await walked(client, thread_id, events=2000)
    address = temporal.service_client.config.target_host
    shown = await wakeful("show", thread_id, "--at", "2", address=address)
    lines = shown.out.splitlines()
    assert (shown.code, lines[0], lines[-3:]) == (
        0,
        "user: walk",
        ["state    paces = 2", 'state    place = "at 2"', "status   running: calling walks"],
    ), shown.err
    assert lines[3] == "assistant, step 2: → pace(n=2)"
    missing = await wakeful("show", thread_id, "--at", "99", address=address)
    assert (missing.code, missing.err) == (
        1,
        f"wakeful: thread {thread_id!r} has {STEPS} steps, so there is no step 99\n",
    )
