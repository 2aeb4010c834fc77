"""Threads that are rewound: what is undone, what is retained, and that they continue from there."""

import asyncio
import os
import random

import pytest
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecutionStatus

from tests.replay.test_replay import replayer
from tests.support.app import Failing, Recording, add
from tests.support.journal import Journal
from tests.support.waiting import BOUND_SECONDS, until, until_status
from wakeful import Agent, CallerError, ProviderErrorKind, Registry, RunStatus, ScriptedModel, call, say
from wakeful.client.branching.rewind import plan_rewind
from wakeful.client.branching.steps import steps_of
from wakeful.client.client import Client
from wakeful.contract.errors import DecisionRefused
from wakeful.contract.messages import Message
from wakeful.contract.runs import OnBusy, ThreadMode
from wakeful.worker import WorkerSettings, running_worker

ROUNDS = int(os.environ.get("WAKEFUL_REWINDS", "8"))
"""How many random rewinds a thread gets."""


@pytest.fixture
def client(either_client: Client) -> Client:
    return either_client


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


async def answered(client: Client, thread_id: str, text: str, **options: str) -> list[Message]:
    """Send a message, and wait until the thread is idle again."""
    before = len(await client.transcript(thread_id)) if "agent_id" not in options else 0
    await client.send(thread_id, text, **options)  # type: ignore[arg-type]  # agent_id alone
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            await until_status(client, thread_id, RunStatus.DONE)
            if len(messages := await client.transcript(thread_id)) > before + 1:
                return messages


async def numbers(client: Client, thread_id: str) -> list[int]:
    """The numbers of all events that the thread has."""
    found: list[int] = []
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            page = await client.events(thread_id, after=found[-1] if found else 0)
            found += [record.seq for record in page.events]
            if not page.more:
                return found


async def replays(client: Client, thread_id: str) -> None:
    await replayer().replay_workflow(await client.handle(thread_id).fetch_history())


async def close(client: Client, thread_id: str) -> None:
    await client.handle(thread_id).cancel()
    await client.result(thread_id)


async def test_a_run_that_has_ended_continues_from_a_step(client: Client, thread_id: str, journal: Journal) -> None:
    """The model is called again for the next step; earlier steps are not repeated."""
    result = await client.run("tester", "many", thread_id=thread_id)
    before = await client.transcript(thread_id)
    rewound = await client.rewind(thread_id, to=4, reason="the fifth was wrong")
    assert (rewound.thread_id, rewound.step, rewound.undone) == (thread_id, 4, 9)
    assert (rewound.cancelled, rewound.resent) == ((), 0)
    assert (await client.result(thread_id)).response == result.response
    after = await client.transcript(thread_id)
    assert after[:9] == before[:9]
    assert texts(after) == texts(before)
    assert len(journal.lines()) == 12 + 8
    await replays(client, thread_id)


async def test_the_reason_and_the_undone_execution_can_be_seen(client: Client, thread_id: str) -> None:
    await client.run("tester", "count", thread_id=thread_id)
    first = (await client.handle(thread_id).describe()).run_id
    rewound = await client.rewind(thread_id, to=2, reason="wrong turn")
    await client.result(thread_id)
    history = await client.handle(thread_id, run_id=rewound.run_id).fetch_history()
    failed = [event.workflow_task_failed_event_attributes for event in history.events]
    (reset,) = [attributes for attributes in failed if attributes.new_run_id]
    assert "wrong turn" in reset.failure.message
    assert (await client.handle(thread_id, run_id=first).describe()).run_id == first != rewound.run_id


async def test_an_active_run_is_rewound_and_its_tool_stopped(client: Client, thread_id: str, journal: Journal) -> None:
    await client.start("tester", "linger", thread_id=thread_id)
    waiting = asyncio.create_task(client.result(thread_id))
    await _until_noted(journal, "began")
    first = await client.handle(thread_id).describe()
    rewound = await client.rewind(thread_id, to=0)
    assert rewound.undone == 1
    await _until_noted(journal, "cancelled")
    await _until_noted(journal, "began", 2)
    await client.cancel(thread_id)
    assert (await waiting).status_reason == "cancelled"
    undone = await client.handle(thread_id, run_id=first.run_id).describe()
    assert undone.status in (WorkflowExecutionStatus.TERMINATED, WorkflowExecutionStatus.CONTINUED_AS_NEW)
    await replays(client, thread_id)


