"""Metrics count what the histories have, once."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowFailureError

from tests.support.app import TOOLS
from tests.support.app.basic import script
from tests.support.measured import Measured
from tests.support.telemetry import measured_process
from tests.support.waiting import until_refused, until_status
from tests.telemetry.conftest import working
from wakeful import (
    Agent,
    Client,
    FrontendTool,
    ModelRequest,
    ModelResponse,
    Price,
    ProviderError,
    ProviderErrorKind,
    Registry,
    RunStatus,
    ScriptedModel,
    call,
    say,
)
from wakeful.contract.agents import HistoryBudget, RetryPolicy
from wakeful.contract.events import (
    InferenceComplete,
    RunFinish,
    StepEnd,
    ToolCallDone,
    ToolCallOutcome,
    ToolCallReady,
    ToolCallResumed,
)
from wakeful.contract.runs import ThreadMode, outcome_of
from wakeful.telemetry import instruments, names
from wakeful.telemetry.telemetry import Telemetry
from wakeful_activities.run_gauges import RunGauges

INPUTS = ("add", "hello", "explode exception", "bad arguments", "count", "approve", "fail")


class Scripted:
    """The app's script, with tokens; every fifth call fails once, and one input always."""

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.calls += 1
        if request.messages[0].text == "fail":
            raise ProviderError(ProviderErrorKind.UNAUTHORIZED, "no")
        if self.calls % 5 == 0:
            raise ProviderError(ProviderErrorKind.PROVIDER, "not now")
        return script.answer(request)


REGISTRY = Registry(
    agents=[Agent(id="tester", tools=TOOLS, retry=RetryPolicy(backoff_base_ms=1))],
    models={"default": Scripted()},
    prices={"default": Price(input=1.0, output=2.0)},
)


@pytest.fixture(scope="module")
def reader() -> Iterator[InMemoryMetricReader]:
    with measured_process() as reader:
        yield reader


@pytest.fixture
def measured(reader: InMemoryMetricReader) -> Measured:
    return Measured(reader)


@pytest.fixture(scope="module")
async def client(temporal: TemporalClient, reader: InMemoryMetricReader) -> AsyncIterator[Client]:
    async with working(temporal, REGISTRY, "measured") as client:
        yield client


async def run(client: Client, thread_id: str, input: str) -> None:
    """A run from its start to its end, with a decision if it needs one."""
    await client.start("tester", input, thread_id=thread_id, on_error="complete")
    if input == "approve":
        await until_status(client, thread_id, RunStatus.WAITING)
        await client.decide(thread_id, "1-1", "resume")
    await client.result(thread_id)


@pytest.mark.parametrize(
    ("runs", "cached"),
    [(7, 1000), (7, 0), pytest.param(200, 1000, marks=pytest.mark.integration)],
    ids=["as usual", "replaying at every task", "many"],
)
async def test_metrics_equal_the_counts_made_from_histories(
    temporal: TemporalClient, measured: Measured, thread_id: str, runs: int, cached: int
) -> None:
    """B-841. A replay counts nothing."""
    threads = [f"{thread_id}-{number}" for number in range(runs)]
    async with working(temporal, REGISTRY, thread_id, max_cached_workflows=cached) as client:
        limit = asyncio.Semaphore(10)

        async def limited(number: int) -> None:
            async with limit:
                await run(client, threads[number], INPUTS[number % len(INPUTS)])

        await asyncio.gather(*map(limited, range(runs)))
    counted: Counter[tuple[object, ...]] = Counter()
    tokens: Counter[str] = Counter()
    for thread in threads:
        calls: dict[str, str] = {}
        async for record in client.watch(thread):
            match record.event:
                case RunFinish(termination=termination, result=result) if result and result.status is RunStatus.DONE:
                    counted["run", outcome_of(termination)] += 1
                case StepEnd():
                    counted["step",] += 1
                case InferenceComplete(usage=usage) if usage:
                    tokens["input"] += usage.prompt_tokens or 0
                    tokens["output"] += usage.completion_tokens or 0
                case ToolCallReady(id=id, name=name):
                    calls[id] = name
                case ToolCallDone(id=id, outcome=outcome) if outcome is not ToolCallOutcome.SUSPENDED:
                    counted["call", calls[id], outcome.value] += 1
                case ToolCallResumed(target_id=id, outcome=outcome):
                    counted["call", calls[id], outcome.value] += 1
                case _:
                    pass
    found: Counter[tuple[object, ...]] = Counter()
    ended = measured.values(instruments.RUNS_ENDED, names.OUTCOME)
    found.update({("run", *key): value for key, value in ended.items()})
    found.update({("step", *key): value for key, value in measured.values(instruments.STEPS).items()})
    labels = (names.TOOL_NAME, names.TOOL_OUTCOME)
    found.update({("call", *key): value for key, value in measured.values(instruments.TOOL_CALLS, *labels).items()})
    assert found == counted
    assert measured.values(instruments.RUNS_STARTED, names.AGENT) == {("tester",): runs}
    assert measured.counts(instruments.RUN_DURATION) == {(): runs}
    assert measured.values(instruments.TOKEN_USAGE, names.TOKEN_TYPE) == {(kind,): tokens[kind] for kind in tokens}
    assert sum(measured.values(instruments.COST).values()) == pytest.approx(
        (tokens["input"] * 1.0 + tokens["output"] * 2.0) / 1_000_000
    )
    approvals = sum(INPUTS[number % len(INPUTS)] == "approve" for number in range(runs))
    assert measured.counts(instruments.SUSPENSIONS, names.DECISION_ACTION) == {("resume",): approvals}


