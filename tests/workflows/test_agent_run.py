"""`AgentRun` on the real server: how the loop is wired to signals, queries, activities and cancellation."""

import asyncio
import json
from typing import Any

import pytest
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError

from tests.support.app import TOOLS, Failing, Hanging, Recording, registry
from tests.support.journal import Journal
from tests.support.waiting import BOUND_SECONDS, until_refused, until_status
from wakeful import (
    Agent,
    FrontendTool,
    InputMessage,
    Provider,
    ProviderErrorKind,
    Registry,
    RunStatus,
    ThreadNotFound,
    call,
    say,
)
from wakeful.client.client import Client
from wakeful.client.deletion.delete import plan_delete
from wakeful.contract.agents import RetryPolicy
from wakeful.contract.errors import CallerError
from wakeful.contract.messages import Role
from wakeful.contract.runs import Errored, StopDetail, Stopped
from wakeful.worker import WorkerSettings, running_worker


async def test_a_run_calls_a_tool_and_answers(client: Client, thread_id: str) -> None:
    result = await client.run("tester", "add", thread_id=thread_id)
    assert (result.response, result.steps, result.status_reason) == ("the sum is 5", 2, "natural")
    assert (result.thread_id, result.agent_id) == (thread_id, "tester")


async def test_any_temporal_client_starts_a_run_with_hand_written_json(
    temporal: TemporalClient, client: Client
) -> None:
    """A client without our converter, as a program in another language would be."""
    plain = await TemporalClient.connect(temporal.service_client.config.target_host)
    result: dict[str, Any] = await plain.execute_workflow(
        "AgentRun",
        {"agent_id": "tester", "input": "add"},
        id=f"by-hand-{client.task_queue}",
        task_queue=client.task_queue,
    )
    assert result["response"] == "the sum is 5"
    assert result["termination"] == {"type": "natural_end"}


async def test_any_temporal_client_continues_a_closed_thread(
    temporal: TemporalClient, client: Client, thread_id: str
) -> None:
    """As docs/foreign-clients.md says."""
    plain = await TemporalClient.connect(temporal.service_client.config.target_host)
    handle = await plain.start_workflow(
        "AgentRun",
        {"agent_id": "tester", "input": "add", "mode": "thread"},
        id=thread_id,
        task_queue=client.task_queue,
        id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
    )
    await handle.signal("close")
    await handle.result()
    closed = (await handle.describe()).run_id
    result: dict[str, Any] = await plain.execute_workflow(
        "AgentRun",
        {"agent_id": "tester", "input": "add", "restore_from": closed},
        id=thread_id,
        task_queue=client.task_queue,
    )
    assert result["response"] == "the sum is 5"
    said = [message.text for message in await client.transcript(thread_id) if message.role is Role.USER]
    assert said == ["add", "add"]


def detail_of(failure: WorkflowFailureError) -> str:
    """The text of a run's failure, which its message does not have, since no codec encodes messages."""
    assert isinstance(failure.cause, ApplicationError)
    return str(failure.cause.details)


async def test_an_id_that_no_thread_can_have_is_refused_by_the_client_and_by_the_workflow(client: Client) -> None:
    wrong = "t" * 201
    refused = (client.send(wrong, "add", agent_id="tester"), client.run("tester", "add", thread_id=wrong))
    for refusal in (*refused, client.fork("t1", at=1, new_thread_id=wrong)):
        with pytest.raises(CallerError, match="has 201 bytes: use at most 200"):
            await refusal
    request = {"agent_id": "tester", "input": "add"}
    with pytest.raises(WorkflowFailureError) as failed:
        await client.temporal.execute_workflow("AgentRun", request, id=wrong, task_queue=client.task_queue)
    assert "has 201 bytes: use at most 200" in detail_of(failed.value)


