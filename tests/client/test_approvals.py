"""The decisions that runs wait for, across all threads, and answers that confirm what became of them."""

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import accumulate

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType, IndexedValueType
from temporalio.client import Client as TemporalClient
from temporalio.converter import PayloadCodec

from tests.support.app import approve, registry
from tests.support.counting import counting_client
from tests.support.namespaces import empty_namespace, register, until_known
from tests.support.waiting import BOUND_SECONDS, until_status
from wakeful import (
    Agent,
    Decision,
    DecisionAction,
    FrontendTool,
    ModelRequest,
    ModelResponse,
    Registry,
    RunStatus,
    ScriptedModel,
    ToolContext,
    ToolMode,
    call,
    say,
    tool,
)
from wakeful.client import confirming
from wakeful.client.approvals import PendingDecision, pending_of
from wakeful.client.client import Client
from wakeful.connection import SEARCH_ATTRIBUTES, ensure_search_attributes
from wakeful.contract import names
from wakeful.contract.errors import AlreadyDecided, CallerError, DecisionRefused, NoAnswer
from wakeful.contract.inference import StopReason
from wakeful.contract.messages import ToolCall
from wakeful.contract.views import OutcomesView, PendingView
from wakeful.worker import WorkerSettings, running_worker
from wakeful_workflows.visibility import LIST_LIMIT

KEYWORD = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
KEYWORD_LIST = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST


@pytest.fixture
def client(either_client: Client) -> Client:
    return either_client


async def listed(
    client: Client, thread_id: str | None, met: Callable[[list[PendingDecision]], bool] = bool
) -> list[PendingDecision]:
    """The inbox, of a thread or of all, once `met` is true: Temporal's lists are eventually consistent."""
    async with asyncio.timeout(BOUND_SECONDS):
        while not met(entries := [entry async for entry in client.inbox(thread_id=thread_id)]):
            await asyncio.sleep(0.05)
    return entries


async def until_pending(client: Client, thread_id: str, calls: list[str] | None) -> None:
    """Wait until the search attribute names exactly these calls."""
    shown: object = ...
    async with asyncio.timeout(BOUND_SECONDS):
        while shown != calls:
            described = await client.handle(thread_id).describe()
            pairs = {pair.key.name: pair.value for pair in described.typed_search_attributes}
            shown = pairs.get(names.ATTRIBUTE_PENDING)


async def test_the_inbox_has_what_a_person_needs_to_decide(client: Client, thread_id: str) -> None:
    await client.start("tester", "approve", thread_id=thread_id)
    (entry,) = await listed(client, thread_id)
    view = await client.status(thread_id)
    (call,) = view.calls
    assert call.ticket is not None
    assert entry.model_copy(update={"age": None}) == PendingDecision(
        ticket=f"{thread_id}/1-1",
        thread_id=thread_id,
        run_id=view.identity.run_id,
        agent_id="tester",
        path=(thread_id,),
        call_id="1-1",
        suspension_id=call.ticket.suspension.id,
        tool_name="approve",
        arguments={"what": "launch"},
        arguments_digest=call.ticket.arguments_digest,
        message="May I launch?",
        action="approve",
        since=call.since,
        resume_mode=call.ticket.resume_mode,
    )
    assert entry.age is not None
    assert 0 <= entry.age < BOUND_SECONDS
    await client.decide(thread_id, entry.call_id, "resume")
    await listed(client, thread_id, lambda entries: entries == [])
    assert (await client.result(thread_id)).status_reason == "natural"


async def test_the_inbox_is_sorted_by_age_and_filtered(temporal: TemporalClient) -> None:
    client = Client(await empty_namespace(temporal))
    threads = ["first", "second", "third"]
    async with running_worker(client.temporal, registry):
        for number, thread in enumerate(threads, start=1):
            await client.start("parallel", "two approvals", thread_id=thread)
            entries = await listed(client, None, lambda found, number=number: len(found) == 2 * number)  # type: ignore[misc]
        # The two calls of a thread run concurrently, and either may suspend first.
        assert [entry.thread_id for entry in entries] == [thread for thread in threads for _ in range(2)]
        assert [entry async for entry in client.inbox(agent_id="parallel", tool="approve", limit=9)] != []
        assert [entry async for entry in client.inbox(agent_id="tester")] == []
        assert [entry async for entry in client.inbox(tool="add")] == []
        oldest = [entry async for entry in client.inbox(limit=2)]
        assert [entry.thread_id for entry in oldest] == ["first", "first"]


