"""`client.ask`: the answer to one message, on a real server, whatever the thread does meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import assert_type

import pytest
from pydantic import BaseModel, JsonValue, TypeAdapter
from temporalio.client import Client as TemporalClient

from tests.support.waiting import until
from wakeful import (
    Agent,
    Answer,
    DecisionNeeded,
    HistoryBudget,
    MessageRefused,
    NotAnswered,
    OutputMismatch,
    PermissionPolicy,
    Plugin,
    Price,
    Registry,
    RunCancelled,
    RunEnd,
    RunFailed,
    RunStatus,
    RunStopped,
    ScriptedModel,
    call,
    say,
    tool,
)
from wakeful.client.client import Client
from wakeful.worker import WorkerSettings, running_worker

STARTED = asyncio.Event()
RELEASED = asyncio.Event()


class Ticket(BaseModel):
    title: str
    urgent: bool = False


@tool
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


@tool(idempotent=True)
async def work() -> str:
    """Work until the test releases it."""
    STARTED.set()
    await RELEASED.wait()
    return "worked"


class Audit(Plugin):
    """Its hook runs as a local activity, in the workflow task that ends the run."""

    id = "audit"

    async def run_end(self, ctx: RunEnd) -> None:
        await asyncio.sleep(0.05)  # so that the run ends at another time than its last workflow task starts
        ctx.emit("ended")


WHEN = {
    "pay": [call("pay", amount=3), say("{result}")],
    "work": [call("work"), say("{input} done")],
    "loop": [call("work")] * 3,
    "ticket": [say('{"title": "{input}", "urgent": true}')],
}
MODEL = ScriptedModel([say("heard {input}")], when=WHEN)
REGISTRY = Registry(
    agents=[
        Agent(id="a", tools=[work]),
        Agent(id="cashier", tools=[pay], permissions=PermissionPolicy()),
        Agent(id="clerk", output=Ticket),
        Agent(id="boss", delegates=["cashier"], model="boss"),
        Agent(id="short", tools=[work], max_rounds=1),
        Agent(id="audited", plugins=[Audit()]),
    ],
    models={
        "default": MODEL,
        "boss": ScriptedModel([call("agent_run_cashier", prompt="pay"), say("{result}")]),
    },
    prices={"default": Price(input=1_000_000, output=1_000_000)},
)


@pytest.fixture(params=["usual", pytest.param("restless", marks=pytest.mark.restless)])
async def client(request: pytest.FixtureRequest, temporal: TemporalClient, thread_id: str) -> AsyncIterator[Client]:
    STARTED.clear()
    RELEASED.clear()
    budget = HistoryBudget(events=1) if request.param == "restless" else HistoryBudget()
    patience = timedelta()
    settings = WorkerSettings(
        task_queue=thread_id, sweep_interval=None, history_budget=budget, new_run_patience=patience
    )
    async with running_worker(temporal, REGISTRY, settings), Client(temporal, task_queue=thread_id) as client:
        yield client


def asking(client: Client, thread_id: str, text: str, **more: str) -> "asyncio.Task[Answer[JsonValue]]":
    return asyncio.create_task(client.ask(thread_id, text, **more))  # type: ignore[call-overload]  # any of them


async def received(client: Client, thread_id: str, queued: int) -> None:
    await until(client, thread_id, lambda view: view.queued == queued)


async def test_the_answer_has_what_its_run_came_to_and_a_retry_sends_nothing(client: Client, thread_id: str) -> None:
    first = await client.ask(thread_id, "hello", agent_id="a", message_id="m1")
    assert (first.text, first.output, first.status_reason, first.steps) == ("heard hello", None, "natural", 1)
    assert (first.message_id, first.agent_id, first.thread_id) == ("m1", "a", thread_id)
    assert first.usage.total_tokens
    assert first.cost == first.usage.total_tokens

    second = await client.ask(thread_id, "again")
    assert (second.text, second.run_id) == ("heard again", f"{first.run_id}.2")
    retried = await client.ask(thread_id, "hello", message_id="m1")
    assert (retried.text, retried.run_id, retried.steps) == ("heard hello", first.run_id, 1)

    await client.close(thread_id)
    await client.result(thread_id)
    assert (await client.ask(thread_id, "hello", message_id="m1")).run_id == first.run_id
    assert (await client.ask(thread_id, "bye")).text == "heard bye"  # it wakes the thread
    said = [message.text for message in await client.transcript(thread_id) if message.role == "user"]
    assert said == ["hello", "again", "bye"]
    runs = await client.runs(thread_id)
    assert [(run.message_ids[0], run.steps, run.status) for run in runs][:2] == [
        ("m1", 1, RunStatus.DONE),
        (second.message_id, 1, RunStatus.DONE),
    ]
    assert [run.result.response for run in runs if run.result] == ["heard hello", "heard again", "heard bye"]
    assert await client.runs(thread_id, limit=1) == runs[-1:]


async def test_a_run_that_ends_with_a_hook_is_answered_although_its_thread_then_sleeps(
    client: Client, thread_id: str
) -> None:
    async with asyncio.timeout(60):
        assert (await client.ask(thread_id, "hello", agent_id="audited")).text == "heard hello"


async def test_each_message_gets_the_answer_of_the_run_that_read_it(client: Client, thread_id: str) -> None:
    busy = asking(client, thread_id, "work", agent_id="a")
    await STARTED.wait()
    queued = asking(client, thread_id, "later")
    steering = [asking(client, thread_id, text, on_busy="steer") for text in ("one", "two")]
    with pytest.raises(MessageRefused, match="the thread is busy, and on_busy is reject"):
        await client.ask(thread_id, "no", on_busy="reject")
    await received(client, thread_id, 3)
    RELEASED.set()
    worked, one, two, later = await asyncio.gather(busy, *steering, queued)
    assert worked.run_id == one.run_id == two.run_id != later.run_id
    assert (worked.text, worked.text, later.text) == (one.text, two.text, "heard later")
    assert (worked.steps, one.steps) == (two.steps, worked.steps)


async def test_what_ends_the_run_is_raised(client: Client, thread_id: str) -> None:
    interrupted = asking(client, thread_id, "work", agent_id="a")
    await STARTED.wait()
    assert (await client.ask(thread_id, "stop", on_busy="interrupt")).text == "heard stop"
    with pytest.raises(RunCancelled, match="the run was cancelled"):
        await interrupted

    with pytest.raises(RunFailed, match="nobody") as failed:
        await client.ask(thread_id, "hello", agent_id="nobody", message_id="m1")
    assert failed.value.message_id == "m1"
    assert failed.value.result is not None
    with pytest.raises(RunFailed, match="nobody"):
        await client.ask(thread_id, "hello", message_id="m1")

    RELEASED.set()
    with pytest.raises(RunStopped, match=r"max_rounds.*1 rounds of tool calls were made") as stopped:
        await client.ask(thread_id, "loop", agent_id="short")
    assert isinstance(stopped.value, NotAnswered)


async def test_a_message_that_is_withdrawn_has_no_answer(client: Client, thread_id: str) -> None:
    await client.send(thread_id, "work", agent_id="a")
    await STARTED.wait()
    withdrawn = asking(client, thread_id, "never mind", message_id="m1")
    await received(client, thread_id, 1)
    await client.withdraw(thread_id, ["m1"])
    with pytest.raises(NotAnswered, match="it was withdrawn"):
        await withdrawn
    late = asking(client, thread_id, "too late", message_id="m2")
    await received(client, thread_id, 1)
    await client.close(thread_id)
    with pytest.raises(NotAnswered, match="the thread ended before a run read it"):
        await late
    assert (await client.ask(thread_id, "too late", message_id="m2")).text == "heard too late"


async def test_a_message_that_is_undone_or_whose_thread_is_terminated_has_no_answer(
    client: Client, thread_id: str
) -> None:
    await client.ask(thread_id, "hello", agent_id="a")
    undone = asking(client, thread_id, "work")
    await STARTED.wait()
    await client.rewind(thread_id, to=1)
    with pytest.raises(NotAnswered, match="it was undone: the thread was rewound, or started over"):
        await undone
    STARTED.clear()
    ended = asking(client, thread_id, "work")
    await STARTED.wait()
    await client.handle(thread_id).terminate(reason="enough")
    with pytest.raises(NotAnswered, match="was terminated in Temporal: enough"):
        await ended


async def test_an_idle_thread_has_the_result_of_its_last_run_and_a_busy_one_will_have(
    client: Client, thread_id: str
) -> None:
    await client.send(thread_id, "hello", agent_id="a")
    assert (await client.result(thread_id)).response == "heard hello"
    await client.send(thread_id, "work")
    await STARTED.wait()
    await client.send(thread_id, "later")
    waiting = asyncio.create_task(client.result(thread_id))
    RELEASED.set()
    assert (await waiting).response == "heard later"
    [*_, worked, later] = await client.runs(thread_id)
    assert worked.result is not None
    assert (worked.result.response, later.result) == ("work done", await client.result(thread_id))


async def test_an_answer_that_needs_a_decision_says_so_or_waits(client: Client, thread_id: str) -> None:
    with pytest.raises(DecisionNeeded, match="on_decision='wait'") as needed:
        await client.ask(thread_id, "pay", agent_id="cashier", message_id="m1")
    [pending] = needed.value.pending
    assert (pending.thread_id, pending.tool_name, pending.arguments) == (thread_id, "pay", {"amount": 3})
    with pytest.raises(DecisionNeeded):  # it waits behind the run that waits
        await client.ask(thread_id, "hello", message_id="m2")
    waiting = asking(client, thread_id, "pay", message_id="m1", on_decision="wait")
    await client.decide(thread_id, pending.call_id, "resume")
    assert (await waiting).text == "paid 3"
    assert (await client.ask(thread_id, "hello", message_id="m2")).text == "heard hello"


async def test_a_decision_of_a_sub_agent_is_needed_too(client: Client, thread_id: str) -> None:
    with pytest.raises(DecisionNeeded) as needed:
        await client.ask(thread_id, "go", agent_id="boss", message_id="m1")
    [pending] = needed.value.pending
    assert (pending.path[0], pending.agent_id, pending.tool_name) == (thread_id, "cashier", "pay")
    await client.decide(pending.thread_id, pending.call_id, "resume", confirm=True)
    answer = await client.ask(thread_id, "go", message_id="m1")
    assert "paid 3" in answer.text
    assert answer.cost is not None
    assert answer.result.spent is not None
    assert answer.result.spent.turns == 4


async def test_the_output_is_of_the_type_that_was_asked_for(client: Client, thread_id: str) -> None:
    ticket = await client.ask(thread_id, "ticket", agent_id="clerk", output=Ticket)
    assert_type(ticket, Answer[Ticket])
    assert ticket.output == Ticket(title="ticket", urgent=True)
    plain = await client.ask(thread_id, "ticket")
    assert_type(plain, Answer[JsonValue])
    assert plain.output == {"title": "ticket", "urgent": True}
    either = await client.ask(thread_id, "ticket", output=TypeAdapter[Ticket | int](Ticket | int))
    assert_type(either, Answer[Ticket | int])
    with pytest.raises(OutputMismatch, match="title: Input should be a valid integer") as wrong:
        await client.ask(thread_id, "ticket", output=dict[str, int])
    assert wrong.value.result is not None
    assert wrong.value.result.output == plain.output
    with pytest.raises(OutputMismatch, match="Agent\\(output=…\\) of agent 'a' declares its type"):
        await client.ask(f"{thread_id}-2", "hello", agent_id="a", output=Ticket)