async def test_a_thread_id_may_have_apostrophes_and_any_script(client: Client) -> None:
    thread_id = "it's 50%_! 漢字 👩‍🚀"
    await client.start("tester", "approve", thread_id=thread_id)
    await until_status(client, thread_id, RunStatus.WAITING)
    async with asyncio.timeout(BOUND_SECONDS):
        while not [pending async for pending in client.inbox(thread_id=thread_id)]:
            await asyncio.sleep(0.05)  # visibility lags behind
    assert (await client.tree(thread_id)).thread_id == thread_id
    await client.cancel(thread_id)
    await client.result(thread_id)
    assert (await plan_delete(client.temporal, thread_id)).threads == (thread_id,)


async def test_a_tool_suspends_the_run_and_a_decision_resumes_it(client: Client, thread_id: str) -> None:
    """B-310, B-320, B-333."""
    await client.start("tester", "approve", thread_id=thread_id)
    view = await until_status(client, thread_id, RunStatus.WAITING)
    (ticket,) = view.pending
    assert (ticket.suspension.message, ticket.suspension.action) == ("May I launch?", "approve")
    assert ticket.pending.arguments == {"what": "launch"}
    await client.decide(thread_id, ticket.pending.id, "resume", result={"by": "Ann"}, reason="fine")
    result = await client.result(thread_id)
    assert result.response == 'approval gave {"did":"launch","said":{"by":"Ann"},"reason":"fine"}'


async def test_a_decision_may_name_the_suspension(client: Client, thread_id: str) -> None:
    """B-321; awaken: prepare_resume_accepts_suspension_id_targets"""
    await client.start("tester", "approve", thread_id=thread_id)
    view = await until_status(client, thread_id, RunStatus.WAITING)
    await client.handle(thread_id).signal(
        "decide", {"suspension_id": view.pending[0].suspension.id, "action": "cancel", "reason": "not today"}
    )
    assert (await client.result(thread_id)).response == "approval gave cancelled by decision: not today"


async def test_a_wrong_decision_is_refused_and_harms_nothing(client: Client, thread_id: str) -> None:
    """H-02: the whole batch is refused, the run waits on."""
    await client.start("tester", "approve", thread_id=thread_id)
    call_id = (await until_status(client, thread_id, RunStatus.WAITING)).pending[0].pending.id
    good, bad = {"call_id": call_id, "action": "resume"}, {"call_id": "call_99", "action": "resume"}
    await client.handle(thread_id).signal("decide", {"decisions": [good, bad]})
    view = await until_refused(client, thread_id)
    assert view.refusals[0].reason == "unknown key: tool call or suspension 'call_99' not found"
    assert view.status is RunStatus.WAITING
    await client.decide(thread_id, call_id, "resume")
    assert (await client.result(thread_id)).status_reason == "natural"


async def test_the_same_decision_twice_runs_the_tool_once(client: Client, thread_id: str, journal: Journal) -> None:
    """H-03."""
    await client.start("tester", "two approvals", thread_id=thread_id)
    view = await until_status(client, thread_id, RunStatus.WAITING)
    first = view.pending[0].pending.id
    for _ in range(2):
        await client.decide(thread_id, first, "resume", decision_id="d1")
    result = await client.result(thread_id)
    assert result.status_reason == "natural"
    assert journal.said("approve") == ["asked", "ran"]


@pytest.mark.parametrize(
    ("signal", "args", "reason"),
    [
        ("decide", [], "a JSON object is required"),
        ("decide", ["yes please"], "a JSON object is required"),
        ("decide", [{"call_id": "c", "action": "perhaps"}], "action"),
        ("decide", [{"call_id": "c", "action": "resume", "resutl": 1}], "resutl: Extra inputs are not permitted"),
        ("decide", [{"call_id": "c", "action": "resume"}, 2], "it takes one JSON value, got 2"),
        ("submit", [{"text": "hello"}], "input: Field required"),
        ("cancel", [{"because": "I say so"}], "because"),
        ("approve", [{}], "there is no signal 'approve'; known: submit, decide, cancel"),
    ],
)
async def test_a_signal_that_is_not_understood_is_recorded_and_harms_nothing(
    client: Client, thread_id: str, signal: str, args: list[Any], reason: str
) -> None:
    await client.start("tester", "approve", thread_id=thread_id)
    view = await until_status(client, thread_id, RunStatus.WAITING)
    await client.handle(thread_id).signal(signal, args=args)
    refusal = (await until_refused(client, thread_id)).refusals[0]
    assert (refusal.signal, reason in refusal.reason) == (signal, True), refusal.reason
    await client.decide(thread_id, view.pending[0].pending.id, "resume")
    assert (await client.result(thread_id)).status_reason == "natural"


