"""Threads that stay: created, woken, restored, continued, and read from their first message to their last."""

import pytest
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecutionStatus

from tests.loop.conversation import conversation_of, entries_of
from tests.loop.provider_rules import check_every_provider
from tests.replay.record import histories_of
from tests.support.app import registry
from tests.support.waiting import until
from wakeful import CallerError, RunStatus
from wakeful.client.client import Client
from wakeful.contract import names
from wakeful.contract.agents import HistoryBudget, Resolution
from wakeful.contract.runs import ThreadMode
from wakeful.history.decoder import Payloads, moments_of
from wakeful.history.moments import ActivityCompleted
from wakeful.worker import WorkerSettings, running_worker


async def answered(client: Client, thread_id: str, runs: int) -> str:
    view = await until(client, thread_id, lambda view: view.status is RunStatus.DONE and view.runs == runs)
    assert view.result is not None
    return view.result.response


async def close(client: Client, thread_id: str) -> None:
    await client.handle(thread_id).cancel()
    await client.result(thread_id)


async def test_a_message_creates_a_thread_and_the_next_wakes_it(client: Client, thread_id: str) -> None:
    await client.send(thread_id, "one", agent_id="tester")
    assert await answered(client, thread_id, 1) == "hello, one"
    await client.send(thread_id, "add")
    assert await answered(client, thread_id, 2) == "the sum is 5"
    said = [message.text for message in await client.transcript(thread_id)]
    assert said == ["one", "hello, one", "add", "", "5", "the sum is 5"]
    await close(client, thread_id)


async def test_a_new_thread_needs_an_agent(client: Client) -> None:
    with pytest.raises(CallerError, match="thread 'unheard-of' is new: say which agent should answer"):
        await client.send("unheard-of", "hello")


async def test_the_same_message_twice_is_answered_once(client: Client, thread_id: str) -> None:
    for _ in range(3):
        await client.send(thread_id, "one", agent_id="tester", message_id="m1")
    await client.send(thread_id, "two", message_id="m2")
    await answered(client, thread_id, 2)
    assert [m.text for m in await client.transcript(thread_id)] == ["one", "hello, one", "two", "hello, two"]
    await close(client, thread_id)


async def test_messages_sent_at_once_are_answered_one_after_another(client: Client, thread_id: str) -> None:
    await client.start("tester", "first", thread_id=thread_id, mode=ThreadMode.THREAD)
    for number in range(5):
        await client.send(thread_id, f"message {number}")
    await answered(client, thread_id, 6)
    said = [message.text for message in await client.transcript(thread_id)]
    assert said[2:] == [text for n in range(5) for text in (f"message {n}", f"hello, message {n}")]
    await close(client, thread_id)


async def test_a_run_that_fails_leaves_its_thread_open(client: Client, thread_id: str) -> None:
    await client.send(thread_id, "hello", agent_id="unknown")
    view = await until(client, thread_id, lambda view: view.status is RunStatus.DONE)
    assert view.result is not None
    assert view.result.status_reason.startswith("error:agent not found: 'unknown'")
    await client.send(thread_id, "one", agent_id="tester")
    assert await answered(client, thread_id, 2) == "hello, one"
    await close(client, thread_id)


async def test_a_closed_thread_is_restored_by_a_message(client: Client, thread_id: str) -> None:
    await client.send(thread_id, "add", agent_id="tester")
    await answered(client, thread_id, 1)
    await close(client, thread_id)
    await client.send(thread_id, "two")
    assert await answered(client, thread_id, 2) == "hello, two"
    said = [message.text for message in await client.transcript(thread_id)]
    assert said == ["add", "", "5", "the sum is 5", "two", "hello, two"]
    await close(client, thread_id)


async def test_a_thread_that_was_terminated_in_the_middle_of_a_call_is_woken(client: Client, thread_id: str) -> None:
    """No provider accepts a call without a result."""
    await client.send(thread_id, "approve", agent_id="tester")
    await until(client, thread_id, lambda view: bool(view.pending))
    await client.handle(thread_id).terminate()
    await client.send(thread_id, "two")
    assert await answered(client, thread_id, 2) == "hello, two"
    messages = await client.transcript(thread_id)
    assert [message.text for message in messages] == [
        "approve",
        "",
        "[Tool execution was interrupted]",
        "two",
        "hello, two",
    ]
    check_every_provider(messages)
    await close(client, thread_id)


