"""How workflows close, and what lists, logs, metrics and other workflows see of an end."""

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio import workflow
from temporalio.client import Client as TemporalClient
from temporalio.client import (
    DescribeWorkflowInput,
    FetchWorkflowHistoryEventsInput,
    Interceptor,
    OutboundInterceptor,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHistoryEventAsyncIterator,
)
from temporalio.exceptions import ApplicationError, ChildWorkflowError
from temporalio.runtime import BUFFERED_METRIC_KIND_COUNTER, MetricBuffer, Runtime, TelemetryConfig
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from tests.support.app import TOOLS
from tests.support.encrypted import Encryption
from tests.support.journal import Journal
from tests.support.waiting import BOUND_SECONDS, until, until_status
from wakeful import (
    Agent,
    InstructionsContext,
    Registry,
    RunStatus,
    ScriptedModel,
    WorkerSettings,
    call,
    running_worker,
    say,
)
from wakeful.client.client import Client
from wakeful.client.diagnosis.causes import Cause
from wakeful.contract import names
from wakeful.contract.runs import Cancelled, Errored, RunResult, ThreadMode

CANCELED, COMPLETED, FAILED = (
    WorkflowExecutionStatus.CANCELED,
    WorkflowExecutionStatus.COMPLETED,
    WorkflowExecutionStatus.FAILED,
)


@pytest.fixture
def client(either_client: Client) -> Client:
    return either_client


async def described(client: Client, thread_id: str) -> WorkflowExecutionDescription:
    return await client.handle(thread_id).describe()


def shown(execution: WorkflowExecutionDescription) -> dict[str, Any]:
    """What lists show of how a thread ended."""
    pairs = {pair.key.name: pair.value for pair in execution.typed_search_attributes}
    return {name: value for name, value in pairs.items() if name in (names.ATTRIBUTE_OUTCOME, names.ATTRIBUTE_REASON)}


async def test_a_run_that_ends_in_an_error_fails_its_workflow_with_the_result_as_detail(
    client: Client, thread_id: str
) -> None:
    """B-024, B-025, B-026"""
    result = await client.run("unknown", "hello", thread_id=thread_id)
    with pytest.raises(WorkflowFailureError) as raised:
        await client.handle(thread_id).result()
    failure = raised.value.cause
    assert isinstance(failure, ApplicationError)
    assert (failure.type, failure.non_retryable, len(failure.message) < 500) == ("agent_not_found", True, True)
    assert RunResult.model_validate(failure.details[0]) == result
    execution = await described(client, thread_id)
    assert (execution.status, shown(execution)) == (
        FAILED,
        {"WakefulOutcome": "error", "WakefulReason": "agent_not_found"},
    )
    assert execution.search_attributes["WakefulAgent"] == ["unknown"]


async def test_the_text_of_an_error_is_only_in_payloads_which_a_codec_encrypts(
    temporal: TemporalClient, thread_id: str
) -> None:
    """B-028"""
    encrypted = with_encryption(temporal)
    turns = [say(f'{{"days": "{SECRET}"}}')] * 10
    registry = Registry(agents=[Agent(id="solo", output=Stay)], models={"default": ScriptedModel(turns)})
    client = Client(encrypted, task_queue=thread_id)
    async with client, running_worker(encrypted, registry, WorkerSettings(task_queue=thread_id)):
        result = await client.run("solo", "hello", thread_id=thread_id)
        assert isinstance(result.termination, Errored)
        assert (result.termination.code, SECRET in result.termination.value) == ("invalid_output", True)
        assert SECRET in (await client.why(thread_id)).why
        assert SECRET in ((await client.tree(thread_id)).reason or "")
        history = await client.handle(thread_id).fetch_history()
    failure = history.events[-1].workflow_execution_failed_event_attributes.failure
    assert failure.message == (
        "the run of agent 'solo' ended in an error (invalid_output); the detail of this failure has its text"
    )
    assert SECRET not in history.to_json()


def with_encryption(temporal: TemporalClient) -> TemporalClient:
    converter = dataclasses.replace(temporal.data_converter, payload_codec=Encryption())
    return TemporalClient(temporal.service_client, namespace=temporal.namespace, data_converter=converter)


