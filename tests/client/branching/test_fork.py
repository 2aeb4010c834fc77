"""Forks on the real server: what they inherit, what they do not pay for again, and that their origin is unchanged."""

import ast
import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import reduce

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecutionStatus

from tests.support.app import registry
from tests.support.app.walking import FLOOD, MODEL, STEPS
from tests.support.processes import ROOT
from tests.support.waiting import BOUND_SECONDS, until, until_status
from wakeful import CallerError, RunStatus, WakefulError
from wakeful.client.branching.steps import steps_of
from wakeful.client.client import Client
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.errors import ThreadNotFound
from wakeful.contract.messages import Message, Role, Visibility
from wakeful.contract.runs import ForkedFrom, ThreadMode
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful.worker import WorkerSettings, running_worker

TASKS = (
    EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
)
BUDGETS = {"usual": HistoryBudget(), "restless": HistoryBudget(events=1)}


@pytest.fixture(params=["usual", pytest.param("restless", marks=pytest.mark.restless)])
def budget(request: pytest.FixtureRequest) -> HistoryBudget:
    return BUDGETS[request.param]


@pytest.fixture
async def client(temporal: TemporalClient, thread_id: str, budget: HistoryBudget) -> AsyncIterator[Client]:
    async with a_worker(temporal, thread_id, budget) as client:
        yield client


@asynccontextmanager
async def a_worker(temporal: TemporalClient, queue: str, budget: HistoryBudget) -> AsyncIterator[Client]:
    """A worker with empty caches."""
    async with running_worker(temporal, registry, WorkerSettings(task_queue=queue, history_budget=budget)):
        yield Client(temporal, task_queue=queue)


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


async def approve(client: Client, thread_id: str) -> str:
    view = await until_status(client, thread_id, RunStatus.WAITING)
    await client.decide(thread_id, view.pending[0].pending.id, "resume")
    return (await client.result(thread_id)).response


async def test_a_fork_continues_a_long_run_in_another_way_from_one_of_its_steps(client: Client, thread_id: str) -> None:
    """The origin is untouched, and the first twelve steps are not paid for again."""
    await client.run("walker", "walk", thread_id=thread_id)
    before = await observed(client, thread_id)
    MODEL.requests.clear()
    fork = await client.fork(thread_id, at=12, message="turn back", new_thread_id=f"{thread_id}-fork")
    result = await client.result(fork)
    assert (result.response, result.steps, result.spent and result.spent.turns) == ("back: went to 0", 2, 2)
    assert [len(request.messages) for request in MODEL.requests] == [26, 28]
    assert await observed(client, thread_id) == before
    origin, forked = await client.transcript(thread_id), await client.transcript(fork)
    assert (len(steps_of(origin)), len(steps_of(forked))) == (STEPS, 14)
    assert forked[:25] == origin[:25]
    assert texts(forked[25:]) == ["turn back", "", "went to 0", "back: went to 0"]
    assert await activities(client, fork) == ["restore_thread", "resolve_agent", "infer", "pace", "infer"]


async def test_a_fork_names_its_origin(client: Client, thread_id: str) -> None:
    await client.run("walker", "stroll", thread_id=thread_id)
    fork = await client.fork(thread_id, at=1, message="turn back")
    await client.result(fork)
    origin = ForkedFrom(thread_id=thread_id, step=1)
    assert (await client.status(fork)).identity.forked_from == origin
    described = await client.handle(fork).describe()
    first = described.raw_description.workflow_execution_info.first_run_id
    summary = await (await client.handle(fork, run_id=first).describe()).static_summary()
    assert summary == f"walker: turn back (fork of {thread_id} after step 1)"
    assert await described.memo() == {"title": "turn back", "forked_from": origin.model_dump()}
    metadata = await client.handle(fork).query("__temporal_workflow_metadata")
    assert f"\nForked from `{thread_id}` after step 1" in metadata.current_details
    silent = await client.fork(thread_id, at=1)
    assert (await (await client.handle(silent).describe()).memo())["title"] == "stroll"


