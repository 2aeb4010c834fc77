"""Deliver mail and results to a thread, whether it is running, closed or new."""

import uuid
from dataclasses import replace
from typing import Any

import pytest
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecutionStatus
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from tests.support.waiting import until
from wakeful.client.client import Client
from wakeful.client.thread_reader import ThreadReader
from wakeful.contract import names
from wakeful.contract.mail import AgentMessage, DeliverInput, Sender
from wakeful.contract.runs import RunStatus, ThreadMode
from wakeful.contract.subagents import ChildResult
from wakeful.contract.tasks import TaskStatus
from wakeful_activities import DeliverActivity

DELIVERED = '<agent-message from="writer" thread_id="elsewhere">\nhello\n</agent-message>'


@pytest.fixture
def threads(usual_client: Client) -> Client:
    return usual_client


def message_to(thread_id: str, *, agent_id: str | None = None) -> DeliverInput:
    message = AgentMessage(
        message_id=f"msg_{uuid.uuid4().hex}",
        sender=Sender(agent_id="writer", thread_id="elsewhere"),
        content="hello",
        relation="agent",
        recipient_thread_id=thread_id,
    )
    return DeliverInput(
        thread_id=thread_id, signal=names.SIGNAL_DELIVER, payload=message.model_dump(mode="json"), agent_id=agent_id
    )


async def deliver(temporal: TemporalClient, input: DeliverInput) -> None:
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, task_queue=names.DEFAULT_TASK_QUEUE)
    await environment.run(DeliverActivity(ThreadReader(temporal)).deliver_message, input)


async def delivery_error(temporal: TemporalClient, input: DeliverInput) -> tuple[Any, ...]:
    with pytest.raises(ApplicationError) as failed:
        await deliver(temporal, input)
    return failed.value.type, failed.value.non_retryable


async def user_messages(threads: Client, thread_id: str) -> list[str]:
    return [message.text for message in await threads.transcript(thread_id) if message.role == "user"]


async def test_a_message_starts_a_new_thread(temporal: TemporalClient, threads: Client, thread_id: str) -> None:
    await deliver(temporal, message_to(thread_id, agent_id="tester"))
    await until(threads, thread_id, lambda view: view.runs == 1 and view.status is RunStatus.DONE)
    assert await user_messages(threads, thread_id) == [DELIVERED]


async def test_a_running_thread_is_signalled(temporal: TemporalClient, threads: Client, thread_id: str) -> None:
    await threads.start("tester", "hello", thread_id=thread_id, mode=ThreadMode.THREAD)
    await until(threads, thread_id, lambda view: view.status is RunStatus.DONE)
    before = (await threads.handle(thread_id).describe()).run_id
    await deliver(temporal, message_to(thread_id))
    await until(threads, thread_id, lambda view: view.runs == 2 and view.status is RunStatus.DONE)
    assert (await threads.handle(thread_id).describe()).run_id == before
    assert await user_messages(threads, thread_id) == ["hello", DELIVERED]


async def test_a_message_wakes_a_closed_thread_with_the_agent_it_had(
    temporal: TemporalClient, threads: Client, thread_id: str
) -> None:
    await threads.run("tester", "hello", thread_id=thread_id)
    await deliver(temporal, message_to(thread_id))
    view = await until(threads, thread_id, lambda view: view.runs == 2 and view.status is RunStatus.DONE)
    assert view.identity.agent_id == "tester"
    assert await user_messages(threads, thread_id) == ["hello", DELIVERED]


async def test_a_new_thread_without_an_agent_is_not_found(temporal: TemporalClient, thread_id: str) -> None:
    assert await delivery_error(temporal, message_to(thread_id)) == (names.RECIPIENT_NOT_FOUND, True)


async def test_a_workflow_that_is_not_a_thread_is_not_found_and_not_signalled(
    temporal: TemporalClient, thread_id: str
) -> None:
    await temporal.start_workflow("AnotherWorkflow", id=thread_id, task_queue="no-worker")
    assert await delivery_error(temporal, message_to(thread_id, agent_id="tester")) == (names.RECIPIENT_NOT_FOUND, True)
    history = await temporal.get_workflow_handle(thread_id).fetch_history()
    assert [event for event in history.events if event.HasField("workflow_execution_signaled_event_attributes")] == []
    await temporal.get_workflow_handle(thread_id).terminate()


async def test_the_result_of_a_task_wakes_no_thread_that_does_not_wait_for_it(
    temporal: TemporalClient, threads: Client, thread_id: str
) -> None:
    """Neither a thread that does not know the task, nor one that was terminated."""
    result = ChildResult(work_id="bg_1", thread_id=f"{thread_id}/task", status=TaskStatus.CANCELLED)
    settled = DeliverInput(
        thread_id=thread_id, signal=names.SIGNAL_CHILD_SETTLED, payload=result.model_dump(mode="json")
    )
    assert await delivery_error(temporal, settled) == (names.RECIPIENT_NOT_FOUND, True)
    await threads.run("tester", "hello", thread_id=thread_id)
    assert await delivery_error(temporal, settled) == (names.RECIPIENT_NOT_FOUND, True)
    await threads.send(thread_id, "hello again")
    await deliver(temporal, settled)
    await threads.handle(thread_id).terminate()
    assert await delivery_error(temporal, settled) == (names.RECIPIENT_NOT_FOUND, True)


async def test_a_message_that_must_not_wake_its_thread_is_delivered_only_to_a_running_one(
    temporal: TemporalClient, threads: Client, thread_id: str
) -> None:
    awake_only = message_to(thread_id, agent_id="tester").model_copy(update={"wake": False})
    assert await delivery_error(temporal, awake_only) == (names.RECIPIENT_NOT_FOUND, True)
    await threads.run("tester", "hello", thread_id=thread_id)
    assert await delivery_error(temporal, awake_only) == (names.RECIPIENT_NOT_FOUND, True)
    assert (await threads.handle(thread_id).describe()).status is WorkflowExecutionStatus.COMPLETED
    await threads.send(thread_id, "hello again")
    await until(threads, thread_id, lambda view: view.runs == 2 and view.status is RunStatus.DONE)
    await deliver(temporal, awake_only)
    await until(threads, thread_id, lambda view: view.runs == 3 and view.status is RunStatus.DONE)
    assert await user_messages(threads, thread_id) == ["hello", "hello again", DELIVERED]