async def test_the_text_of_an_error_in_an_activity_is_only_in_payloads_too(
    temporal: TemporalClient, thread_id: str
) -> None:
    """B-028: what instructions raise, while the lookup is retried; and a rule of the request that cannot be read."""
    encrypted = with_encryption(temporal)
    registry = Registry(
        agents=[Agent(id="raising", instructions=raising), Agent(id="plain")],
        models={"default": ScriptedModel([say("hi")])},
    )
    client = Client(encrypted, task_queue=thread_id)
    async with client, running_worker(encrypted, registry, WorkerSettings(task_queue=thread_id)):
        await client.start("raising", "hello", thread_id=thread_id)
        async with asyncio.timeout(BOUND_SECONDS):
            while not (pending := (await described(client, thread_id)).raw_description.pending_activities) or (
                not pending[0].HasField("last_failure")
            ):
                await asyncio.sleep(0.05)
        assert SECRET.encode() not in pending[0].SerializeToString()
        assert f"raised LookupError: {SECRET}" in (await client.why(thread_id)).why
        await client.cancel(thread_id)

        rules = [{"tool": f"pay({SECRET}", "behavior": "deny"}]
        request, ruled = {"agent_id": "plain", "input": "hello", "permissions": rules}, f"{thread_id}-ruled"
        await encrypted.start_workflow("AgentRun", request, id=ruled, task_queue=thread_id)
        result = await client.result(ruled)
        history = await client.handle(ruled).fetch_history()

        request["permissions"] = [{"tool": f"/\\w{{190}}{each}/", "behavior": "deny"} for each in range(200)]
        await encrypted.start_workflow("AgentRun", request, id=f"{ruled}-often", task_queue=thread_id)
        too_large = await client.result(f"{ruled}-often")
    assert "the 200 permission rules are too large together" in too_large.status_reason
    assert f"permission rule 'pay({SECRET}'" in result.status_reason
    assert SECRET not in history.to_json()


def raising(_ctx: InstructionsContext) -> str:
    raise LookupError(SECRET)


SECRET = "4111-1111"


class Stay(BaseModel):
    days: int


async def test_on_error_complete_completes_the_workflow_of_a_run_that_ends_in_an_error(
    client: Client, thread_id: str
) -> None:
    """B-024"""
    result = await client.run("unknown", "hello", thread_id=thread_id, on_error="complete")
    execution = await described(client, thread_id)
    assert (execution.status, shown(execution)["WakefulOutcome"]) == (COMPLETED, "error")
    assert await client.handle(thread_id).result() == result


async def test_a_cancel_of_a_run_closes_its_workflow_as_cancelled_with_the_result_in_the_memo(
    client: Client, thread_id: str, journal: Journal
) -> None:
    """B-024, B-025, B-026"""
    await client.start("tester", "linger", thread_id=thread_id)
    await journal.until("linger", "began")
    await client.cancel(thread_id, reason="not needed")
    await client.cancel(thread_id, reason="really not")
    result = await client.result(thread_id)
    assert (result.termination, result.detail, result.steps) == (Cancelled(), "not needed", 1)
    execution = await described(client, thread_id)
    assert (execution.status, shown(execution)) == (
        CANCELED,
        {"WakefulOutcome": "cancelled", "WakefulReason": "cancelled"},
    )
    assert RunResult.model_validate(await execution.memo_value(names.MEMO_RESULT)) == result
    found = await client.why(thread_id)
    assert (found.cause, "was cancelled" in found.doing) == (Cause.CANCELLED, True)
    assert (await client.tree(thread_id)).reason == "cancelled"
    assert (await client.status(thread_id)).result == result


async def test_a_client_gets_the_result_of_the_run_it_waits_for_if_the_thread_is_started_over_at_once(
    usual_client: Client, thread_id: str
) -> None:
    """B-025"""
    client, meddler = usual_client, Meddler()
    temporal = client.temporal
    waiter = TemporalClient(temporal.service_client, data_converter=temporal.data_converter, interceptors=[meddler])
    await client.start("tester", "approve", thread_id=thread_id)
    await until_status(client, thread_id, RunStatus.WAITING)
    result = asyncio.create_task(Client(waiter, task_queue=client.task_queue).result(thread_id))
    await meddler.has_polled.wait()
    meddler.once_canceled = lambda: client.start("tester", "approve", thread_id=thread_id, again=True)
    await client.cancel(thread_id, reason="not needed")
    assert ((await result).agent_id, (await result).detail) == ("tester", "not needed")
    await client.cancel(thread_id, reason="the one that was started over")


class Meddler(Interceptor):
    """Acts on a thread after a client has waited for its result, and before it reads more of the thread."""

    def __init__(self) -> None:
        self.has_polled = asyncio.Event()
        self.once_canceled: Callable[[], Awaitable[object]] | None = None

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        return _Meddling(next, self)