async def test_without_a_message_the_model_continues(client: Client, thread_id: str) -> None:
    await client.run("walker", "stroll", thread_id=thread_id)
    for at, steps in ((0, 3), (1, 2), (2, 1)):
        fork = await client.fork(thread_id, at=at)
        result = await client.result(fork)
        assert (result.response, result.steps) == ("strolled", steps)
        assert texts(await client.transcript(fork)) == texts(await client.transcript(thread_id))


async def test_a_fork_that_is_not_possible_is_rejected_with_the_reason(client: Client, thread_id: str) -> None:
    await client.run("walker", "stroll", thread_id=thread_id)
    with pytest.raises(CallerError, match="has 3 steps, so there is no step 4 to fork it after"):
        await client.fork(thread_id, at=4)
    with pytest.raises(CallerError, match="there is no step -1"):
        await client.fork(thread_id, at=-1)
    with pytest.raises(CallerError, match=r"step 3 of thread .* is an answer.* give the fork a message"):
        await client.fork(thread_id, at=3)
    with pytest.raises(CallerError, match="already: choose another id for the fork"):
        await client.fork(thread_id, at=1, new_thread_id=thread_id)
    with pytest.raises(CallerError, match="the message has 1,000,002 bytes"):
        await client.fork(thread_id, at=1, message="x" * 1_000_000)
    with pytest.raises(ThreadNotFound):
        await client.fork("nowhere", at=1)
    silent = await client.temporal.start_workflow(
        "AgentRun", {"agent_id": "walker", "mode": "thread"}, id=f"{thread_id}-silent", task_queue=client.task_queue
    )
    with pytest.raises(CallerError, match="has no message before its first step"):
        await client.fork(silent.id, at=0, message="hello")
    await silent.cancel()


async def test_an_open_thread_is_forked_while_it_waits(client: Client, thread_id: str) -> None:
    await client.start("walker", "ask", thread_id=thread_id)
    view = await until_status(client, thread_id, RunStatus.WAITING)
    before = await observed(client, thread_id)
    with pytest.raises(CallerError, match=r"step 2 of thread .* has not ended: agree \(2-1\) has not returned"):
        await client.fork(thread_id, at=2)
    fork = await client.fork(thread_id, at=1)
    waits = await until_status(client, fork, RunStatus.WAITING)
    assert waits.pending[0].pending.name == "agree"
    assert await observed(client, thread_id) == before
    await client.decide(fork, waits.pending[0].pending.id, "cancel", reason="no")
    assert (await client.result(fork)).response == "cancelled by decision: no"
    assert view.pending == (await client.status(thread_id)).pending
    assert await approve(client, thread_id) == "did rest"


async def test_steps_are_counted_over_all_runs_of_a_thread(client: Client, thread_id: str) -> None:
    await client.start("walker", "stroll", thread_id=thread_id, mode=ThreadMode.THREAD)
    await until(client, thread_id, lambda view: view.status is RunStatus.DONE and view.runs == 1)
    await client.send(thread_id, "stroll again")
    await until(client, thread_id, lambda view: view.status is RunStatus.DONE and view.runs == 2)
    between = await client.fork(thread_id, at=3, message="turn back")
    assert (await client.result(between)).response == "back: went to 0"
    assert texts(await client.transcript(between))[5:7] == ["strolled", "turn back"]
    within = await client.fork(thread_id, at=4)
    assert ((await client.result(within)).response, (await client.result(within)).steps) == ("strolled", 2)
    assert texts(await client.transcript(within)) == texts(await client.transcript(thread_id))
    await client.handle(thread_id).cancel()


async def test_state_is_as_it_was_at_the_step(client: Client, thread_id: str) -> None:
    await client.run("walker", "hike", thread_id=thread_id)
    fork = await client.fork(thread_id, at=4, message="hello")
    await client.result(fork)
    assert (await client.state(fork)).values == {"paces": 4, "place": "at 4"}
    beginning = await client.fork(thread_id, at=0, message="hello")
    await client.result(beginning)
    assert (await client.state(beginning)).values == {}
    further = await client.fork(fork, at=4, message="turn back")
    await client.result(further)
    assert (await client.state(further)).values == {"paces": 5, "place": "at 0"}
    assert (await client.state(thread_id)).values == {"paces": 7, "place": "at 7"}


