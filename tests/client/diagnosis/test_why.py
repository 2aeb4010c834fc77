"""`client.why` on staged situations: the true cause, since when, and the command to type next."""

import asyncio
import contextlib
import os
import shlex
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import PauseActivityRequest
from temporalio.client import Client as TemporalClient
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from tests.support.app import registry
from tests.support.diagnoses import until_cause
from tests.support.fake_provider.script import Answer, Stall, Status
from tests.support.fake_provider.server import FakeProvider, fake_provider
from tests.support.processes import ROOT, kill, worker_process
from tests.support.provider_app import registry_for
from tests.support.stand_ins import Part, stand, stand_ins, view_of
from tests.support.subagent_app import delegate, holding, plan, spawn, written
from tests.support.subagent_app import registry as subagent_registry
from tests.support.subagents import until_pending
from tests.support.waiting import until, until_status
from wakeful import (
    Agent,
    Budget,
    CallerError,
    ModelRequest,
    ModelResponse,
    ProviderError,
    ProviderErrorKind,
    Registry,
    RetryPolicy,
    RunStatus,
    ScriptedModel,
    ThreadNotFound,
    call,
    say,
    tool,
)
from wakeful.client.client import Client
from wakeful.client.diagnosis.causes import Cause, Diagnosis
from wakeful.contract import names
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.contract.runs import ThreadMode
from wakeful.contract.views import WaitingFor
from wakeful.worker import WorkerSettings, running_worker

HOUR = 3_600_000


@contextlib.asynccontextmanager
async def working(
    temporal: TemporalClient, queue: str, agents: Registry = registry, **more: object
) -> AsyncIterator[Client]:
    """A worker of the test's own."""
    settings = WorkerSettings(task_queue=queue, **more)  # type: ignore[arg-type]  # whatever the test sets
    async with running_worker(temporal, agents, settings):
        yield Client(temporal, task_queue=queue)


@pytest.fixture(scope="module")
async def provider(temporal: TemporalClient) -> AsyncIterator[FakeProvider]:
    settings = WorkerSettings(task_queue="why-inference")
    async with fake_provider() as server, running_worker(temporal, registry_for(server.port), settings):
        yield server


@pytest.fixture
def asking(temporal: TemporalClient, provider: FakeProvider) -> Client:
    """A client whose agents call the fake provider."""
    provider.forget()
    return Client(temporal, task_queue="why-inference")


async def ask(client: Client, agent: str, thread_id: str) -> None:
    """Each test calls a model of its own: another test may have opened the circuit breaker of a shared one."""
    await client.start(agent, "hi", thread_id=thread_id, overrides=InferenceOverrides(upstream_model=thread_id))


async def cancelled(client: Client, thread_id: str) -> None:
    await client.cancel(thread_id)
    await client.result(thread_id)


def waited(found: Diagnosis) -> float:
    """Seconds since the cause began."""
    assert found.since is not None
    return (found.at - found.since) / 1000


async def test_a_thread_that_does_not_exist_has_no_diagnosis(usual_client: Client) -> None:
    with pytest.raises(ThreadNotFound):
        await usual_client.why("no-such-thread")


async def test_a_model_that_answers_429_is_quoted_with_the_time_of_the_retry(
    asking: Client, provider: FakeProvider, thread_id: str
) -> None:
    provider.always(Status(429, message="slow down", retry_after=120))
    await ask(asking, "chat-patient", thread_id)
    found = await until_cause(asking, thread_id, Cause.MODEL_RETRYING, "has failed once", "answered 429: 'slow down'")
    assert f"{thread_id} is at step 1 and calls model {thread_id}, which has failed once since" in found.doing
    assert "(rate limited)" in found.why
    assert "Temporal retries it in 2m" in found.why or "Temporal retries it in 1m" in found.why
    assert "and so on until its agent's patience is over in 23h59m" in found.why
    assert (
        "The limit is the provider's, not Wakeful's: wait, raise the limit, or give the agent a fallback model"
        in found.next
    )
    assert waited(found) < 60
    assert found.commands == (f"wakeful cancel {thread_id}",)
    await cancelled(asking, thread_id)


