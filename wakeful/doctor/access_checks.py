"""What this client may do, and whether its clock agrees with the server's."""

import asyncio
import contextlib
import os
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    CountWorkflowExecutionsRequest,
    DescribeNamespaceRequest,
    DescribeTaskQueueRequest,
    PollActivityTaskQueueRequest,
    SignalWorkflowExecutionRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.diagnosis.wording import duration
from wakeful.doctor.report import SetupCheck, SetupProblem, error, skipped, warning
from wakeful.doctor.server_checks import RPC_TIMEOUT

MAX_SKEW_SECONDS = 5.0
"""Readers compare Temporal's times with this machine's: a skew of more than that misleads them."""

DOCTOR = "wakeful-doctor"
"""The task queue and the workflow id that only the doctor uses, and never fills."""

_DENIED = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED)


async def check_permissions(client: Client) -> SetupCheck:
    """Whether this client may read and write. The write is a signal to a workflow that does not exist."""
    calls = _calls(client)
    answers = await asyncio.gather(*(call for call, _ in calls.values()), return_exceptions=True)
    problems = [
        _denied(client, api, needed_for, answer)
        for (api, (_, needed_for)), answer in zip(calls.items(), answers, strict=True)
        if isinstance(answer, RPCError) and answer.status in _DENIED
    ]
    return SetupCheck(name="permissions", summary="reads and writes", problems=tuple(problems))


def _denied(client: Client, api: str, needed_for: str, failure: RPCError) -> SetupProblem:
    if failure.status is RPCStatusCode.UNAUTHENTICATED:
        next = "Check the API key or the certificate of this client (TEMPORAL_API_KEY, TEMPORAL_TLS_…)."
    else:
        role = "write" if api.startswith("Signal") else "read"
        next = f"Give the key or the role of this client {role} access to namespace {client.namespace!r}."
    what = f"This client may not call {api} in namespace {client.namespace!r}, which {needed_for} ({failure.message})."
    is_optional = api in ("DescribeNamespace", "ListSearchAttributes")
    return (warning if is_optional else error)(what, next, api)


def _calls(client: Client) -> Mapping[str, tuple[Awaitable[object], str]]:
    service, namespace = client.workflow_service, client.namespace
    queue = TaskQueue(name=DOCTOR)
    signal = SignalWorkflowExecutionRequest(
        namespace=namespace,
        workflow_execution=WorkflowExecution(workflow_id=f"{DOCTOR}-{uuid.uuid4().hex}"),
        signal_name="ping",
        identity=client.identity,
    )
    return {
        "DescribeNamespace": (
            service.describe_namespace(DescribeNamespaceRequest(namespace=namespace), timeout=RPC_TIMEOUT),
            "workers need to warn of a short retention",
        ),
        "ListSearchAttributes": (
            client.operator_service.list_search_attributes(
                ListSearchAttributesRequest(namespace=namespace), timeout=RPC_TIMEOUT
            ),
            "workers need to know which search attributes their runs may set",
        ),
        "CountWorkflowExecutions": (
            service.count_workflow_executions(CountWorkflowExecutionsRequest(namespace=namespace), timeout=RPC_TIMEOUT),
            "lists, the inbox and the sweep need",
        ),
        "DescribeTaskQueue": (
            service.describe_task_queue(
                DescribeTaskQueueRequest(namespace=namespace, task_queue=queue), timeout=RPC_TIMEOUT
            ),
            "`wakeful why` and the sweep need",
        ),
        "SignalWorkflowExecution": (
            service.signal_workflow_execution(signal, timeout=RPC_TIMEOUT),
            "messages and decisions need",
        ),
    }


async def check_clock(client: Client, now: Callable[[], float] = time.time) -> SetupCheck:
    """Whether this machine's clock shows the server's time.

    No call returns the server's time. But it lists when a worker last polled a task queue, so the doctor polls one of
    its own for a moment.
    """
    name = "clock"
    try:
        skew = await _skew(client, now)
    except (RPCError, TimeoutError) as failure:
        return skipped(name, f"the server's time could not be read: {failure or 'no answer'}")
    if abs(skew) <= MAX_SKEW_SECONDS:
        return SetupCheck(name=name, summary="agrees with the server's")
    relation = "behind" if skew > 0 else "ahead of"
    problem = error(
        f"The clock of this machine is {duration(abs(skew))} {relation} Temporal's, so that ages, deadlines and the "
        "commands that read threads are wrong by that much.",
        "Synchronise it: `timedatectl set-ntp true`, or chrony; check the server's clock, too.",
    )
    return SetupCheck(name=name, problems=(problem,))


async def _skew(client: Client, now: Callable[[], float]) -> float:
    """By how many seconds the server's clock is ahead, at least."""
    identity, queue = f"{DOCTOR}-{os.getpid()}-{uuid.uuid4().hex[:8]}", TaskQueue(name=DOCTOR)
    poll = PollActivityTaskQueueRequest(namespace=client.namespace, task_queue=queue, identity=identity)
    describe = DescribeTaskQueueRequest(
        namespace=client.namespace, task_queue=queue, task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
    )
    before = now()
    polling = asyncio.ensure_future(client.workflow_service.poll_activity_task_queue(poll, timeout=RPC_TIMEOUT))
    try:
        async with asyncio.timeout(RPC_TIMEOUT.total_seconds()):
            while True:
                if polling.done():
                    await polling  # it was refused
                answer = await client.workflow_service.describe_task_queue(describe, timeout=RPC_TIMEOUT)
                after = now()
                for poller in answer.pollers:
                    if poller.identity == identity:
                        at = poller.last_access_time.ToMicroseconds() / 1e6
                        return at - after if at > after else min(0.0, at - before)
                await asyncio.sleep(0.01)
    finally:
        polling.cancel()
        with contextlib.suppress(asyncio.CancelledError, RPCError):
            await polling