async def test_a_rule_that_a_decision_added_applies_in_forks_after_that_step(client: Client, thread_id: str) -> None:
    await client.start("payer", "pay", thread_id=thread_id)
    view = await until_status(client, thread_id, RunStatus.WAITING)
    await client.decide(thread_id, view.pending[0].pending.id, "resume", always=True)
    assert (await client.result(thread_id)).response == "paid 2"
    allowed = await client.fork(thread_id, at=1)
    assert (await client.result(allowed)).response == "paid 2"
    asks = await client.fork(thread_id, at=0)
    await until_status(client, asks, RunStatus.WAITING)
    await client.cancel(asks)


async def test_another_agent_takes_over_in_the_fork(client: Client, thread_id: str) -> None:
    await client.run("walker", "stroll", thread_id=thread_id)
    MODEL.requests.clear()
    fork = await client.fork(thread_id, at=1, message="turn back", agent_id="guide")
    assert (await client.result(fork)).agent_id == "guide"
    assert {request.instructions for request in MODEL.requests} == {"Lead."}
    again = await client.fork(fork, at=2)
    assert (await client.result(again)).agent_id == "guide"


async def test_a_fork_is_forked_at_its_own_steps_and_at_those_of_its_origin(client: Client, thread_id: str) -> None:
    await client.run("walker", "hike", thread_id=thread_id)
    first = await client.fork(thread_id, at=4, message="turn back")
    await client.result(first)
    own = await client.fork(first, at=5, message="stroll")
    inherited = await client.fork(first, at=2, message="stroll")
    for fork, count in ((own, 12), (inherited, 5)):
        assert (await client.result(fork)).response == "strolled"
        assert texts(await client.transcript(fork))[:count] == texts(await client.transcript(first))[:count]
        assert texts(await client.transcript(fork))[count] == "stroll"
    assert (await client.state(inherited)).values == {"paces": 4, "place": "at 2"}
    assert (await client.status(inherited)).identity.forked_from == ForkedFrom(thread_id=first, step=2)


async def test_a_fork_that_was_closed_is_woken_and_still_knows_its_origin(client: Client, thread_id: str) -> None:
    await client.run("walker", "stroll", thread_id=thread_id)
    fork = await client.fork(thread_id, at=1, message="turn back")
    await client.result(fork)
    await client.send(fork, "stroll")
    view = await until(client, fork, lambda view: view.status is RunStatus.DONE and view.result is not None)
    assert (view.result and view.result.response, view.identity.forked_from) == (
        "strolled",
        ForkedFrom(thread_id=thread_id, step=1),
    )
    last = await client.fork(fork, at=2, message="hello")
    assert (await client.result(last)).response == "hello, hello"
    assert len(steps_of(await client.transcript(last))) == 3
    await client.handle(fork).cancel()


async def test_messages_that_do_not_fit_the_carryover_are_read_from_the_origin(
    temporal: TemporalClient, thread_id: str, budget: HistoryBudget
) -> None:
    """By workers with empty caches, through a fork of a fork that was closed in between."""
    async with a_worker(temporal, thread_id, budget) as client:
        await client.start("walker", "wade", thread_id=thread_id)
        await until_status(client, thread_id, RunStatus.WAITING)
        first = await client.fork(thread_id, at=5, message="dive", new_thread_id=f"{thread_id}-1")
        await until_status(client, first, RunStatus.WAITING)
    flooded = [f"{n}" * FLOOD for n in (1, 2, 3, 4, 5)]
    async with a_worker(temporal, thread_id, budget) as client:
        MODEL.requests.clear()
        assert await approve(client, first) == "did dive"
        assert tool_results_in(0) == [*flooded, "6" * FLOOD, "did dive"]
    async with a_worker(temporal, thread_id, budget) as client:
        MODEL.requests.clear()
        second = await client.fork(first, at=6, message="hello", new_thread_id=f"{thread_id}-2")
        assert (await client.result(second)).response == "hello, hello"
        assert tool_results_in(0) == [*flooded, "6" * FLOOD]
    async with a_worker(temporal, thread_id, budget) as client:
        MODEL.requests.clear()
        await client.send(second, "stroll")
        await until(client, second, lambda view: view.result is not None and view.result.response == "strolled")
        assert tool_results_in(0) == [*flooded, "6" * FLOOD]
        early = await client.fork(second, at=4, message="hello")
        await client.result(early)
        assert tool_results_in(-1) == flooded[:4]
        assert [message.text for message in await client.transcript(early) if message.tool_call_id] == flooded[:4]
        assert len(await client.transcript(second)) == 22
        await client.handle(second).cancel()
        assert await approve(client, thread_id) == "did swim"