async def test_a_model_with_a_fallback_names_the_one_that_is_called_next(
    asking: Client, provider: FakeProvider, thread_id: str
) -> None:
    provider.always(Status(529, message="busy", retry_after=120))
    await ask(asking, "chat-backed", thread_id)
    found = await until_cause(asking, thread_id, Cause.MODEL_RETRYING, "(overloaded)", "failed twice")
    assert f", with model {thread_id}" in found.why  # both have to wait, and this one's turn comes first
    assert "a fallback model" not in found.next
    await cancelled(asking, thread_id)


class Refusing:
    """A model that is always rate limited."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise ProviderError(ProviderErrorKind.RATE_LIMITED, f"not now, {request.model}", retry_after=120)


async def test_a_thread_that_has_continued_as_new_still_knows_how_often_its_model_is_called(
    temporal: TemporalClient, thread_id: str
) -> None:
    agents = Registry(agents=[Agent(id="eager", retry=RetryPolicy(max_retries=4))], models={"default": Refusing()})
    async with working(temporal, thread_id, agents, history_budget=HistoryBudget(events=1)) as client:
        await client.start("eager", "hi", thread_id=thread_id)
        await until_cause(client, thread_id, Cause.MODEL_RETRYING, "not now, default", "has failed once since")
        await cancelled(client, thread_id)


@pytest.mark.integration
async def test_a_model_that_thinks_one_that_streams_and_one_that_stalls_differ(
    asking: Client, provider: FakeProvider, thread_id: str
) -> None:
    thinks, answers, stalls = (f"{thread_id[:50]}-{how}" for how in ("thinks", "answers", "stalls"))
    provider.will(Answer("x", faults=(Stall("headers"),)))
    await ask(asking, "chat-patient", thinks)
    found = await until_cause(asking, thinks, Cause.MODEL_THINKING, "has sent nothing yet")
    assert f"calls model {thinks} and has waited for" in found.doing
    assert "the attempt counts as failed" in found.why
    provider.will(Answer("word " * 2000, pause=0.05, chunk=5))
    await ask(asking, "chat-patient", answers)
    found = await until_cause(asking, answers, Cause.MODEL_STREAMING, "characters of text so far", "within the last 2s")
    assert f"calls model {answers}, which has been answering for" in found.doing
    provider.will(Answer("word " * 20, faults=(Stall(3),)))
    await ask(asking, "chat-patient", stalls)
    found = await until_cause(
        asking, stalls, Cause.MODEL_STALLED, "24 characters of text so far, and nothing more arrived"
    )
    assert "After 60s without data the worker treats the stream as interrupted" in found.why
    for thread in (thinks, answers, stalls):
        await cancelled(asking, thread)


async def test_a_rejected_api_key_ends_a_run_and_says_what_to_correct(
    asking: Client, provider: FakeProvider, thread_id: str
) -> None:
    provider.will(Status(401, message="no such key"), Answer("here I am"))
    await ask(asking, "chat-patient", thread_id)
    await asking.result(thread_id)
    found = await until_cause(asking, thread_id, Cause.FAILED, "answered 401: 'no such key'")
    assert f"{thread_id} ended with an error " in found.doing
    assert found.next.startswith("Give the worker a valid API key, then `wakeful send ")
    assert shlex.split(found.commands[0]) == ["wakeful", "send", thread_id, "Please continue."]
    await asking.send(*shlex.split(found.commands[0])[2:])  # the key is valid by now, and the thread continues
    await until(asking, thread_id, lambda view: view.result is not None and view.result.response == "here I am")


class Down:
    """A model that is away, and does not say for how long."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise ProviderError(ProviderErrorKind.PROVIDER, "we are closed")