async def test_a_thread_that_is_cancelled_while_it_is_restored_loses_nothing(
    temporal: TemporalClient, thread_id: str
) -> None:
    settings = WorkerSettings(task_queue=thread_id)
    client = Client(temporal, task_queue=thread_id)
    async with running_worker(temporal, registry, settings):
        await client.send(thread_id, "one", agent_id="tester")
        await answered(client, thread_id, 1)
        await close(client, thread_id)
    await client.send(thread_id, "two", agent_id="tester")
    await client.handle(thread_id).cancel()
    async with running_worker(temporal, registry, settings):
        assert (await client.result(thread_id)).status_reason == "cancelled"
        said = [message.text for message in await client.transcript(thread_id)]
        assert said == ["one", "hello, one", "two"]


async def test_the_cancel_signal_ends_the_run_and_not_the_thread(client: Client, thread_id: str) -> None:
    await client.send(thread_id, "approve", agent_id="tester")
    await until(client, thread_id, lambda view: view.status is RunStatus.WAITING)
    await client.cancel(thread_id)
    view = await until(client, thread_id, lambda view: view.status is RunStatus.DONE)
    assert view.result is not None
    assert view.result.status_reason == "cancelled"
    assert (await client.handle(thread_id).describe()).status is WorkflowExecutionStatus.RUNNING
    await close(client, thread_id)


async def test_a_long_thread_continues_as_new_inside_its_budget(temporal: TemporalClient, thread_id: str) -> None:
    """Every execution of the chain stays within the budget, and the whole is read as one conversation."""
    settings = WorkerSettings(task_queue=thread_id, history_budget=HistoryBudget(events=60))
    async with running_worker(temporal, registry, settings):
        client = Client(temporal, task_queue=thread_id)
        for number in range(12):
            await client.send(thread_id, "add", agent_id="tester", message_id=f"m{number}")
            await answered(client, thread_id, number + 1)
        said = [message.text for message in await client.transcript(thread_id)]
        assert said == ["add", "", "5", "the sum is 5"] * 12
        records = []
        async for record in client.watch(thread_id):
            records.append(record)
            if record.event.event_type == "run_finish" and record.run_id.endswith(".12"):
                break
        assert [record.seq for record in records] == list(range(1, 1 + 14 * 12))
        watched = conversation_of([record.event for record in records])
        assert watched == entries_of(await client.transcript(thread_id))
        lengths = [
            execution.history_length async for execution in temporal.list_workflows(f"WorkflowId = '{thread_id}'")
        ]
        assert len(lengths) > 3
        assert max(length or 0 for length in lengths) < 60 + 30
        await close(client, thread_id)


async def test_messages_without_an_id_are_answered_in_every_execution_of_a_thread(
    client: Client, thread_id: str
) -> None:
    """A plain Temporal client gives its messages no id: none of them is a repeat of one of an earlier execution."""
    sent = ["zero"]
    await client.send(thread_id, "zero", agent_id="tester")
    await answered(client, thread_id, 1)
    for number in range(6):
        if number == 3:
            await close(client, thread_id)
            sent.append("awake")
            await client.send(thread_id, "awake")
            await answered(client, thread_id, len(sent))
        sent.append(f"message {number}")
        await client.submit(thread_id, sent[-1])
        await answered(client, thread_id, len(sent))
    said = [message.text for message in await client.transcript(thread_id) if message.role.value == "user"]
    assert said == sent
    assert (await client.status(thread_id)).refusals == ()
    await close(client, thread_id)


async def test_an_agent_that_has_not_changed_is_recorded_once(usual_client: Client, thread_id: str) -> None:
    """The next run's lookup names the agent by its digest."""
    client = usual_client
    await client.send(thread_id, "one", agent_id="tester")
    await answered(client, thread_id, 1)
    await client.send(thread_id, "add")
    assert await answered(client, thread_id, 2) == "the sum is 5"
    payloads = Payloads(client.temporal.data_converter)
    recorded = [
        await payloads.value(moment.result, Resolution)
        for history in await histories_of(client, thread_id)
        for moment in moments_of(history.events)
        if isinstance(moment, ActivityCompleted) and moment.activity_type == names.ACTIVITY_RESOLVE_AGENT
    ]
    assert [resolution.agent is not None for resolution in recorded] == [True, False]
    await close(client, thread_id)