async def test_an_answer_that_does_not_fit_is_queried_from_the_origin(
    temporal: TemporalClient, thread_id: str, budget: HistoryBudget
) -> None:
    """No later inference input refers to the last answer, so history alone does not have it in the transcript."""
    async with a_worker(temporal, thread_id, budget) as client:
        await client.run("walker", "lecture", thread_id=thread_id)
        MODEL.requests.clear()
        fork = await client.fork(thread_id, at=1, message="hello")
        assert (await client.result(fork)).response == "hello, hello"
        assert [len(message.text) for message in MODEL.requests[0].messages] == [7, 300_000, 5]


async def test_an_origin_that_is_rolled_back_does_not_change_its_forks(
    temporal: TemporalClient, thread_id: str, budget: HistoryBudget
) -> None:
    async with a_worker(temporal, thread_id, budget) as client:
        await client.start("walker", "wade", thread_id=thread_id, mode=ThreadMode.THREAD)
        await until_status(client, thread_id, RunStatus.WAITING)
        fork = await client.fork(thread_id, at=5, message="ask")
        await until_status(client, fork, RunStatus.WAITING)
        await client.send(thread_id, "hello", on_busy="rollback")
        await until(client, thread_id, lambda view: view.runs == 2 and view.status is RunStatus.DONE)
        assert texts(await client.transcript(thread_id)) == ["hello", "hello, hello"]
    async with a_worker(temporal, thread_id, budget) as client:
        MODEL.requests.clear()
        assert await approve(client, fork) == "did rest"
        assert tool_results_in(0)[:5] == [f"{n}" * FLOOD for n in (1, 2, 3, 4, 5)]
        assert texts(await client.transcript(fork))[0] == "wade"
        await client.handle(thread_id).cancel()


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
async def test_a_thread_that_was_rolled_back_to_its_beginning_forks_as_it_is_now(
    temporal: TemporalClient, thread_id: str, budget: HistoryBudget
) -> None:
    """What was undone does not come back, although an earlier execution still has it."""
    async with a_worker(temporal, thread_id, budget) as client:
        await client.start("walker", "ask", thread_id=thread_id, mode=ThreadMode.THREAD)
        await until_status(client, thread_id, RunStatus.WAITING)
        await client.send(thread_id, "stroll", on_busy="rollback")
        await until(client, thread_id, lambda view: view.runs == 2 and view.status is RunStatus.DONE)
        silent = await client.fork(thread_id, at=0)
        await client.result(silent)
        assert texts(await client.transcript(silent)) == texts(await client.transcript(thread_id))
        turned = await client.fork(thread_id, at=0, message="hello")
        await client.result(turned)
        assert texts(await client.transcript(turned)) == ["stroll", "hello", "hello, hello"]
        # As it was when the current run started: the rollback has undone what the run before it wrote.
        assert (await client.state(turned)).values == {}
        await client.handle(thread_id).cancel()


