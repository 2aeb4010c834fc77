"""Threads that a client closes: the workflow completes, and the next message wakes the thread with its conversation."""

import pytest
from temporalio.client import WorkflowExecutionStatus

from tests.support.journal import Journal
from tests.support.subagent_app import holding, plan, spawn, written
from tests.support.subagents import ends_in_tree, until_closed
from tests.support.waiting import until, until_status
from wakeful import CallerError, RunStatus
from wakeful.client.client import Client
from wakeful.client.diagnosis.causes import Cause
from wakeful.contract.runs import ThreadMode


@pytest.fixture
def client(either_client: Client) -> Client:
    return either_client


async def texts(client: Client, thread_id: str) -> list[str]:
    return [message.text for message in await client.transcript(thread_id)]


async def close_status(client: Client, thread_id: str) -> WorkflowExecutionStatus | None:
    return (await client.handle(thread_id).describe()).status


async def wake(client: Client, thread_id: str, *, runs: int) -> None:
    """Send a message to a closed thread, and wait for its answer."""
    await client.send(thread_id, "again")
    await until(client, thread_id, lambda view: view.status is RunStatus.DONE and view.runs == runs)


async def test_an_idle_thread_completes_with_its_last_result_and_a_message_wakes_it(
    client: Client, thread_id: str
) -> None:
    await client.start("tester", "one", thread_id=thread_id, mode=ThreadMode.THREAD)
    idle = await until_status(client, thread_id, RunStatus.DONE)
    await client.close(thread_id)
    assert await client.result(thread_id) == idle.result
    assert await close_status(client, thread_id) is WorkflowExecutionStatus.COMPLETED
    assert idle.result is not None
    assert (idle.result.status_reason, idle.result.response) == ("natural", "hello, one")
    found = await client.why(thread_id)
    assert (found.cause, f"{client.temporal.identity} closed the thread." in found.why) == (Cause.ENDED, True)

    await wake(client, thread_id, runs=2)
    assert await texts(client, thread_id) == ["one", "hello, one", "again", "hello, again"]
    await client.close(thread_id)
    await client.result(thread_id)


async def test_a_running_thread_is_cancelled_then_completes_and_a_message_wakes_it(
    client: Client, thread_id: str, journal: Journal
) -> None:
    await client.start("tester", "linger", thread_id=thread_id, mode=ThreadMode.THREAD)
    await journal.until("linger", "began")
    await client.close(thread_id, reason="enough")
    result = await client.result(thread_id)
    assert (result.status_reason, result.detail) == ("cancelled", "enough")
    assert journal.said("linger") == ["began", "cancelled"]
    assert await close_status(client, thread_id) is WorkflowExecutionStatus.COMPLETED
    found = await client.why(thread_id)
    assert found.cause is Cause.CANCELLED
    assert found.why == f"Client {client.temporal.identity} closed the thread, with the reason 'enough'."

    before = await texts(client, thread_id)
    assert before[0] == "linger"
    await wake(client, thread_id, runs=2)
    assert await texts(client, thread_id) == [*before, "again", "hello, again"]
    await client.close(thread_id)
    await client.result(thread_id)


async def test_a_thread_is_closed_once(client: Client, thread_id: str) -> None:
    await client.start("tester", "one", thread_id=thread_id, mode=ThreadMode.THREAD)
    await client.close(thread_id)
    await client.result(thread_id)
    with pytest.raises(CallerError, match="has ended"):
        await client.close(thread_id)


async def test_the_tasks_of_a_closed_thread_are_cancelled_and_do_not_wake_it(
    either_subagents: Client, thread_id: str
) -> None:
    client = either_subagents
    plans = written(plan([spawn(plan([holding()]), name="slow")]))
    await client.start("node", plans, thread_id=thread_id, mode=ThreadMode.THREAD)
    await until(client, thread_id, lambda view: view.doing == "waiting for slow")
    await client.close(thread_id)
    assert (await client.result(thread_id)).status_reason == "cancelled"
    await until_closed(client, thread_id)
    assert set((await ends_in_tree(client, thread_id)).values()) == {"cancelled"}
    assert await close_status(client, thread_id) is WorkflowExecutionStatus.COMPLETED