async def test_the_search_attribute_names_what_a_run_waits_for(client: Client, thread_id: str) -> None:
    await client.start("parallel", "two approvals", thread_id=thread_id)
    await until_pending(client, thread_id, ["1-1", "1-2"])
    await client.decide(thread_id, "1-1", "cancel")
    await until_pending(client, thread_id, ["1-2"])
    found = f"WakefulPending = '1-2' AND WorkflowId = '{thread_id}' AND ExecutionStatus = 'Running'"
    async with asyncio.timeout(BOUND_SECONDS):
        while [execution.id async for execution in client.temporal.list_workflows(found)] != [thread_id]:
            await asyncio.sleep(0.05)
    await client.decide(thread_id, "1-2", "resume")
    await client.result(thread_id)
    await until_pending(client, thread_id, None)


async def test_the_attribute_costs_no_event_of_its_own(usual_client: Client, thread_id: str) -> None:
    client = usual_client
    await client.start("tester", "approve", thread_id=thread_id)
    await until_status(client, thread_id, RunStatus.WAITING)
    await client.decide(thread_id, "1-1", "resume")
    await client.result(thread_id)
    history = await client.handle(thread_id).fetch_history()
    upserts = [
        sorted(event.upsert_workflow_search_attributes_event_attributes.search_attributes.indexed_fields)
        for event in history.events
        if event.event_type == EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES
    ]
    assert upserts == [
        ["WakefulAgent", "WakefulStatus", "WakefulUsers"],
        ["WakefulPending", "WakefulStatus"],
        ["WakefulPending", "WakefulStatus"],
        ["WakefulOutcome", "WakefulReason", "WakefulStatus"],
    ]


@tool
def ask_in_time(ctx: ToolContext) -> None:
    """Ask, with a deadline."""
    ctx.suspend("Quickly?", expires_after=3600, on_expiry="deny")


async def test_a_deadline_is_in_the_inbox_and_in_the_details(temporal: TemporalClient, thread_id: str) -> None:
    client = Client(temporal, task_queue=thread_id)
    asking = Registry(
        agents=[Agent(id="hasty", tools=[ask_in_time])], models={"default": ScriptedModel([call("ask_in_time")])}
    )
    async with running_worker(temporal, asking, WorkerSettings(task_queue=thread_id)):
        await client.start("hasty", "go", thread_id=thread_id)
        (entry,) = await listed(client, thread_id)
        assert entry.since is not None
        assert entry.expires_at == entry.since + 3_600_000
        metadata = await client.handle(thread_id).query("__temporal_workflow_metadata")
        until = datetime.fromtimestamp(entry.expires_at / 1000, UTC)
        line = f"`ask_in_time` with `{{}}` waits for a decision until {until:%Y-%m-%d %H:%M} UTC, then: deny:"
        assert line in metadata.current_details
        await client.cancel(thread_id)
        await client.result(thread_id)