async def test_a_run_that_a_circuit_breaker_holds_back_quotes_the_provider(
    temporal: TemporalClient, thread_id: str
) -> None:
    broken = Registry(agents=[Agent(id="solo")], models={"default": Down()})
    held = f"{thread_id}-2"
    async with working(temporal, thread_id, broken, breaker_failures=1, breaker_cooldown=timedelta(hours=1)) as client:
        await client.start("solo", "hi", thread_id=thread_id)
        await until_cause(client, thread_id, Cause.MODEL_RETRYING, "we are closed")
        await client.start("solo", "hi", thread_id=held)
        found = await until_cause(client, held, Cause.MODEL_RETRYING, "it has failed 1 times in a row on this worker")
        assert "at last: we are closed" in found.why
        for thread in (thread_id, held):
            await cancelled(client, thread)


async def test_an_approval_that_has_waited_for_an_hour_says_so_and_how_to_answer(
    usual_client: Client, thread_id: str
) -> None:
    await usual_client.start("tester", "approve", thread_id=thread_id)
    view = await until_status(usual_client, thread_id, RunStatus.WAITING)
    since = view.calls[0].since
    assert since is not None
    found = await usual_client.why(thread_id, now=since + HOUR)
    assert (found.cause, found.since, found.path) == (Cause.DECISION, since, ())
    assert f"{thread_id} is at step 1 and has been waiting for a decision on approve for 1h00m (since " in found.doing
    assert "'May I launch?'" in found.why
    approve = shlex.split(found.commands[0])
    assert approve == ["wakeful", "approve", f"{thread_id}/1-1"]
    await usual_client.decide(thread_id, approve[2].rpartition("/")[2], "resume")
    assert (await usual_client.result(thread_id)).status_reason == "natural"
    found = await until_cause(usual_client, thread_id, Cause.ENDED, "came to its natural end")
    assert found.commands[0] == f"wakeful show {thread_id}"


async def test_an_approval_of_a_grandchild_is_found(temporal: TemporalClient, thread_id: str) -> None:
    async with working(temporal, thread_id, subagent_registry) as client:
        leaf = plan([("sign", {"what": "launch"})])
        await client.start("node", written(plan([delegate(plan([delegate(leaf)]))])), thread_id=thread_id)
        pending = await until_pending(client, thread_id)
        found = await until_cause(client, thread_id, Cause.DECISION, "'May I launch?'")
        assert found.path == (thread_id, *pending.path[1:])
        assert len(found.path) == 3
        assert f"waits for its sub-agent {found.path[1]}, which is at step 1 and waits for its sub-agent" in found.doing
        assert found.commands[0] == f"wakeful approve {pending.ticket}"
        await cancelled(client, thread_id)


async def test_a_tool_that_hangs_in_a_child_is_found_with_its_timeout(temporal: TemporalClient, thread_id: str) -> None:
    async with working(temporal, thread_id, subagent_registry) as client:
        await client.start("node", written(plan([delegate(plan([holding()]))])), thread_id=thread_id)
        found = await until_cause(client, thread_id, Cause.TOOL_RUNNING, "tool hold", "has reported no progress")
        assert len(found.path) == 2
        assert f"waits for its sub-agent {found.path[1]}, which is at step 1 and waits for tool hold" in found.doing
        assert "of its timeout of 10m" in found.why
        assert found.commands == (f"wakeful cancel {found.path[1]}",)
        await cancelled(client, thread_id)
        await until_cause(client, found.path[1], Cause.CANCELLED, f"Thread {thread_id} cancelled it")


async def test_of_several_background_tasks_the_one_that_needs_a_person_is_the_cause(
    temporal: TemporalClient, thread_id: str
) -> None:
    async with working(temporal, thread_id, subagent_registry) as client:
        tasks = plan(
            [spawn(plan([holding()]), name="digging"), spawn(plan([("sign", {"what": "land"})]), name="signing")]
        )
        await client.start("node", written(tasks), thread_id=thread_id)
        found = await until_cause(client, thread_id, Cause.DECISION, "'May I land?'")
        assert "waits for background task" in found.doing
        assert "(and for 1 other)" in found.doing
        assert f"{thread_id}: status waiting, waiting for digging, signing" in "\n".join(found.facts)
        await cancelled(client, thread_id)