async def test_a_cancelled_suspended_run_is_done(client: Client, thread_id: str) -> None:
    """H-06."""
    await client.start("tester", "approve", thread_id=thread_id)
    await until_status(client, thread_id, RunStatus.WAITING)
    await client.cancel(thread_id, reason="changed my mind")
    result = await client.result(thread_id)
    assert (result.status, result.status_reason, result.detail) == (RunStatus.DONE, "cancelled", "changed my mind")
    assert (await client.status(thread_id)).pending == ()


@pytest.mark.parametrize("how", ["signal", "temporal"])
@pytest.mark.parametrize(("text", "tool"), [("linger", "linger"), ("linger thread", "linger_in_a_thread")])
async def test_cancel_reaches_the_running_tool(
    client: Client, thread_id: str, journal: Journal, how: str, text: str, tool: str
) -> None:
    """Temporal's own cancellation means the same as the signal."""
    await client.start("tester", text, thread_id=thread_id)
    await journal.until(tool, "began")
    if how == "signal":
        await client.cancel(thread_id)
    else:
        await client.handle(thread_id).cancel()
    async with asyncio.timeout(30):
        result = await client.result(thread_id)
    assert result.status_reason == "cancelled"
    assert journal.said(tool) == ["began", "cancelled"]


async def test_cancel_closes_the_model_call(temporal: TemporalClient, thread_id: str) -> None:
    hanging = Hanging()
    async with worker_with(temporal, thread_id, hanging) as client:
        await client.start("solo", "hello", thread_id=thread_id)
        await hanging.asked.wait()
        await client.cancel(thread_id)
        async with asyncio.timeout(30):
            await hanging.cancelled.wait()
            assert (await client.result(thread_id)).status_reason == "cancelled"


async def test_a_run_cancelled_before_a_worker_sees_it_ends_as_cancelled(
    temporal: TemporalClient, thread_id: str
) -> None:
    client = Client(temporal, task_queue=thread_id)
    await client.start("solo", "hello", thread_id=thread_id)
    await client.handle(thread_id).cancel()
    async with worker_with(temporal, thread_id, Recording([say("never")])):
        result = await client.result(thread_id)
    assert result.status_reason == "cancelled"


@pytest.mark.parametrize(
    ("request_", "names"),
    [
        ({"agent": "tester", "input": "hello"}, ["agent_id: Field required", "agent: Extra inputs"]),
        ({"agent_id": "tester", "input": ""}, ["input is empty"]),
        ("hello", ["a JSON object is required"]),
        (None, ["a JSON object is required"]),
    ],
)
async def test_a_request_that_is_not_understood_fails_the_run_and_names_the_field(
    client: Client, temporal: TemporalClient, thread_id: str, request_: object, names: list[str]
) -> None:
    with pytest.raises(WorkflowFailureError) as failure:
        await temporal.execute_workflow("AgentRun", request_, id=thread_id, task_queue=client.task_queue)
    message = detail_of(failure.value)
    assert [name for name in names if name not in message] == [], message


async def test_a_start_with_two_arguments_fails_instead_of_hanging(
    client: Client, temporal: TemporalClient, thread_id: str
) -> None:
    with pytest.raises(WorkflowFailureError):
        async with asyncio.timeout(30):
            await temporal.execute_workflow(
                "AgentRun", args=["tester", "hello"], id=thread_id, task_queue=client.task_queue
            )


