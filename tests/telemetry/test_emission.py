"""Who emits spans, and how often: a replay never does, and the same thing has the same id whatever worker emits it."""

from collections.abc import AsyncIterator

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowHistory
from temporalio.worker import Worker

from tests.embedding.desk import Ask, Asks
from tests.support.app import Failing
from tests.support.app import registry as app
from tests.support.traces import TRACER_DATA, Spans, attributes_of, context_of, forest, headers_of, named
from tests.support.waiting import until_status
from tests.telemetry.conftest import working
from wakeful import (
    Agent,
    Client,
    ModelRequest,
    ProviderErrorKind,
    Registry,
    RunStatus,
    ScriptedModel,
    WakefulPlugin,
    call,
    say,
    tool,
)
from wakeful.contract.agents import RetryPolicy
from wakeful.contract.inference import StopReason
from wakeful.contract.streaming import StartPart, StopPart, StreamPart, TextPart
from wakeful.history.replay import HistoryReplayer, Source
from wakeful.telemetry import names


@tool
def look() -> str:
    """Look, in a thread."""
    with trace.get_tracer("tool").start_as_current_span("looking"):
        return "seen"


class Streaming:
    """A model that streams."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        yield StartPart(model="streaming")
        yield TextPart("hello")
        yield StopPart(StopReason.END_TURN)


def registry() -> Registry:
    """With a model that fails, so that its fallback answers."""
    twice = RetryPolicy(max_retries=1, backoff_base_ms=1)
    return Registry(
        agents=[
            Agent(id="falling", model="broken", fallbacks=["spare"], retry=twice),
            Agent(id="looking", tools=[look]),
            Agent(id="streaming", model="streaming"),
            Agent(id="refused", model="refusing"),
        ],
        models={
            "broken": Failing(ProviderErrorKind.PROVIDER, 100),
            "spare": ScriptedModel([say("here")]),
            "default": ScriptedModel([call("look"), say("{result}")]),
            "streaming": Streaming(),
            "refusing": Failing(ProviderErrorKind.UNAUTHORIZED, 100),
        },
    )


@pytest.fixture(scope="module")
async def others(traced: TemporalClient) -> AsyncIterator[Client]:
    async with working(traced, registry(), "traced-others") as client:
        yield client


async def test_a_worker_that_replays_at_every_task_emits_every_span_once(
    traced: TemporalClient, spans: Spans, thread_id: str
) -> None:
    async with working(traced, app, thread_id, max_cached_workflows=0) as client:
        await client.start("tester", "approve", thread_id=thread_id)
        await until_status(client, thread_id, RunStatus.WAITING)
        await client.decide(thread_id, "1-1", "resume")
        await client.result(thread_id)
        found = await spans.of_thread(thread_id)
    assert len({context_of(span) for span in found}) == len(found) == 11


async def test_readers_and_replays_emit_nothing(client: Client, spans: Spans, thread_id: str) -> None:
    await client.run("tester", "add", thread_id=thread_id)
    await spans.of_thread(thread_id)
    history = await client.handle(thread_id).fetch_history()
    before = len(spans.all())
    async with Client(client.temporal) as reader:
        await reader.status(thread_id)
        assert [record async for record in reader.watch(thread_id)]

    async def read() -> WorkflowHistory:
        return history

    replayed = await HistoryReplayer(client.temporal.data_converter).one(Source(thread_id, read))
    assert replayed.outcome == "ok"
    assert len(spans.all()) == before


async def test_every_attempt_of_a_model_call_is_a_span_below_the_one_chat(
    others: Client, spans: Spans, thread_id: str
) -> None:
    await others.run("falling", "hello", thread_id=thread_id)
    found = await spans.of_thread(thread_id)
    ((_, ((_, (step,)),)),) = forest(found)
    assert step == ("step", [("chat spare", [("attempt", [])] * 3)])
    tried = [
        (about[names.ATTEMPT_MODEL], about[names.ATTEMPT], about.get(names.FALLBACK), about.get(names.ERROR_TYPE))
        for about in map(attributes_of, named(found, "attempt"))
    ]
    assert tried == [
        ("broken", 1, None, "provider"),
        ("broken", 2, None, "provider"),
        ("spare", 3, True, None),
    ]
    (chat,) = named(found, "chat spare")
    about = attributes_of(chat)
    assert (about[names.RETRIES], about[names.FALLBACK], about[names.FINISH_REASONS]) == (2, True, ("stop",))
    assert (chat.start_time or 0) <= min(span.start_time or 0 for span in named(found, "attempt"))
    assert not any(span.events for span in found)  # an exception's message may quote anything


async def test_a_model_call_that_fails_for_good_is_a_failed_chat(others: Client, spans: Spans, thread_id: str) -> None:
    await others.run("refused", "hello", thread_id=thread_id)
    found = await spans.of_thread(thread_id)
    failed = {span.name for span in found if span.status.status_code is trace.StatusCode.ERROR}
    assert failed == {"invoke_agent refused", "chat refusing", "attempt"}
    assert {attributes_of(span).get(names.ERROR_TYPE) for span in found} == {None, "unauthorized"}
    assert {span.status.description for span in found} == {None}


async def test_a_streamed_answer_says_when_it_began(others: Client, spans: Spans, thread_id: str) -> None:
    await others.run("streaming", "hello", thread_id=thread_id)
    found = await spans.of_thread(thread_id)
    [attempt], [chat] = named(found, "attempt"), named(found, "chat streaming")
    seconds = attributes_of(attempt)[names.ATTEMPT_TIME_TO_FIRST_CHUNK]
    assert 0 < seconds < 60
    assert attributes_of(chat)[names.TIME_TO_FIRST_CHUNK] == seconds


async def test_tools_that_show_model_calls_find_one_for_an_inference(
    others: Client, spans: Spans, thread_id: str
) -> None:
    """Attempts would double calls and their duration: these tools go by the attributes of GenAI, or by kind client."""
    await others.run("falling", "hello", thread_id=thread_id)
    found = await spans.of_thread(thread_id)
    calls = [span.name for span in found if attributes_of(span).get(names.OPERATION) == names.CHAT]
    assert calls == ["chat spare"]
    for attempt in named(found, "attempt"):
        assert attempt.kind is trace.SpanKind.INTERNAL
        assert not [name for name in attributes_of(attempt) if name.startswith("gen_ai.")]


async def test_spans_of_a_tool_are_below_its_execution(others: Client, spans: Spans, thread_id: str) -> None:
    """Also in the thread of a sync tool."""
    await others.run("looking", "hello", thread_id=thread_id)
    ((_, ((_, (step, _)),)),) = forest(await spans.of_thread(thread_id))
    assert step == ("step", [("chat default", [("attempt", [])]), ("execute_tool look", [("looking", [])])])


async def test_a_run_is_not_traced_if_its_caller_is_not_sampled(client: Client, spans: Spans, thread_id: str) -> None:
    trace_id = 0xABCDEF
    unsampled = NonRecordingSpan(SpanContext(trace_id, 1, is_remote=True, trace_flags=TraceFlags(0)))
    with trace.use_span(unsampled):
        await client.run("tester", "add", thread_id=thread_id)
    history = await client.handle(thread_id).fetch_history()
    assert TRACER_DATA in headers_of(history)
    assert not spans.trace(trace_id)


async def test_the_trace_of_a_workflow_contains_those_of_its_agents(
    traced: TemporalClient, spans: Spans, thread_id: str
) -> None:
    worker = Worker(traced, task_queue=thread_id, workflows=[Asks], plugins=[WakefulPlugin(registry())])
    async with worker:
        with trace.get_tracer("caller").start_as_current_span("order") as order:
            await traced.execute_workflow(Asks.run, Ask(agent_id="looking"), id=thread_id, task_queue=thread_id)
    found = spans.trace(order.get_span_context().trace_id)
    ((root, ((run, steps),)),) = forest(found)
    assert (root, run, len(steps)) == ("order", "invoke_agent looking", 2)