class _Meddling(OutboundInterceptor):
    def __init__(self, next: OutboundInterceptor, meddler: Meddler) -> None:
        super().__init__(next)
        self._meddler = meddler

    def fetch_workflow_history_events(
        self, input: FetchWorkflowHistoryEventsInput
    ) -> WorkflowHistoryEventAsyncIterator:
        self._meddler.has_polled.set()
        return super().fetch_workflow_history_events(input)

    async def describe_workflow(self, input: DescribeWorkflowInput) -> WorkflowExecutionDescription:
        described = await super().describe_workflow(input)
        act = self._meddler.once_canceled
        if act is None or described.status is WorkflowExecutionStatus.RUNNING:
            return described
        self._meddler.once_canceled = None
        await act()
        return await super().describe_workflow(input)


async def test_a_run_that_a_bare_signal_cancels_completes(client: Client, thread_id: str) -> None:
    """B-024"""
    await client.start("tester", "approve", thread_id=thread_id)
    await until_status(client, thread_id, RunStatus.WAITING)
    await client.handle(thread_id).signal(names.SIGNAL_CANCEL)
    assert (await client.result(thread_id)).termination == Cancelled()
    execution = await described(client, thread_id)
    assert (execution.status, shown(execution)["WakefulOutcome"]) == (COMPLETED, "cancelled")


async def test_a_run_that_was_cancelled_before_its_first_task_has_a_result(
    temporal: TemporalClient, thread_id: str
) -> None:
    client = Client(temporal, task_queue=thread_id)
    await client.start("solo", "hello", thread_id=thread_id)
    await client.cancel(thread_id, reason="too late")
    async with running_worker(temporal, registry_of(say("unused")), WorkerSettings(task_queue=thread_id)):
        assert (await client.result(thread_id)).termination == Cancelled()
    assert (await described(client, thread_id)).status is CANCELED


async def test_a_thread_completes_when_it_is_closed_and_is_cancelled_by_temporals_cancel(
    client: Client, thread_id: str
) -> None:
    """B-024, B-025"""
    await client.start("tester", "one", thread_id=thread_id, mode=ThreadMode.THREAD)
    idle = await until_status(client, thread_id, RunStatus.DONE)
    assert idle.result is not None
    await client.handle(thread_id).cancel(reason="tidying up")
    result = await client.result(thread_id)
    assert result == idle.result.model_copy(update={"detail": "tidying up"})
    execution = await described(client, thread_id)
    assert (execution.status, shown(execution)) == (
        CANCELED,
        {"WakefulOutcome": "natural", "WakefulReason": "natural_end"},
    )
    await client.send(thread_id, "again")
    woken = await until(client, thread_id, lambda view: view.status is RunStatus.DONE and view.runs == 2)
    assert woken.result is not None
    assert woken.result.response == "hello, again"
    await client.close(thread_id)
    assert await client.result(thread_id) == woken.result
    assert (await described(client, thread_id)).status is COMPLETED


async def test_the_next_run_on_a_thread_clears_how_the_last_one_ended(client: Client, thread_id: str) -> None:
    """B-026"""
    await client.start("unknown", "hello", thread_id=thread_id, mode=ThreadMode.THREAD)
    await until_status(client, thread_id, RunStatus.DONE)
    assert shown(await described(client, thread_id))["WakefulOutcome"] == "error"
    await client.send(thread_id, "approve", agent_id="tester")
    await until_status(client, thread_id, RunStatus.WAITING)
    assert shown(await described(client, thread_id)) == {}
    await client.close(thread_id)
    await client.result(thread_id)
    assert shown(await described(client, thread_id))["WakefulOutcome"] == "cancelled"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"agent_id": "tester", "inptu": "hello", "tenant": "acme", "user": "ann"}, (["tester"], ["acme"], ["ann"])),
        ({"agent_id": 7, "tenant": "", "user": ["ann"]}, (None, None, None)),
        ("hi", (None, None, None)),
    ],
)
async def test_a_malformed_request_fails_and_lists_show_it(
    usual_client: Client, thread_id: str, given: object, named: tuple[list[str] | None, ...]
) -> None:
    """B-026"""
    client = usual_client
    await client.temporal.start_workflow("AgentRun", given, id=thread_id, task_queue=client.task_queue)
    result = await client.result(thread_id)
    assert isinstance(result.termination, Errored)
    assert (result.termination.code, "the run request is malformed" in result.termination.value) == (
        names.MALFORMED_REQUEST,
        True,
    )
    execution = await described(client, thread_id)
    assert (execution.status, shown(execution)["WakefulReason"]) == (FAILED, names.MALFORMED_REQUEST)
    attributes = execution.search_attributes
    assert tuple(attributes.get(f"Wakeful{name}") for name in ("Agent", "Tenant", "User")) == named
    assert attributes["WakefulStatus"] == ["done"]
    assert "Correct the request" in (await client.why(thread_id)).next