async def test_a_background_tool_is_found_from_its_parent_and_by_itself(
    temporal: TemporalClient, thread_id: str
) -> None:
    async with working(temporal, thread_id, subagent_registry) as client:
        await client.start("node", written(plan([("linger", {"seconds": 300})])), thread_id=thread_id)
        found = await until_cause(client, thread_id, Cause.TOOL_RUNNING, "background tool", "tool linger")
        assert len(found.path) == 2
        alone = await until_cause(client, found.path[1], Cause.TOOL_RUNNING, "tool linger")
        assert alone.path == ()
        await cancelled(client, thread_id)
        assert (await client.why(found.path[1])).cause is Cause.CANCELLED


@pytest.mark.integration
async def test_a_task_queue_without_a_worker_outranks_everything_else(temporal: TemporalClient, thread_id: str) -> None:
    client = Client(temporal, task_queue=f"{thread_id}-queue")
    await client.start("tester", "approve", thread_id=thread_id)
    found = await until_cause(client, thread_id, Cause.NO_WORKER, "No worker polls task queue")
    assert "Temporal has seen no worker there in the last five minutes" in found.why
    assert "Its next workflow task has been queued for" in found.why
    assert found.commands == (f"wakeful worker --app module:registry --task-queue {thread_id}-queue",)
    async with working(temporal, f"{thread_id}-queue"):
        await until_status(client, thread_id, RunStatus.WAITING)
    # Temporal still lists a worker that has stopped, but its last poll is old. The decision is still pending.
    later = int(time.time() * 1000) + 120_000
    found = await client.why(thread_id, now=later)
    assert found.cause is Cause.NO_WORKER
    assert "the last worker there" in found.why
    assert f"It also waits for a decision (`wakeful approve {thread_id}/1-1`)" in found.next
    await client.handle(thread_id).terminate()


@pytest.mark.faults
async def test_without_a_worker_the_decision_is_read_from_history(temporal: TemporalClient, thread_id: str) -> None:
    async with working(temporal, thread_id) as client:
        await client.start("tester", "approve", thread_id=thread_id)
        await until_status(client, thread_id, RunStatus.WAITING)
    found = await client.why(thread_id)
    assert found.cause is Cause.DECISION
    assert "May I launch?" in found.why
    assert found.commands[0] == f"wakeful approve {thread_id}/1-1"
    assert any("no worker answered its status query within 2s" in fact for fact in found.facts)
    await client.handle(thread_id).terminate()


@tool(task_queue="why-no-worker")
def far() -> str:
    """Do it elsewhere."""
    return "done"


async def test_a_tool_without_a_worker_is_another_cause_than_a_run_without_one(
    temporal: TemporalClient, thread_id: str
) -> None:
    agents = Registry(
        agents=[Agent(id="clerk", tools=[far])], models={"default": ScriptedModel([call("far"), say("{result}")])}
    )
    async with working(temporal, thread_id, agents) as client:
        await client.start("clerk", "go", thread_id=thread_id)
        await until(client, thread_id, lambda view: view.doing == "running far")
        found = await until_cause(client, thread_id, Cause.NO_TOOL_WORKER, "tool far")
        assert "Tool far runs on task queue 'why-no-worker', which no worker polls" in found.why
        assert "If no worker starts it, the call fails in 14m" in found.why
        assert found.commands == ("wakeful worker --app module:registry --task-queue why-no-worker",)
        await client.handle(thread_id).terminate("enough", reason="enough of it")
        ended = await until_cause(client, thread_id, Cause.TERMINATED, "The reason that was given: enough of it")
        assert "in Temporal by" in ended.doing
        await client.send(*shlex.split(ended.commands[0])[2:])
        await until_cause(client, thread_id, Cause.NO_TOOL_WORKER, "tool far")
        assert [message.text for message in await client.transcript(thread_id)][:1] == ["go"]
        await client.handle(thread_id).terminate()