async def test_an_unknown_agent_ends_the_run_with_the_names_there_are(client: Client, thread_id: str) -> None:
    result = await client.run("unknown", "hello", thread_id=thread_id)
    names = ", ".join(sorted(registry.agents))
    assert result.termination == Errored(
        value=f"agent not found: 'unknown'; registered: {names}", code="agent_not_found"
    )


async def test_a_permanent_provider_error_ends_the_run_with_its_message(
    temporal: TemporalClient, thread_id: str
) -> None:
    """B-120, H-12, H-17."""
    failing = Failing(ProviderErrorKind.UNAUTHORIZED, failures=99)
    async with worker_with(temporal, thread_id, failing) as client:
        result = await client.run("solo", "hello", thread_id=thread_id)
    assert result.termination == Errored(value="inference failed: failure 1", code="unauthorized")
    assert failing.calls == 1


async def test_a_transient_provider_error_is_retried_by_temporal(temporal: TemporalClient, thread_id: str) -> None:
    """B-120."""
    failing = Failing(ProviderErrorKind.RATE_LIMITED, failures=2)
    async with worker_with(temporal, thread_id, failing) as client:
        result = await client.run("solo", "hello", thread_id=thread_id)
    assert result.response == "answered after 2 failures"


async def test_retries_end_with_the_last_error_if_the_agent_has_no_patience(
    temporal: TemporalClient, thread_id: str
) -> None:
    failing = Failing(ProviderErrorKind.OVERLOADED, failures=99)
    async with worker_with(
        temporal, thread_id, failing, RetryPolicy(patience_secs=0, overloaded_backoff_base_ms=1)
    ) as client:
        result = await client.run("solo", "hello", thread_id=thread_id)
    assert result.termination == Errored(value="inference failed: failure 3", code="overloaded")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("explode exception", "it said Execution failed: ValueError: boom"),
        ("explode tool_error", "it said Execution failed: the fuse is wet"),
        ("explode silent", "it said Execution failed: KeyError"),
        ("explode stop_iteration", "it said Execution failed: RuntimeError: StopIteration: next() found nothing"),
        ("unknown tool", "it said tool 'levitate' not found"),
    ],
)
async def test_a_failing_tool_is_a_result_the_model_reads(
    client: Client, thread_id: str, text: str, answer: str
) -> None:
    """B-205, B-206."""
    assert (await client.run("tester", text, thread_id=thread_id)).response == answer


async def test_a_result_that_json_cannot_hold_is_an_error_result(client: Client, thread_id: str) -> None:
    result = await client.run("tester", "explode unserialisable", thread_id=thread_id)
    assert "the tool returned a lock, which JSON cannot hold" in result.response


async def test_bad_arguments_are_an_error_result_that_names_the_fields(client: Client, thread_id: str) -> None:
    result = await client.run("tester", "bad arguments", thread_id=thread_id)
    assert result.response.startswith("it said Invalid arguments: a: Input should be a valid integer")
    assert "b: Field required" in result.response
    assert "c: Extra inputs are not permitted" in result.response


async def test_sync_tools_of_one_step_run_in_threads_together(client: Client, thread_id: str) -> None:
    """B-221."""
    async with asyncio.timeout(30):
        assert (await client.run("parallel", "meet", thread_id=thread_id)).response == "met"


async def test_parallel_results_stand_in_call_order(client: Client, thread_id: str, journal: Journal) -> None:
    """B-221, B-335, I-03, I-04."""
    await client.start("parallel", "mixed", thread_id=thread_id)
    view = await until_status(client, thread_id, RunStatus.WAITING)
    await client.decide(thread_id, view.pending[0].pending.id, "resume", result="go")
    await client.result(thread_id)
    tools = [message.text for message in await client.transcript(thread_id) if message.tool_call_id]
    assert tools == ["one", '{"did":"launch","said":"go","reason":null}', "three"]
    assert journal.said("echo") == ["ran", "ran"]