async def test_a_result_that_is_too_long_for_a_memo_is_read_from_history(
    temporal: TemporalClient, thread_id: str
) -> None:
    """B-025"""
    long = "x" * 200_000
    client = Client(temporal, task_queue=thread_id)
    registry = registry_of(say(long), call("approve", what="go on"))
    async with client, running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
        await client.start("solo", "hello", thread_id=thread_id, mode=ThreadMode.THREAD)
        await until_status(client, thread_id, RunStatus.DONE)
        await client.handle(thread_id).cancel()
        assert (await client.result(thread_id)).response == long
        kept = RunResult.model_validate(await (await described(client, thread_id)).memo_value(names.MEMO_RESULT))
        assert (kept.cut, len(kept.response) < 64_000) == (True, True)


@workflow.defn(name="Desk", sandboxed=False)
class Desk:
    """A user's own workflow that runs an agent as its child."""

    @workflow.run
    async def run(self, agent_id: str, task_queue: str) -> dict[str, Any]:
        request = {"agent_id": agent_id, "input": "hello"}
        try:
            result: dict[str, Any] = await workflow.execute_child_workflow("AgentRun", request, task_queue=task_queue)
        except ChildWorkflowError as error:
            result = _detail(error.cause)
        return result


def _detail(cause: BaseException | None) -> dict[str, Any]:
    assert isinstance(cause, ApplicationError)
    detail: dict[str, Any] = cause.details[0]
    return detail | {"type": cause.type}


async def test_a_workflow_of_the_users_own_gets_the_result_or_a_failure_with_the_result(
    temporal: TemporalClient, usual_client: Client, thread_id: str
) -> None:
    queue = usual_client.task_queue
    async with Worker(temporal, task_queue=thread_id, workflows=[Desk], workflow_runner=UnsandboxedWorkflowRunner()):
        good = await temporal.execute_workflow("Desk", args=["tester", queue], id=thread_id, task_queue=thread_id)
        bad = await temporal.execute_workflow("Desk", args=["unknown", queue], id=thread_id, task_queue=thread_id)
    assert good["response"] == "hello, hello"
    assert (bad["type"], bad["termination"]["code"]) == ("agent_not_found", "agent_not_found")


async def test_the_end_of_a_run_is_one_line_in_the_log_and_counted_by_agent_and_outcome(
    temporal: TemporalClient, thread_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B-027"""
    buffer = MetricBuffer(1000)
    address = temporal.service_client.config.target_host
    connected = await TemporalClient.connect(
        address, data_converter=temporal.data_converter, runtime=Runtime(telemetry=TelemetryConfig(metrics=buffer))
    )
    client = Client(connected, task_queue=thread_id)
    with caplog.at_level(logging.INFO, logger="wakeful"):
        async with running_worker(connected, registry_of(say("hello")), WorkerSettings(task_queue=thread_id)):
            result = await client.run("solo", "hello", thread_id=thread_id)
    (line,) = [record for record in caplog.records if record.msg.startswith("run ended")]
    about = {name: getattr(line, name) for name in ("agent_id", "run_id", "thread_id", "outcome", "reason", "steps")}
    assert about == {
        "agent_id": "solo",
        "run_id": result.run_id,
        "thread_id": thread_id,
        "outcome": "natural",
        "reason": "natural_end",
        "steps": 1,
    }
    counted = [
        (update.value, update.attributes["gen_ai_agent_name"], update.attributes["wakeful_run_outcome"])
        for update in buffer.retrieve_updates()
        if update.metric.name == "wakeful_runs_ended" and update.metric.kind == BUFFERED_METRIC_KIND_COUNTER
    ]
    assert counted == [(1, "solo", "natural")]


def registry_of(*turns: Any) -> Registry:
    return Registry(agents=[Agent(id="solo", tools=TOOLS)], models={"default": ScriptedModel(list(turns))})