async def test_a_fork_of_messages_that_were_rolled_back_meanwhile_is_rejected(client: Client, thread_id: str) -> None:
    """The origin has as many messages again, but others."""
    await client.start("walker", "ask", thread_id=thread_id, mode=ThreadMode.THREAD)
    await until_status(client, thread_id, RunStatus.WAITING)
    messages = (await client.transcript(thread_id))[:3]
    await client.send(thread_id, "stroll", on_busy="rollback")
    await until(client, thread_id, lambda view: view.runs == 2 and view.status is RunStatus.DONE)
    run_id = (await client.handle(thread_id).describe()).run_id
    fork = {"thread_id": thread_id, "run_id": run_id, "step": 1, "messages": 3}
    digests = [reduce(chained, part, EMPTY_DIGEST) for part in (messages, (await client.transcript(thread_id))[:3])]
    for digest, outcome in zip(
        digests, (WorkflowExecutionStatus.FAILED, WorkflowExecutionStatus.COMPLETED), strict=True
    ):
        request = {"agent_id": "walker", "fork": {**fork, "digest": digest}}
        handle = await client.temporal.start_workflow(
            "AgentRun", request, id=f"{thread_id}-{outcome.name}", task_queue=client.task_queue
        )
        with suppress(WakefulError):
            await client.result(handle.id)
        assert (await client.handle(handle.id).describe()).status is outcome
    await client.handle(thread_id).cancel()


async def test_a_fork_whose_digest_does_not_match_is_rejected(client: Client, thread_id: str) -> None:
    """The fork's first activity rejects it."""
    await client.run("walker", "stroll", thread_id=thread_id)
    run_id = (await client.handle(thread_id).describe()).run_id
    fork = {"thread_id": thread_id, "run_id": run_id, "step": 1, "messages": 2}
    request = {"agent_id": "walker", "fork": fork}
    handle = await client.temporal.start_workflow(
        "AgentRun", request, id=f"{thread_id}-fork", task_queue=client.task_queue
    )
    result = await client.result(handle.id)
    assert "no step of the conversation ends after 2 messages any more" in result.status_reason
    described = await handle.describe()
    assert described.status is WorkflowExecutionStatus.FAILED


async def test_messages_that_the_loop_added_to_a_step_belong_to_it(temporal: TemporalClient, thread_id: str) -> None:
    """An answer that hit the token limit is continued, in the fork as in its origin."""
    async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
        client = Client(temporal, task_queue=thread_id)
        await client.run("clumsy", "what is two and two?", thread_id=thread_id)
        fork = await client.fork(thread_id, at=1)
        assert (await client.result(fork)).output == {"answer": 4}
        origin, forked = await client.transcript(thread_id), await client.transcript(fork)
        assert (texts(forked), forked[:3]) == (texts(origin), origin[:3])
        assert (forked[2].visibility, forked[3:] == origin[3:]) == (Visibility.INTERNAL, False)


async def test_the_example_in_the_docs_runs(temporal: TemporalClient, thread_id: str) -> None:
    section = (ROOT / "docs/forking.md").read_text().partition("## Fork\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    async with a_worker(temporal, thread_id, BUDGETS["usual"]) as client:
        await client.run("walker", "stroll", thread_id="trip-7")
        scope: dict[str, object] = {"client": client}
        code = compile(block, "docs/forking.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        await eval(code, scope)
        assert scope["answer"] == "hello, Take the train instead."


def tool_results_in(request: int) -> list[str]:
    """The tool results that a request to the model had."""
    return [message.text for message in MODEL.requests[request].messages if message.role is Role.TOOL]


async def observed(client: Client, thread_id: str) -> tuple[object, ...]:
    """Everything that can be observed of a thread that waits, down to the length of its history."""
    async with asyncio.timeout(BOUND_SECONDS):
        while await newest_task(client, thread_id) != EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            await asyncio.sleep(0.02)
    described = await client.handle(thread_id).describe()
    view = await client.status(thread_id)
    return described.run_id, described.history_length, view, await client.transcript(thread_id)


async def newest_task(client: Client, thread_id: str) -> int | None:
    """The newest workflow task of the newest execution."""
    history = await client.handle(thread_id).fetch_history()
    return next((event.event_type for event in reversed(history.events) if event.event_type in TASKS), None)


async def activities(client: Client, thread_id: str) -> list[str]:
    """The activities of a thread, in all its executions."""
    query = f"WorkflowId = '{thread_id}'"
    runs = sorted([run async for run in client.temporal.list_workflows(query)], key=lambda run: run.start_time)
    done = []
    for run in runs:
        async for event in client.handle(thread_id, run_id=run.run_id).fetch_history_events():
            if event.HasField("activity_task_scheduled_event_attributes"):
                done.append(event.activity_task_scheduled_event_attributes.activity_type.name)
    return done