class ManyCalls:
    """Asks for more calls than a search attribute can list, with provider ids that would not fit either."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        calls = tuple(ToolCall(id=f"{n}-{'ä' * 300}", name="open_page", arguments={}) for n in range(MANY))
        return ModelResponse(model=request.model, tool_calls=calls, stop_reason=StopReason.TOOL_USE)


MANY = 250


async def test_calls_that_do_not_fit_the_attribute_leave_no_run_stuck(temporal: TemporalClient, thread_id: str) -> None:
    client = Client(temporal, task_queue=thread_id)
    asking = Registry(agents=[Agent(id="many", tool_mode=ToolMode.PARALLEL)], models={"default": ManyCalls()})
    page = FrontendTool(id="open_page", description="Open a page.")
    async with running_worker(temporal, asking, WorkerSettings(task_queue=thread_id)):
        await client.start("many", "go", thread_id=thread_id, frontend_tools=[page])
        entries = await listed(client, thread_id, lambda found: len(found) == MANY)
        ids = [f"1-{n}" for n in range(1, MANY + 1)]
        assert sorted(entry.call_id for entry in entries) == sorted(ids)
        sizes = accumulate(len(f'"{id}"') for id in ids)
        fitting = [id for id, size in zip(ids, sizes, strict=True) if size <= LIST_LIMIT]
        assert len(fitting) < MANY
        await until_pending(client, thread_id, fitting)
        await client.cancel(thread_id)
        await client.result(thread_id)


@pytest.mark.faults
async def test_a_run_without_a_worker_is_listed_and_can_be_decided(temporal: TemporalClient, thread_id: str) -> None:
    client = Client(temporal, task_queue=thread_id)
    async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
        await client.start("parallel", "two approvals", thread_id=thread_id)
        await listed(client, thread_id)
    entries = await listed(client, thread_id)
    assert [(entry.ticket, entry.tool_name, entry.unknown) for entry in entries] == [
        (f"{thread_id}/{call}", "approve", None) for call in ("1-1", "1-2")
    ]
    with pytest.raises(NoAnswer) as silence:
        await client.decide(thread_id, "1-1", "resume", decision_id="d1", confirm=True)
    for part in ("recorded in the history", "as soon as a worker runs", "decision id 'd1'", "same id is safe"):
        assert part in str(silence.value)
    async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
        assert await client.decide(thread_id, "1-1", "resume", decision_id="d1", confirm=True) == "repeated"
        await client.handle(thread_id).terminate()


async def test_a_confirmed_decision_returns_its_status(client: Client, thread_id: str) -> None:
    await client.start("tester", "two approvals", thread_id=thread_id)
    await until_status(client, thread_id, RunStatus.WAITING)
    with pytest.raises(DecisionRefused, match="'nothing' not found") as refused:
        await client.decide(thread_id, "nothing", "resume", confirm=True)
    assert "not found" in refused.value.reason
    assert await client.decide(thread_id, "1-1", "resume", decision_id="d1", confirm=True) == "applied"
    await client.result(thread_id)


async def test_a_confirmed_decision_on_a_run_that_has_ended_is_refused(client: Client, thread_id: str) -> None:
    await client.run("tester", "hi", thread_id=thread_id)
    with pytest.raises(DecisionRefused) as refused:
        await client.decide(thread_id, "1-1", "resume", confirm=True)
    assert (refused.value.thread_id, refused.value.reason) == (thread_id, "the run has ended")


async def test_a_second_decision_says_by_whom_and_when_the_call_was_decided(client: Client, thread_id: str) -> None:
    await client.start("parallel", "two approvals", thread_id=thread_id)
    await until_status(client, thread_id, RunStatus.WAITING)
    before = int(time.time() * 1000)
    await client.decide(thread_id, "1-1", "resume", actor="ann", confirm=True)
    with pytest.raises(AlreadyDecided) as second:
        await client.decide(thread_id, "1-1", "cancel", actor="bob", confirm=True)
    said = rf"call '1-1' was already approved by 'ann' at {datetime.now(UTC):%Y-%m}-\d\d \d\d:\d\d UTC"
    assert re.fullmatch(said, second.value.reason)
    assert (second.value.action, second.value.actor, second.value.at >= before) == ("resume", "ann", True)
    await client.decide(thread_id, "1-2", "cancel", actor="ann", confirm=True)
    await client.result(thread_id)
    for is_confirmed in (True, False):  # now that the workflow is closed, the client reads it from history
        with pytest.raises(AlreadyDecided, match=f"thread {thread_id!r} rejected the decision: {said}") as late:
            await client.decide(thread_id, "1-1", "resume", actor="bob", confirm=is_confirmed)
        assert late.value.at == second.value.at
    with pytest.raises(AlreadyDecided, match=r"call 'suspend_1-2' was already denied by 'ann' at "):
        await client.decide(thread_id, "suspend_1-2", "resume")


async def test_a_decider_of_another_tenant_does_not_learn_who_has_decided(client: Client, thread_id: str) -> None:
    await client.start("tester", "two approvals", thread_id=thread_id)
    await until_status(client, thread_id, RunStatus.WAITING)
    await client.decide(thread_id, "1-1", "resume", actor="ann", confirm=True)
    await client.result(thread_id)
    with pytest.raises(DecisionRefused) as refused:
        await client.decide(thread_id, "1-1", "resume", tenant="acme")
    assert (type(refused.value), refused.value.reason) == (DecisionRefused, "the run has ended")


async def test_a_confirmed_decision_is_refused_when_the_run_ends_meanwhile(
    temporal: TemporalClient, thread_id: str
) -> None:
    client = Client(temporal, task_queue=thread_id)  # without a worker, the signal waits
    await client.start("tester", "hi", thread_id=thread_id)
    deciding = asyncio.create_task(client.decide(thread_id, "1-1", "resume", confirm=True))
    async with asyncio.timeout(BOUND_SECONDS):
        while (await client.handle(thread_id).describe()).history_length < 3:
            await asyncio.sleep(0.02)
    await client.handle(thread_id).terminate()
    with pytest.raises(DecisionRefused, match="the run has ended"):
        await deciding


async def test_a_decision_that_is_too_large_for_a_signal_is_not_sent(client: Client, thread_id: str) -> None:
    decisions = [Decision(target=f"1-{n}", action=DecisionAction.RESUME, result="x" * 250_000) for n in range(8)]
    with pytest.raises(CallerError, match=r"the decision has 2,0.* bytes, but the limit is 1,900,000"):
        await client.decide_many(thread_id, decisions)
    with pytest.raises(CallerError, match="there is no decision to send"):
        await client.decide_many(thread_id, [], confirm=True)


async def test_a_lost_worker_does_not_hide_what_became_of_a_decision(
    temporal: TemporalClient, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """History has the outcome, when the worker that handled the decision does not answer any more."""

    async def no_worker(*_args: object, **_kwargs: object) -> OutcomesView:
        raise NoAnswer("no worker")

    monkeypatch.setattr(confirming, "query", no_worker)
    client = Client(temporal, task_queue=thread_id)
    async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
        await client.start("tester", "approve", thread_id=thread_id)
        await until_status(client, thread_id, RunStatus.WAITING)
        assert await client.decide(thread_id, "1-1", "resume", decision_id="d1", confirm=True) == "applied"
        await client.result(thread_id)


async def test_a_decision_that_the_thread_no_longer_knows_is_answered_so(
    client: Client, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forgotten(*_args: object, **_kwargs: object) -> OutcomesView:
        return OutcomesView(outcomes=())

    monkeypatch.setattr(confirming, "query", forgotten)
    await client.start("parallel", "two approvals", thread_id=thread_id)
    await until_status(client, thread_id, RunStatus.WAITING)
    with pytest.raises(NoAnswer, match=r"does not know what became of the decision \(decision id 'd1'\)"):
        await client.decide(thread_id, "1-1", "resume", decision_id="d1", confirm=True)
    await client.handle(thread_id).terminate()


async def test_a_confirmed_decision_for_other_arguments_is_refused(client: Client, thread_id: str) -> None:
    await client.start("tester", "approve", thread_id=thread_id)
    (entry,) = await listed(client, thread_id)
    assert entry.arguments_digest is not None
    with pytest.raises(DecisionRefused):
        await client.decide(thread_id, entry.call_id, "resume", arguments_digest="another", confirm=True)
    status = await client.decide(
        thread_id, entry.call_id, "resume", arguments_digest=entry.arguments_digest, confirm=True
    )
    assert status == "applied"
    await client.result(thread_id)


async def test_several_decisions_are_applied_together_or_not_at_all(client: Client, thread_id: str) -> None:
    await client.start("parallel", "two approvals", thread_id=thread_id)
    view = await until_status(client, thread_id, RunStatus.WAITING)
    both = [
        Decision(target=ticket.pending.id, action=DecisionAction.RESUME, decision_id="d1", actor="ann")
        for ticket in view.pending
    ]
    wrong = Decision(target="nothing", action=DecisionAction.CANCEL)
    with pytest.raises(DecisionRefused):
        await client.decide_many(thread_id, [*both, wrong], confirm=True)
    assert len((await client.status(thread_id)).pending) == 2
    assert await client.decide_many(thread_id, both, confirm=True) == "applied"
    await client.result(thread_id)


async def test_a_namespace_that_lacks_a_search_attribute_gets_it(temporal: TemporalClient) -> None:
    namespace = await empty_namespace(temporal)
    await register(namespace, WakefulAgent=KEYWORD, WakefulStatus=KEYWORD, WakefulParent=KEYWORD)
    assert await ensure_search_attributes(namespace) == tuple(sorted(SEARCH_ATTRIBUTES))
    await until_known(namespace, WakefulPending=KEYWORD_LIST)


async def test_a_refused_search_attribute_is_named_in_the_log_and_the_others_are_used(
    temporal: TemporalClient, caplog: pytest.LogCaptureFixture
) -> None:
    namespace = await empty_namespace(temporal)
    ours = {f"WakefulMine{number}": KEYWORD for number in range(10 - 3)}  # a SQL store has room for ten keywords
    await register(namespace, **ours)
    found = await ensure_search_attributes(namespace)
    keywords = [name for name, kind in SEARCH_ATTRIBUTES.items() if kind == KEYWORD]
    assert found == tuple(sorted([*keywords[:3], "WakefulPending", "WakefulUsers"]))
    refused = [record.args[0] for record in caplog.records if isinstance(record.args, tuple) and record.args]
    assert refused == sorted(keywords[3:])


async def test_an_inbox_lists_runs_whose_namespace_lacks_the_attribute_of_pending_calls(
    temporal: TemporalClient, thread_id: str
) -> None:
    """At first no attribute is registered; then one has another type, so that runs do not write it."""
    namespace = await empty_namespace(temporal)
    client = Client(namespace)
    assert [entry async for entry in client.inbox()] == []
    await register(namespace, WakefulPending=KEYWORD)
    async with running_worker(namespace, registry):
        await client.start("tester", "approve", thread_id=thread_id)
        (entry,) = await listed(client, None, lambda found: bool(found) and found[0].unknown is None)
        assert (entry.ticket, entry.message) == (f"{thread_id}/1-1", "May I launch?")
        described = await client.handle(thread_id).describe()
        assert sorted(described.search_attributes) == ["BuildIds", "WakefulAgent", "WakefulStatus", "WakefulUsers"]
        await client.decide(thread_id, entry.call_id, "resume")
        assert (await client.result(thread_id)).status_reason == "natural"


async def test_a_look_at_the_inbox_is_two_calls_however_many_runs_wait(temporal: TemporalClient) -> None:
    namespace = await empty_namespace(temporal)
    async with running_worker(namespace, registry):
        for number in range(5):
            await Client(namespace).start("parallel", "two approvals", thread_id=f"t{number}")
        await listed(Client(namespace), None, lambda found: len(found) == 10)
        counted, calls = counting_client(namespace)
        found = [entry async for entry in Client(counted).inbox()]
        assert calls == {"list_workflow_executions": 1, "describe_task_queue": 1}
        whole = [pending for number in range(5) for pending in pending_of(await Client(namespace).status(f"t{number}"))]
        assert sorted(map(_without_age, found)) == sorted(map(_without_age, whole))


def _without_age(pending: PendingDecision) -> str:
    return pending.model_copy(update={"age": None}).model_dump_json()


async def test_a_long_question_is_cut_in_the_inbox_and_whole_in_that_of_its_thread(
    temporal: TemporalClient, thread_id: str
) -> None:
    long = "launch " * 1000
    turns = [call("approve", what=long), say("done")]
    agents = Registry(agents=[Agent(id="a", tools=[approve])], models={"default": ScriptedModel(turns)})
    client = Client(await empty_namespace(temporal))
    async with running_worker(client.temporal, agents):
        await client.start("a", "pay", thread_id=thread_id)
        (shown,) = await listed(client, None)
        (opened,) = [entry async for entry in client.inbox(thread_id=thread_id)]
    assert (shown.cut, opened.cut) == (True, False)
    assert opened.arguments == {"what": long}
    assert len(shown.model_dump_json()) < 1500
    assert shown.arguments_digest == opened.arguments_digest


class WithoutOneKey(PayloadCodec):
    """A codec that cannot reach the key of what mentions a secret."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        if any(b"secret" in payload.data for payload in payloads):
            raise OSError("the key service does not answer")
        return list(payloads)