async def test_workers_without_a_free_slot_leave_a_backlog(temporal: TemporalClient, thread_id: str) -> None:
    async with working(temporal, thread_id, max_concurrent_activities=1) as client:
        await client.start("tester", "linger", thread_id=f"{thread_id}-first")
        await until(client, f"{thread_id}-first", lambda view: view.doing == "running linger")
        for number in range(3):
            await client.start("tester", "hi", thread_id=f"{thread_id}-{number}")
        found = await until_cause(client, f"{thread_id}-2", Cause.BACKLOG, "activity tasks are queued, the oldest for")
        assert "for a worker to start the lookup of its agent for" in found.doing
        assert found.commands == (f"wakeful worker --app module:registry --task-queue {thread_id}",)
        for which in ("first", "0", "1", "2"):
            await client.handle(f"{thread_id}-{which}").terminate()


async def test_a_long_tool_call_says_for_how_long_it_has_run_and_what_it_last_reported(
    usual_client: Client, thread_id: str
) -> None:
    await usual_client.start("tester", "linger", thread_id=thread_id)
    found = await until_cause(usual_client, thread_id, Cause.TOOL_RUNNING, "last reported 'lingering', 50%")
    assert f"{thread_id} is at step 1 and waits for tool linger, which has been running for" in found.doing
    assert "with seconds=60" in found.why
    assert "left of its timeout of 10m" in found.why
    await cancelled(usual_client, thread_id)
    found = await until_cause(usual_client, thread_id, Cause.CANCELLED, "cancelled it and gave no reason")
    assert f"Client {usual_client.temporal.service_client.config.identity} cancelled it" in found.why


@pytest.mark.faults
async def test_a_worker_that_died_is_reported_before_its_heartbeat_timeout(
    temporal: TemporalClient, thread_id: str, tmp_path: Path
) -> None:
    client = Client(temporal, task_queue=thread_id)
    address = temporal.service_client.config.target_host
    async with worker_process(address, thread_id, tmp_path / "journal") as process:
        await client.start("slow", "dawdle", thread_id=thread_id)
        await until(client, thread_id, lambda view: view.doing == "running dawdle")
        await until_cause(client, thread_id, Cause.TOOL_RUNNING, "tool dawdle")
        await kill(process)
        found = await until_cause(client, thread_id, Cause.WORKER_LOST, "has not heartbeated for")
        assert f"{process.pid}@" in found.why
        assert "Temporal detects that in" in found.why
        assert "after the heartbeat timeout of 60s, and then retries it" in found.why
        assert found.commands == (f"wakeful worker --app module:registry --task-queue {thread_id}",)
        await client.handle(thread_id).terminate()


@pytest.mark.faults
async def test_a_retry_while_no_worker_is_left_is_not_reported_as_a_backlog(
    temporal: TemporalClient, thread_id: str, tmp_path: Path
) -> None:
    client = Client(temporal, task_queue=thread_id)
    address = temporal.service_client.config.target_host
    async with worker_process(address, thread_id, tmp_path / "journal") as process:
        await client.start("tester", "linger idempotent", thread_id=thread_id)
        await until(client, thread_id, lambda view: view.doing == "running linger_idempotent")
        await until_cause(client, thread_id, Cause.TOOL_RUNNING)
        await kill(process)
        found = await until_cause(client, thread_id, Cause.WORKER_SILENT, "to start tool linger_idempotent")
        assert "the last worker there" in found.why
        assert "The attempt before it failed: its worker was lost." in found.why
    async with working(temporal, thread_id):
        assert (await client.result(thread_id)).response == "lingered, attempt 2"


async def test_another_workflow_is_not_a_thread(temporal: TemporalClient, thread_id: str) -> None:
    other = await temporal.start_workflow("Theirs", id=thread_id, task_queue=thread_id)
    with pytest.raises(CallerError, match="a workflow of type 'Theirs'"):
        await Client(temporal).why(thread_id)
    await other.terminate()


