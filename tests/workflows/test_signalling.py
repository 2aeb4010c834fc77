"""Signals to other threads that fail for another reason than that the thread is closed."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    Interceptor,
    SignalExternalWorkflowInput,
    Worker,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from tests.support.waiting import BOUND_SECONDS
from wakeful.client.thread_reader import ThreadReader
from wakeful.contract import names
from wakeful.contract.mail import DeliverInput
from wakeful.contract.runs import RunIdentity
from wakeful.contract.subagents import ChildResult
from wakeful.contract.tasks import TaskStatus
from wakeful.loop.machine.commands import CancelChild
from wakeful.loop.machine.facts import Fact
from wakeful_activities import DeliverActivity
from wakeful_workflows import signalling
from wakeful_workflows.children import CANCEL_RETRY_SECONDS, Children
from wakeful_workflows.history_estimate import HistoryEstimate
from wakeful_workflows.signalling import notify_parent

QUEUE = "signalling"
LONG_OUTAGE = 40
"""Failed attempts: at intervals of 30 seconds, a quarter of an hour and more."""


class TooMany(Interceptor):
    """What the server does with a recipient that has had too many signals: as many as a workflow's memo says fail."""

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Outbound(outbound))


class _Outbound(WorkflowOutboundInterceptor):
    refused = 0

    async def signal_external_workflow(self, input: SignalExternalWorkflowInput) -> None:
        self.refused += 1
        if self.refused <= workflow.memo_value("refuses", 0):
            raise ApplicationError("too many signals", type="SignalCountLimitExceeded")
        await super().signal_external_workflow(input)


@workflow.defn(name=names.WORKFLOW, sandboxed=False)
class Other:
    """A thread, as far as it is reached; it ends with what it has received."""

    def __init__(self) -> None:
        self._received: list[Any] = []

    @workflow.run
    async def run(self) -> list[Any]:
        await workflow.wait_condition(lambda: bool(self._received))
        return self._received

    @workflow.signal
    def child_settled(self, result: Any) -> None:
        self._received.append(result["work_id"])

    @workflow.signal
    def cancel(self, request: Any) -> None:
        self._received.append(request["reason"])


@workflow.defn(name="Cancels", sandboxed=False)
class Cancels:
    @workflow.run
    async def run(self, thread_id: str) -> list[Any]:
        facts: list[Fact] = []
        children = Children(facts.append, HistoryEstimate())
        identity = RunIdentity(thread_id="t1", run_id="r1", agent_id="assistant")
        children.perform(CancelChild("bg_0", thread_id, "enough"), identity)
        await workflow.wait_condition(lambda: not children.is_busy)
        return [asdict(fact) for fact in facts]


@workflow.defn(name="NotifiesParent", sandboxed=False)
class NotifiesParent:
    @workflow.run
    async def run(self, thread_id: str) -> None:
        result = ChildResult(work_id="delegate-c1", thread_id="t2", status=TaskStatus.COMPLETED)
        await notify_parent(thread_id, result, wake=False)


@pytest.fixture(scope="module")
async def threads(temporal: Client) -> AsyncIterator[Client]:
    async with Worker(
        temporal,
        task_queue=QUEUE,
        workflows=[Other, Cancels, NotifiesParent],
        activities=[DeliverActivity(ThreadReader(temporal)).deliver_message],
        interceptors=[TooMany()],
    ):
        yield temporal


async def other(threads: Client, id: str) -> WorkflowHandle[Any, Any]:
    return await threads.start_workflow(names.WORKFLOW, id=id, task_queue=QUEUE)


async def received_by(thread: WorkflowHandle[Any, Any]) -> Any:
    async with asyncio.timeout(BOUND_SECONDS):
        return await thread.result()


async def does(threads: Client, what: str, to: str, *, refuses: int) -> Any:
    return await threads.execute_workflow(what, to, id=f"{to}-{what}", task_queue=QUEUE, memo={"refuses": refuses})


async def test_a_cancel_that_cannot_be_sent_is_sent_again_after_a_pause(threads: Client, thread_id: str) -> None:
    child = await other(threads, thread_id)
    assert await does(threads, "Cancels", thread_id, refuses=1) == []
    assert await received_by(child) == ["enough"]


async def test_a_child_that_cannot_be_reached_for_long_counts_as_closed(threads: Client, thread_id: str) -> None:
    child = await other(threads, thread_id)
    gone = {"id": "bg_0", "reason": "it cannot be reached: SignalCountLimitExceeded: too many signals"}
    assert await does(threads, "Cancels", thread_id, refuses=len(CANCEL_RETRY_SECONDS) + 1) == [gone]
    await child.terminate()


async def test_the_end_of_a_delegate_reaches_an_owner_that_could_not_be_signalled_at_once(
    threads: Client, thread_id: str
) -> None:
    owner = await other(threads, thread_id)
    await does(threads, "NotifiesParent", thread_id, refuses=1)
    assert await received_by(owner) == ["delegate-c1"]


async def test_the_end_of_a_delegate_is_delivered_however_long_its_parent_cannot_be_reached(
    threads: Client, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outage of hours, in milliseconds: the worker that delivers cannot reach the server."""
    quickly = replace(
        signalling.RETRY_FOREVER,
        initial_interval=timedelta(milliseconds=1),
        maximum_interval=timedelta(milliseconds=5),
    )
    monkeypatch.setattr(signalling, "RETRY_FOREVER", quickly)
    deliver = DeliverActivity(ThreadReader(threads))

    @activity.defn(name=names.ACTIVITY_DELIVER)
    async def unreachable(input: DeliverInput) -> None:
        if activity.info().attempt <= LONG_OUTAGE:
            raise ApplicationError("the server is unavailable", type=names.TRANSPORT_FAILED)
        await deliver.deliver_message(input)

    owner = await other(threads, thread_id)
    queue = f"{QUEUE}-outage"
    async with Worker(
        threads, task_queue=queue, workflows=[NotifiesParent], activities=[unreachable], interceptors=[TooMany()]
    ):
        await threads.execute_workflow(
            "NotifiesParent", thread_id, id=f"{thread_id}-child", task_queue=queue, memo={"refuses": 1}
        )
    assert await received_by(owner) == ["delegate-c1"]


async def test_the_end_of_a_delegate_is_not_delivered_to_a_parent_that_is_gone(threads: Client, thread_id: str) -> None:
    await does(threads, "NotifiesParent", thread_id, refuses=1)


async def test_the_end_of_a_delegate_does_not_wake_its_closed_parent(threads: Client, thread_id: str) -> None:
    owner = await other(threads, thread_id)
    await owner.signal("cancel", {"reason": "enough"})
    assert await received_by(owner) == ["enough"]
    await does(threads, "NotifiesParent", thread_id, refuses=1)
    assert (await threads.get_workflow_handle(thread_id).describe()).run_id == owner.result_run_id
