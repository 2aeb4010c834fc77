"""Messages after a close that no worker has handled, and confirmations while a worker has a workflow task."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import pytest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    PollWorkflowTaskQueueRequest,
    RespondWorkflowTaskFailedRequest,
)
from temporalio.client import Client as TemporalClient
from temporalio.client import ScheduleIntervalSpec, ScheduleSpec
from temporalio.worker import Worker

from tests.support.subagent_app import plan, send, written
from tests.support.waiting import BOUND_SECONDS, until
from wakeful import Agent, Changed, NoAnswer, Registry, RunStatus, ScriptedModel, say
from wakeful.client.changes import confirmed
from wakeful.client.client import Client
from wakeful.contract import names
from wakeful.contract.requests import WithdrawRequest
from wakeful.contract.runs import ThreadMode
from wakeful.worker import WorkerSettings, running_worker

REGISTRY = Registry(agents=[Agent(id="a")], models={"default": ScriptedModel([say("heard {input}")])})
DAILY = ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(days=1))])

Working = Callable[[], AbstractAsyncContextManager[Worker]]


@pytest.fixture
def working(temporal: TemporalClient, thread_id: str) -> Working:
    """Start a worker for the thread of a test."""
    return lambda: running_worker(temporal, REGISTRY, WorkerSettings(task_queue=thread_id, sweep_interval=None))


@pytest.fixture
async def client(temporal: TemporalClient, thread_id: str, working: Working) -> AsyncIterator[Client]:
    """Of an idle thread, whose worker is gone."""
    async with Client(temporal, task_queue=thread_id) as client:
        async with working():
            await client.ask(thread_id, "one", agent_id="a")
        yield client


async def send_message(client: Client, _sender: Client, thread_id: str) -> None:
    await client.send(thread_id, "two")


async def send_mail(_client: Client, sender: Client, thread_id: str) -> None:
    to_it = send({"relation": "agent", "thread_id": thread_id}, "two")
    await sender.run("node", written(plan([to_it])), thread_id=f"{thread_id}-sender")


async def send_by_schedule(_client: Client, sender: Client, thread_id: str) -> None:
    schedule = await sender.schedules.create("a", "two", spec=DAILY, schedule_id=f"s-{thread_id}", thread_id=thread_id)
    handle = sender.temporal.get_schedule_handle(schedule)
    await handle.trigger()
    async with asyncio.timeout(BOUND_SECONDS):
        while not (actions := (await handle.describe()).info.recent_actions):
            await asyncio.sleep(0.1)
        firing = actions[0].action
        await sender.temporal.get_workflow_handle(getattr(firing, "workflow_id", "")).result()
    await handle.delete()


@pytest.mark.parametrize("way", [send_message, send_mail, send_by_schedule])
async def test_a_thread_answers_what_comes_after_a_close_that_no_worker_has_handled(
    client: Client,
    usual_subagents: Client,
    thread_id: str,
    working: Working,
    way: Callable[[Client, Client, str], Awaitable[None]],
) -> None:
    await client.close(thread_id)
    await way(client, usual_subagents, thread_id)
    async with working():
        view = await until(client, thread_id, lambda view: view.status is RunStatus.DONE and view.runs == 2)
        transcript = await client.transcript(thread_id)
    assert (view.queued, "two" in transcript[2].text, transcript[3].text.startswith("heard ")) == (0, True, True)


async def test_ask_gets_its_answer_after_a_close_that_no_worker_has_handled(
    client: Client, thread_id: str, working: Working
) -> None:
    await client.close(thread_id)
    asking = asyncio.create_task(client.ask(thread_id, "two", message_id="m2"))
    await until_signalled(client, thread_id, times=2)
    async with working():
        assert (await asyncio.wait_for(asking, BOUND_SECONDS)).text == "heard two"


async def test_a_thread_in_run_mode_answers_a_message_after_its_cancel(
    temporal: TemporalClient, thread_id: str, working: Working
) -> None:
    async with Client(temporal, task_queue=thread_id) as client:
        await client.start("a", "one", thread_id=thread_id, mode=ThreadMode.RUN)
        await client.handle(thread_id).signal(names.SIGNAL_CANCEL)
        await client.handle(thread_id).signal(names.SIGNAL_SUBMIT, {"input": "two"})
        async with working():
            await until(client, thread_id, lambda view: view.status is RunStatus.DONE and view.runs == 2)
            assert (await client.transcript(thread_id))[-1].text == "heard two"


async def until_signalled(client: Client, thread_id: str, *, times: int) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            history = await client.handle(thread_id).fetch_history()
            signals = [
                event for event in history.events if event.HasField("workflow_execution_signaled_event_attributes")
            ]
            if len(signals) > times:  # the first message is one, too
                return
            await asyncio.sleep(0.05)


async def take_workflow_task(client: Client) -> bytes:
    """Poll as a worker does that dies with the task, and return the task's token."""
    queue = TaskQueue(name=client.task_queue)
    request = PollWorkflowTaskQueueRequest(namespace=client.temporal.namespace, task_queue=queue, identity="dead")
    return (await client.temporal.workflow_service.poll_workflow_task_queue(request)).task_token


async def test_a_confirmation_waits_for_signals_that_the_server_buffers(
    client: Client, thread_id: str, working: Working
) -> None:
    for id in ("begin", "withdrawn", "edited"):
        await client.send(thread_id, id, message_id=id)
    token = await take_workflow_task(client)
    confirmations = [
        asyncio.create_task(client.withdraw(thread_id, ["withdrawn"], confirm=True)),
        asyncio.create_task(client.edit(thread_id, "edited", "another text", confirm=True)),
        asyncio.create_task(client.send(thread_id, "new", message_id="new", confirm=True)),
    ]
    done, _ = await asyncio.wait(confirmations, timeout=1)
    assert [task.exception() for task in done] == [], "none has an outcome while a worker has the task"
    failed = RespondWorkflowTaskFailedRequest(namespace=client.temporal.namespace, task_token=token, identity="dead")
    await client.temporal.workflow_service.respond_workflow_task_failed(failed)
    async with working():
        withdrawn, edited, sent = await asyncio.wait_for(asyncio.gather(*confirmations), BOUND_SECONDS)
        await until(client, thread_id, lambda view: view.status is RunStatus.DONE and view.queued == 0)
        texts = [message.text for message in await client.transcript(thread_id)]
    assert (withdrawn, edited, sent) == (Changed(("withdrawn",), {}), Changed(("edited",), {}), "new")
    assert ("another text" in texts, "withdrawn" in texts, "new" in texts) == (True, False, True)


async def test_a_change_that_the_thread_does_not_know_has_no_definite_outcome(
    client: Client, thread_id: str, working: Working
) -> None:
    """A terminated execution had got the signal, and the one that woke the thread has not."""
    request = WithdrawRequest(message_ids=("m2",), request_id="r1")
    await client.send(thread_id, "two", message_id="m2")
    await client.handle(thread_id).signal(names.SIGNAL_WITHDRAW, request)
    await client.handle(thread_id).terminate("by an operator")
    async with working():
        await client.send(thread_id, "three")
        await until(client, thread_id, lambda view: view.status is RunStatus.DONE and view.runs == 2)
        with pytest.raises(NoAnswer, match=r"does not know what became of the change of 'm2' \(request id 'r1'\)"):
            await confirmed(client.reader, thread_id, request)