async def test_a_paused_activity_says_who_paused_it_and_how_to_unpause_it(
    asking: Client, provider: FakeProvider, thread_id: str
) -> None:
    provider.will(Status(429, message="slow down", retry_after=60), Answer("well then"))
    await ask(asking, "chat-patient", thread_id)
    await until_cause(asking, thread_id, Cause.MODEL_RETRYING)
    await asking.temporal.workflow_service.pause_activity(
        PauseActivityRequest(
            namespace=asking.temporal.namespace,
            execution=WorkflowExecution(workflow_id=thread_id),
            identity="ann",
            id="infer-1",
            reason="the provider is down",
        )
    )
    found = await until_cause(asking, thread_id, Cause.PAUSED, "by ann, with the reason 'the provider is down'")
    address = asking.temporal.service_client.config.target_host
    program, *arguments = shlex.split(found.commands[0])
    process = await asyncio.create_subprocess_exec(
        str(ROOT / ".venv/bin" / program), *arguments, "--address", address, stdout=asyncio.subprocess.DEVNULL
    )
    assert await process.wait() == 0
    assert (await asking.result(thread_id)).response == "well then"


@workflow.defn(name=names.WORKFLOW)
class OtherCode:
    """Deployed by mistake: another workflow of the same name."""

    @workflow.run
    async def run(self, _request: object = None) -> None:
        await workflow.sleep(5)
        await workflow.wait_condition(lambda: False)


@pytest.mark.integration
async def test_code_that_does_not_match_the_history_is_the_cause(temporal: TemporalClient, thread_id: str) -> None:
    async with working(temporal, thread_id) as client:
        await client.start("tester", "approve", thread_id=thread_id)
        await until_status(client, thread_id, RunStatus.WAITING)
    async with Worker(
        temporal, task_queue=thread_id, workflows=[OtherCode], workflow_runner=UnsandboxedWorkflowRunner()
    ):
        found = await until_cause(client, thread_id, Cause.TASK_FAILING, "does not match the run's history")
        assert "is asleep, and its next workflow task would fail" in found.doing
        await client.decide(thread_id, "1-1", "resume")
        found = await until_cause(
            client, thread_id, Cause.TASK_FAILING, "which has failed", "does not match the run's history"
        )
        assert "cannot complete its next workflow task, which has failed" in found.doing
        assert found.commands == (f"wakeful replay {thread_id}",)
    async with working(temporal, thread_id):
        assert (await client.result(thread_id)).status_reason == "natural"


@workflow.defn(name=names.WORKFLOW)
class Buggy:
    """A workflow with a bug."""

    @workflow.run
    async def run(self, _request: object = None) -> None:
        raise KeyError("who wrote this?")


async def test_an_exception_in_workflow_code_is_quoted(temporal: TemporalClient, thread_id: str) -> None:
    client = Client(temporal, task_queue=thread_id)
    async with Worker(temporal, task_queue=thread_id, workflows=[Buggy], workflow_runner=UnsandboxedWorkflowRunner()):
        await client.start("tester", "hi", thread_id=thread_id)
        found = await until_cause(client, thread_id, Cause.TASK_FAILING, "who wrote this?")
        assert "The worker's workflow code raises an error" in found.why
    await client.handle(thread_id).terminate()


async def test_a_version_that_is_not_current_gets_no_workflow_tasks(temporal: TemporalClient, thread_id: str) -> None:
    deployment = f"{thread_id[:30]}-app"
    async with working(temporal, thread_id, deployment=deployment, build_id="two") as client:
        await client.start("tester", "hi", thread_id=thread_id)
        found = await until_cause(client, thread_id, Cause.WRONG_VERSION, f"are of {deployment}.two")
        program, *arguments = shlex.split(found.commands[0])
        address = temporal.service_client.config.target_host
        process = await asyncio.create_subprocess_exec(
            *(str(ROOT / ".venv/bin" / program), *arguments, "--address", address, "--yes"),
            stdout=asyncio.subprocess.DEVNULL,
            env=dict(os.environ),
        )
        assert await process.wait() == 0
        assert (await client.result(thread_id)).status_reason == "natural"