async def test_a_run_that_cannot_be_read_leaves_the_rest_of_the_inbox_readable(temporal: TemporalClient) -> None:
    namespace = await empty_namespace(temporal)
    converter = replace(namespace.data_converter, payload_codec=WithoutOneKey())
    other = TemporalClient(namespace.service_client, namespace=namespace.namespace, data_converter=converter)
    async with running_worker(namespace, registry):
        for thread_id in ("secret", "public"):
            await Client(namespace).start("tester", f"approve the {thread_id}", thread_id=thread_id)
        await listed(Client(namespace), None, lambda entries: len(entries) == 2)
        found = [entry async for entry in Client(other).inbox()]
    assert [(entry.ticket, entry.unknown) for entry in found] == [
        ("public/1-1", None),
        ("secret/1-1", "it cannot be read: OSError: the key service does not answer"),
    ]


async def test_the_memo_has_what_a_run_waits_for_until_it_is_decided(client: Client, thread_id: str) -> None:
    await client.start("tester", "approve", thread_id=thread_id)
    await until_pending(client, thread_id, ["1-1"])
    memo = await client.handle(thread_id).describe()
    view = await memo.memo_value(names.MEMO_PENDING, type_hint=PendingView)
    assert [each.call_id for each in view.calls] == ["1-1"]
    await client.decide(thread_id, "1-1", "resume")
    await client.result(thread_id)
    assert names.MEMO_PENDING not in await (await client.handle(thread_id).describe()).memo()