async def test_a_frontend_tool_waits_for_its_result(client: Client, thread_id: str) -> None:
    """B-240."""
    page = FrontendTool(id="open_page", description="Open a page", parameters={"type": "object"})
    await client.start("tester", "browse", thread_id=thread_id, frontend_tools=[page])
    view = await until_status(client, thread_id, RunStatus.WAITING)
    assert view.pending[0].suspension.action == "tool:open_page"
    await client.decide(thread_id, view.pending[0].pending.id, "resume", result={"title": "Home"})
    assert (await client.result(thread_id)).response == 'the page says {"title":"Home"}'


async def test_rounds_are_limited(client: Client, thread_id: str) -> None:
    """H-16: three rounds, and no model call that is thrown away."""
    result = await client.run("short", "for ever", thread_id=thread_id)
    detail = StopDetail(code="max_rounds", detail="3 rounds of tool calls were made")
    assert (result.termination, result.steps) == (Stopped(value=detail), 3)


async def test_a_submitted_message_is_read_before_the_run_ends(client: Client, thread_id: str) -> None:
    await client.start("tester", "approve", thread_id=thread_id)
    view = await until_status(client, thread_id, RunStatus.WAITING)
    for _ in range(2):
        await client.submit(thread_id, [InputMessage(content="add", id="m1")])
    await client.decide(thread_id, view.pending[0].pending.id, "cancel")
    result = await client.result(thread_id)
    assert (result.response, result.steps) == ("the sum is 5", 4)