async def test_a_budget_that_is_spent_ends_a_run_and_is_named(temporal: TemporalClient, thread_id: str) -> None:
    async with working(temporal, thread_id, subagent_registry) as client:
        long = plan(*([("work", {"what": f"{n}"})] for n in range(9)))
        await client.run("node", written(long), thread_id=thread_id, budget=Budget(turns=3))
        found = await until_cause(client, thread_id, Cause.BUDGET_SPENT, "turns budget is spent: 3 of 3 turns")
        assert "was stopped" in found.doing
        assert shlex.split(found.commands[0])[:3] == ["wakeful", "send", thread_id]


async def test_a_sub_agent_that_waits_for_a_budget_grant_says_which_parent_it_asked(
    temporal: TemporalClient, thread_id: str
) -> None:
    child = f"{thread_id}/node-1"
    view = view_of(
        *(child, "node", RunStatus.WAITING),
        path=(thread_id,),
        waiting_for=WaitingFor.BUDGET,
        doing="asking its parent for more tokens",
        budget=Budget(tokens=500),
    )
    async with stand_ins(temporal, thread_id):
        client = Client(temporal, task_queue=thread_id)
        await stand(temporal, thread_id, Part(id=child, view=view))
        found = await until_cause(client, child, Cause.BUDGET, f"has asked {thread_id} for more")
        assert "for more budget (asking its parent for more tokens)" in found.doing
        assert "It has spent 0 of 500 tokens." in found.why
        assert found.commands == (f"wakeful why {thread_id}", f"wakeful cancel {child}")
        await client.handle(child).terminate()


async def test_an_idle_thread_waits_for_a_message_but_a_failed_run_on_it_is_reported(
    asking: Client, provider: FakeProvider, thread_id: str
) -> None:
    provider.will(Answer("hello"), Status(401, message="no such key"))
    await asking.start("chat", "hi", thread_id=thread_id, mode=ThreadMode.THREAD)
    await until(asking, thread_id, lambda view: view.result is not None)
    found = await until_cause(asking, thread_id, Cause.IDLE, "It waits for a message")
    assert f"{thread_id} is idle: its last run came to its natural end" in found.doing
    await asking.send(*shlex.split(found.commands[0])[2:])
    found = await until_cause(asking, thread_id, Cause.FAILED, "'no such key'")
    assert "The thread is open." in found.why
    assert "Give the worker a valid API key" in found.next
    await asking.handle(thread_id).terminate()


async def test_a_run_that_is_being_cancelled_says_what_has_not_stopped(
    temporal: TemporalClient, thread_id: str
) -> None:
    deaf = Registry(
        agents=[Agent(id="deaf", tools=[stubborn])],
        models={"default": ScriptedModel([call("stubborn"), say("{result}")])},
    )
    async with working(temporal, thread_id, deaf) as client:
        await client.start("deaf", "go", thread_id=thread_id)
        await until_cause(client, thread_id, Cause.TOOL_RUNNING, "tool stubborn")
        await client.cancel(thread_id)
        found = await until_cause(client, thread_id, Cause.STOPPING, "is being cancelled by client")
        assert "Tool stubborn has been running for" in found.why
        MAY_STOP.set()
        assert (await client.result(thread_id)).status_reason == "cancelled"


MAY_STOP = asyncio.Event()


@tool
async def stubborn() -> str:
    """Ignore a cancellation for a while."""
    with contextlib.suppress(asyncio.CancelledError):
        await MAY_STOP.wait()
    async with asyncio.timeout(60):
        await MAY_STOP.wait()
    return "at last"


async def test_a_diagnosis_adds_nothing_to_history(usual_client: Client, thread_id: str) -> None:
    await usual_client.start("tester", "approve", thread_id=thread_id)
    await until_status(usual_client, thread_id, RunStatus.WAITING)
    before = await usual_client.handle(thread_id).fetch_history()
    for _ in range(5):
        await usual_client.why(thread_id)
    after = await usual_client.handle(thread_id).fetch_history()
    assert [event.event_id for event in after.events] == [event.event_id for event in before.events]
    await cancelled(usual_client, thread_id)