async def test_a_decision_that_names_a_run_is_refused_if_the_thread_has_a_newer_one(
    client: Client, thread_id: str
) -> None:
    """B-611"""
    await client.send(thread_id, "approve", agent_id="tester")
    (first,) = await listed(client, thread_id)
    status = await client.decide(thread_id, "1-1", "resume", run_id=first.run_id, confirm=True)
    assert status == "applied"
    await until_status(client, thread_id, RunStatus.DONE)
    await client.send(thread_id, "approve again")
    (second,) = await listed(client, thread_id, lambda found: bool(found) and found[0].run_id != first.run_id)
    reason = f"it is for run {first.run_id!r}, but the newest run of the thread is {second.run_id!r}"
    with pytest.raises(DecisionRefused, match=re.escape(reason)):
        await client.decide(thread_id, second.call_id, "resume", run_id=first.run_id, confirm=True)
    decision = Decision(target=second.call_id, action="resume")
    assert await client.decide_many(thread_id, [decision], run_id=second.run_id, confirm=True) == "applied"
    await client.close(thread_id)
    await client.result(thread_id)


async def test_a_decision_as_awaken_writes_it_is_applied(client: Client, thread_id: str) -> None:
    await client.start("tester", "approve", thread_id=thread_id)
    await listed(client, thread_id)
    written = {"target": "1-1", "action": "resume", "decision_id": "d1", "updated_at": 1_719_000_000}
    await client.handle(thread_id).signal("decide", {"decisions": [written]})
    assert (await client.result(thread_id)).status_reason == "natural"
    assert (await client.status(thread_id)).refusals == ()