async def test_ten_starts_at_once_give_one_run(client: Client, thread_id: str) -> None:
    """I-01."""
    starts = [client.start("tester", "approve", thread_id=thread_id) for _ in range(10)]
    outcomes = await asyncio.gather(*starts, return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["ThreadBusy"] * 9 + ["str"]
    await client.cancel(thread_id)
    await client.result(thread_id)


async def test_an_unknown_thread_is_named(client: Client) -> None:
    for attempt in (client.status("nowhere"), client.cancel("nowhere"), client.result("nowhere")):
        with pytest.raises(ThreadNotFound, match="no thread 'nowhere'"):
            await attempt


async def test_a_signal_to_an_ended_run_is_refused(client: Client, thread_id: str) -> None:
    await client.run("tester", "hello", thread_id=thread_id)
    with pytest.raises(CallerError, match="has ended"):
        await client.decide(thread_id, "1-1", "resume")


async def test_watching_shows_every_event_once_and_in_order(client: Client, thread_id: str) -> None:
    """B-042, B-043."""
    await client.start("tester", "add", thread_id=thread_id)
    records = [record async for record in client.watch(thread_id)]
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert [record.event.event_type for record in records] == [
        "message_received",
        "run_start",
        "step_start",
        "tool_call_start",
        "tool_call_delta",
        "tool_call_ready",
        "inference_complete",
        "tool_call_done",
        "step_end",
        "step_start",
        "text_delta",
        "inference_complete",
        "step_end",
        "run_finish",
    ]


async def test_a_finished_run_is_watched_from_any_point(client: Client, thread_id: str) -> None:
    await client.run("tester", "add", thread_id=thread_id)
    assert [record.seq async for record in client.watch(thread_id, after=12)] == [13, 14]


async def test_temporal_shows_what_a_run_is_and_waits_for(usual_client: Client, thread_id: str) -> None:
    client = usual_client
    await client.start("tester", "approve", thread_id=thread_id)
    view = await until_status(client, thread_id, RunStatus.WAITING)
    described = await client.handle(thread_id).describe()
    shown = {pair.key.name: pair.value for pair in described.typed_search_attributes}
    assert {name: shown[name] for name in ("WakefulAgent", "WakefulStatus")} == {
        "WakefulAgent": "tester",
        "WakefulStatus": "waiting",
    }
    assert await described.static_summary() == "tester: approve"
    assert (await described.memo())["title"] == "approve"
    metadata = await client.handle(thread_id).query("__temporal_workflow_metadata")
    assert f"wakeful approve \\\n  {thread_id}/{view.pending[0].pending.id}\n" in metadata.current_details
    await client.cancel(thread_id)
    await client.result(thread_id)


async def test_activities_carry_the_names_and_words_a_person_understands(usual_client: Client, thread_id: str) -> None:
    client = usual_client
    await client.run("tester", "add", thread_id=thread_id)
    scheduled = []
    async for event in client.handle(thread_id).fetch_history_events():
        if event.HasField("activity_task_scheduled_event_attributes"):
            name = event.activity_task_scheduled_event_attributes.activity_type.name
            scheduled.append((name, json.loads(event.user_metadata.summary.data)))
    assert scheduled == [
        ("resolve_agent", "look up agent tester"),
        ("infer", "step 1 · default"),
        ("add", "a=2, b=3"),
        ("infer", "step 2 · default"),
    ]


async def test_what_an_inference_is_given_does_not_grow_with_the_conversation(
    usual_client: Client, thread_id: str
) -> None:
    client = usual_client
    await client.run("tester", "many", thread_id=thread_id)
    sizes = []
    async for event in client.handle(thread_id).fetch_history_events():
        scheduled = event.activity_task_scheduled_event_attributes
        if scheduled.activity_type.name == "infer":
            sizes.append(scheduled.input.ByteSize())
    assert len(sizes) == 13
    assert max(sizes[2:]) - min(sizes[2:]) <= 8  # digits of step and length


async def test_a_worker_that_never_saw_a_thread_reads_it_back_from_history(
    temporal: TemporalClient, thread_id: str, journal: Journal
) -> None:
    """Start on one worker, finish on another: the second model call sees the whole conversation."""
    client = Client(temporal, task_queue=thread_id)
    first, second = Recording([call("approve", what="move")]), Recording([say("unused"), say("moved: {result}")])
    async with worker_with(temporal, thread_id, first):
        await client.start("solo", "hello", thread_id=thread_id)
        view = await until_status(client, thread_id, RunStatus.WAITING)
    await client.decide(thread_id, view.pending[0].pending.id, "resume", result="yes")
    async with worker_with(temporal, thread_id, second):
        result = await client.result(thread_id)
    assert result.response.startswith("moved: ")
    assert [message.role.value for message in second.requests[0].messages] == ["user", "assistant", "tool"]
    assert journal.said("approve") == ["asked", "ran"]


async def test_a_bug_of_ours_ends_the_run_with_its_message(
    client: Client, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wakeful.loop.calls import tool_calls

    def broken(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("what have we done")

    monkeypatch.setattr(tool_calls, "on_tool_returned", broken)
    result = await client.run("tester", "add", thread_id=thread_id)
    error = "internal error on ToolReturned: ZeroDivisionError: what have we done"
    assert result.termination == Errored(value=error, code="internal_error")
    assert (await client.handle(thread_id).describe()).status is WorkflowExecutionStatus.FAILED


def worker_with(
    temporal: TemporalClient, task_queue: str, model: Provider, retry: RetryPolicy | None = None
) -> "Running":
    """A worker of the test's own, with one agent, `solo`."""
    registry = Registry(agents=[Agent(id="solo", tools=TOOLS, retry=retry or RetryPolicy())], models={"default": model})
    return Running(temporal, registry, task_queue)


class Running:
    def __init__(self, temporal: TemporalClient, registry: Registry, task_queue: str) -> None:
        self._client = Client(temporal, task_queue=task_queue)
        self._worker = running_worker(temporal, registry, WorkerSettings(task_queue=task_queue))

    async def __aenter__(self) -> Client:
        await self._worker.__aenter__()
        return self._client

    async def __aexit__(self, *error: Any) -> None:
        await self._worker.__aexit__(*error)