async def test_a_worker_counts_its_model_calls_and_what_it_retries(
    client: Client, measured: Measured, thread_id: str
) -> None:
    for number in range(3):
        await client.run("tester", "add", thread_id=f"{thread_id}-{number}")
    retried = measured.values(instruments.RETRIES, names.ERROR_TYPE)
    calls = measured.counts(instruments.MODEL_CALL_DURATION, names.ERROR_TYPE)
    assert retried == {("provider",): calls["provider",]}
    assert calls["",] == 6
    assert measured.gauge(instruments.BREAKER, "default") == 0
    reads = measured.values(instruments.TRANSCRIPTS, instruments.CACHE_RESULT)
    assert reads["rebuilt",] == sum(measured.counts(instruments.REBUILD_DURATION).values()) > 0
    assert measured.counts(instruments.TOOL_DURATION, names.TOOL_OUTCOME) == {("succeeded",): 3}


async def test_refusals_and_new_executions_are_counted(
    temporal: TemporalClient, measured: Measured, thread_id: str
) -> None:
    async with working(temporal, REGISTRY, thread_id, history_budget=HistoryBudget(events=1)) as client:
        await client.start("tester", "hello", thread_id=thread_id, mode=ThreadMode.THREAD)
        await until_status(client, thread_id, RunStatus.DONE)
        await client.handle(thread_id).signal("levitate")
        await until_refused(client, thread_id)
        await client.handle(thread_id).signal("decide", {"call_id": "1-1"})
        await client.close(thread_id)
        await client.result(thread_id)
    assert measured.values(instruments.REFUSED, instruments.SIGNAL) == {("other",): 1, ("decide",): 1}
    assert measured.values(instruments.CONTINUED, names.AGENT)["tester",] > 1


async def test_names_that_anyone_can_make_up_are_no_time_series(
    temporal: TemporalClient, measured: Measured, thread_id: str
) -> None:
    """Of agents that no worker has, of malformed requests, and of a client's own tools."""
    registry = REGISTRY.copy(
        models={"default": ScriptedModel([call("made-up").unchecked(), call("invented").unchecked(), say("done")])}
    )
    async with working(temporal, registry, thread_id) as client:
        await client.start("nobody", "hello", thread_id=f"{thread_id}-1", on_error="complete")
        await client.result(f"{thread_id}-1")
        malformed = {"agent_id": "anybody", "input": 4711}
        with pytest.raises(WorkflowFailureError):
            await temporal.execute_workflow("AgentRun", malformed, id=f"{thread_id}-2", task_queue=thread_id)
        await client.start("tester", "hello", thread_id=thread_id, frontend_tools=[FrontendTool(id="made-up")])
        await until_status(client, thread_id, RunStatus.WAITING)
        await client.decide(thread_id, "1-1", "resume", result="seen")
        await client.result(thread_id)
    assert measured.values(instruments.RUNS_STARTED, names.AGENT) == {("other",): 1, ("tester",): 1}
    ended = measured.values(instruments.RUNS_ENDED, names.AGENT, names.OUTCOME)
    assert ended == {("other", "error"): 2, ("tester", "natural"): 1}
    assert measured.counts(instruments.SUSPENSIONS, names.TOOL_NAME) == {("other",): 1}
    assert measured.values(instruments.TOOL_CALLS, names.TOOL_NAME) == {("other",): 2}


async def test_gauges_say_how_many_runs_are_under_way_and_wait(
    temporal: TemporalClient, client: Client, measured: Measured, thread_id: str
) -> None:
    queue = f"{thread_id}-queue"
    async with working(temporal, REGISTRY, queue) as waiting:
        await waiting.start("tester", "approve", thread_id=thread_id)
        await until_status(waiting, thread_id, RunStatus.WAITING)
        metrics = Telemetry.of_process(temporal).metrics
        assert metrics is not None
        gauges = RunGauges(temporal, metrics, queue)
        async with asyncio.timeout(60):
            while not measured.gauge(instruments.OLDEST_DECISION, queue):
                await gauges.measure()  # visibility lags behind
        assert measured.gauge(instruments.ACTIVE, queue) == measured.gauge(instruments.WAITING, queue) == 1
        assert 0 < (measured.gauge(instruments.OLDEST_DECISION, queue) or 0) < 60
        await waiting.cancel(thread_id)