async def _until_noted(journal: Journal, what: str, times: int = 1) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        while sum(line["what"] == what for line in journal.lines()) < times:
            await asyncio.sleep(0.05)


async def test_a_rewind_to_before_an_approval_asks_for_it_again(
    client: Client, thread_id: str, journal: Journal
) -> None:
    """The call after the rewind has its own id and idempotency key; a decision on the undone call is refused."""
    await client.start("tester", "approve", thread_id=thread_id)
    (asked,) = (await until_status(client, thread_id, RunStatus.WAITING)).pending
    await client.rewind(thread_id, to=0)
    (again,) = (await until(client, thread_id, lambda view: bool(view.pending))).pending
    with pytest.raises(DecisionRefused):
        await client.decide(thread_id, asked.suspension.id, "resume", confirm=True)
    await client.decide(thread_id, again.suspension.id, "resume")
    assert (await client.result(thread_id)).response.startswith("approval gave")
    await client.rewind(thread_id, to=0)
    view = await until(client, thread_id, lambda view: bool(view.pending))
    assert (view.status, len(await client.transcript(thread_id))) == (RunStatus.WAITING, 2)
    await client.decide(thread_id, view.pending[0].suspension.id, "cancel")
    await client.result(thread_id)
    lines = journal.lines()
    assert [line["what"] for line in lines] == ["asked", "asked", "ran", "asked"]
    first, second, decided, third = [line["key"] for line in lines]
    assert second == decided
    assert len({first, second, third}) == 3
    assert len({pending.pending.id for pending in (asked, again, view.pending[0])}) == 3
    assert asked.suspension.action == "approve"


async def test_after_a_rewind_to_the_last_step_of_a_run_the_thread_is_idle(client: Client, thread_id: str) -> None:
    first = await answered(client, thread_id, "add", agent_id="tester")
    await answered(client, thread_id, "one")
    await answered(client, thread_id, "two")
    rewound = await client.rewind(thread_id, to=2)
    assert rewound.undone == 2
    view = await until_status(client, thread_id, RunStatus.DONE)
    assert (view.runs, view.doing) == (1, "idle, waiting for a message")
    assert await client.transcript(thread_id) == first
    assert texts(await answered(client, thread_id, "three")) == [*texts(first), "three", "hello, three"]
    assert await numbers(client, thread_id) == [*range(1, len(await numbers(client, thread_id)) + 1)]
    await close(client, thread_id)


async def test_a_thread_that_was_closed_and_woken_is_rewound_to_before_it_was_closed(
    client: Client, thread_id: str
) -> None:
    await client.run("tester", "count", thread_id=thread_id)
    before = await client.transcript(thread_id)
    await answered(client, thread_id, "one")
    await client.rewind(thread_id, to=11)
    assert (await client.result(thread_id)).response == "counted to 11"
    assert await client.transcript(thread_id) == before
    assert (await client.handle(thread_id).describe()).status is WorkflowExecutionStatus.COMPLETED
    assert texts(await answered(client, thread_id, "two"))[-2:] == ["two", "hello, two"]
    await client.rewind(thread_id, to=5)
    assert (await client.result(thread_id)).response == "counted to 11"
    assert texts(await client.transcript(thread_id)) == texts(before)


async def test_a_failed_run_is_retried_by_a_rewind(temporal: TemporalClient, thread_id: str) -> None:
    model = Failing(ProviderErrorKind.INVALID_REQUEST, failures=1)
    registry = Registry(agents=[Agent(id="unlucky")], models={"default": model})
    async with running_worker(temporal, registry, WorkerSettings(task_queue="unlucky")):
        client = Client(temporal, task_queue="unlucky")
        assert (await client.run("unlucky", "go", thread_id=thread_id)).status_reason.startswith("error:")
        await client.rewind(thread_id, to=0)
        assert (await client.result(thread_id)).response == "answered after 1 failures"


async def test_a_rewind_ignores_steps_that_were_rolled_back(client: Client, thread_id: str) -> None:
    await answered(client, thread_id, "add", agent_id="tester")
    await client.send(thread_id, "linger")
    await until(client, thread_id, lambda view: view.doing == "running linger")
    await client.send(thread_id, "one", on_busy=OnBusy.ROLLBACK)
    view = await until(client, thread_id, lambda view: view.runs == 3 and view.status is RunStatus.DONE)
    messages = await client.transcript(thread_id)
    assert texts(messages)[4:] == ["one", "hello, one"]
    await client.rewind(thread_id, to=1)
    await until(client, thread_id, lambda view: view.runs == 1 and view.status is RunStatus.DONE)
    assert texts(await client.transcript(thread_id)) == texts(messages)[:4]
    assert view.result is not None
    await close(client, thread_id)


async def test_a_fork_is_rewound_to_its_own_steps_only(client: Client, thread_id: str) -> None:
    """A rewind of its origin to before the fork point does not change it."""
    await client.run("tester", "count", thread_id=thread_id)
    fork = await client.fork(thread_id, at=6)
    await client.result(fork)
    before = texts(await client.transcript(fork))
    await client.rewind(thread_id, to=3)
    await client.result(thread_id)
    for to, undone in ((8, 3), (6, 5)):
        assert (await client.rewind(fork, to=to)).undone == undone
        await client.result(fork)
        assert texts(await client.transcript(fork)) == before
    with pytest.raises(CallerError, match=r"was forked after step 6: earlier steps are its origin's"):
        await client.rewind(fork, to=5)
    again = await client.fork(thread_id, at=4)
    assert (await client.result(again)).response == "counted to 11"


async def test_a_worker_does_not_use_what_it_cached_of_undone_steps(temporal: TemporalClient, thread_id: str) -> None:
    """The model is called with the retained messages, although their sources named others before."""
    model = Recording([call("add", a=1, b=1), call("add", a=2, b=2), say("done")])
    registry = Registry(agents=[Agent(id="adder", tools=[add])], models={"default": model})
    async with running_worker(temporal, registry, WorkerSettings(task_queue="adder")):
        client = Client(temporal, task_queue="adder")
        await client.run("adder", "go", thread_id=thread_id)
        model.script = ScriptedModel([call("add", a=1, b=1), call("add", a=7, b=7), say("done")])
        await client.rewind(thread_id, to=1)
        await client.result(thread_id)
    assert [message.text for message in model.requests[-1].messages] == ["go", "", "2", "", "14"]
    assert len(model.requests) == 3 + 2


async def test_a_rejected_rewind_says_what_to_do_instead(client: Client, thread_id: str) -> None:
    await client.run("tester", "add", thread_id=thread_id)
    with pytest.raises(CallerError, match=r"there is nothing after step 2 .* to undo: use `wakeful fork`"):
        await client.rewind(thread_id, to=2)
    with pytest.raises(CallerError, match=r"has no step 3: its newest is 2"):
        await client.rewind(thread_id, to=3)
    with pytest.raises(CallerError, match=r"has no step -1"):
        await client.rewind(thread_id, to=-1)
    with pytest.raises(CallerError, match=r"no thread 'unheard-of'"):
        await client.rewind("unheard-of", to=0)


@pytest.mark.faults
async def test_random_rewinds_retain_what_came_before_and_continue(client: Client, thread_id: str) -> None:
    """The transcript is always a prefix of what it was, and then what is new; an oracle knows every text of it."""
    chance = random.Random(20)
    answers = {"one": ["one", "hello, one"], "add": ["add", "", "5", "the sum is 5"]}
    await client.start("tester", "count", thread_id=thread_id, mode=ThreadMode.THREAD)
    await until_status(client, thread_id, RunStatus.DONE)
    for _ in range(3 if client.task_queue == "restless" else ROUNDS):
        before = await client.transcript(thread_id)
        steps = steps_of(before)
        to = chance.randrange(len(steps))
        plan = await plan_rewind(client.reader, thread_id, to=to)
        await client.rewind(thread_id, to=to)
        run_id = steps[max(0, to - 1)].run_id
        end = max(step.end for step in steps if step.run_id == run_id)
        await _until_messages(client, thread_id, end)
        after = await client.transcript(thread_id)
        assert after[: plan.reset_point.messages] == before[: plan.reset_point.messages]
        assert texts(after) == texts(before)[:end]
        for sent in chance.choices(sorted(answers), k=chance.randrange(1, 4)):
            after = await answered(client, thread_id, sent)
            assert texts(after)[-len(answers[sent]) :] == answers[sent]
    await replays(client, thread_id)
    assert await numbers(client, thread_id) == [*range(1, len(await numbers(client, thread_id)) + 1)]
    await close(client, thread_id)


async def _until_messages(client: Client, thread_id: str, count: int) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            await until_status(client, thread_id, RunStatus.DONE)
            if len(await client.transcript(thread_id)) == count:
                return
