"""Signal a thread in any state: an open one gets the signal, a closed one is woken by it, and a new one starts with it.

A message (`client.send`), mail from another agent or the result of a background task wakes a closed thread; the last
two come from the `deliver_message` activity, the sweep or a rewind. A thread keeps what reaches it after its close, but
before its workflow has closed, and its last archive wakes it (`wake`). Waking starts another execution, which restores
the conversation of the latest one that started (`restore_from`).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.common import Priority, SearchAttributeKey, WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.queries import QUERY_TIMEOUT
from wakeful.client.thread_reader import ThreadReader
from wakeful.contract import names
from wakeful.contract.errors import CallerError, OtherTenant, ThreadExpired, ThreadNotFound
from wakeful.contract.requests import RunRequest, Submission
from wakeful.contract.runs import ThreadMode, priority_of
from wakeful.contract.views import StatusView
from wakeful.history.archive import last_archive
from wakeful.history.close_states import has_ended, read_result
from wakeful.history.latest_execution import latest_started
from wakeful.loop.thread.continue_as_new import unpack
from wakeful.rpc_errors import describe_execution, error_of
from wakeful.undecodable import check_codec, check_decodable

Described = WorkflowExecutionDescription

_TENANT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_TENANT)

CLOSED_WITHIN_SECONDS = 30.0
"""How long a client waits for a thread that is closing: a tool may notice its cancellation late."""

WAKEABLE_WITHIN_SECONDS = 10.0
"""The same of an attempt to wake a thread for messages that came after its close."""

FIRST_PAUSE_SECONDS = 0.05
MAX_PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class WakeSignal:
    """A signal, and what is needed to start an execution with it: the agent (None for the last one), and a title."""

    signal: str
    payload: object
    agent_id: str | None
    title: str
    tenant: str | None = None
    """The tenant of the sender, to which a new thread will belong; None counts as that of the thread."""


_LATE = WakeSignal("", None, None, "messages came after the close")
"""Without a signal: the thread has the messages."""


async def signal_or_wake(
    reader: ThreadReader, thread_id: str, signal: WakeSignal, *, queue_of: Callable[[Described | None], str]
) -> None:
    """Deliver a signal to a thread, whatever its state.

    Args:
        queue_of: the task queue for a thread that is closed (its newest execution) or new (None); it raises if the
            thread must not be woken.

    Raises:
        CallerError: the thread is new and the signal names no agent, or is a fork or a sub-agent that never started.
        OtherTenant: the thread belongs to another tenant. An open one whose search attributes do not show it refuses
            the message itself.
        ThreadExpired: the thread was closed, and the server has deleted it.
        ThreadNotFound: the workflow with this id is not a thread.
        NoAnswer: the closed thread does not replay here, and no worker answered in time which agent it had.
        CannotDecode: the thread's payloads need another codec, or another key.
    """
    temporal = reader.temporal
    described = await _after_closing(temporal, thread_id)
    if described is not None:
        await check_codec(temporal.data_converter, described)
    if described is not None and described.status is WorkflowExecutionStatus.RUNNING:
        check_tenant(described, signal.tenant)
        if await _signal(temporal, thread_id, signal) and not await _came_too_late(temporal, described, signal):
            return
        # It closed in between. If it got the signal, that is a repeat in the execution that wakes the thread.
        described = await describe(temporal, thread_id)
    queue = queue_of(described)
    request = await _start_request(reader, thread_id, described, signal)
    await _start(temporal, thread_id, described, request, queue, signal)


async def wake(reader: ThreadReader, thread_id: str, *, closed_run_id: str) -> bool:
    """Wake a thread for messages that came after its close; False while this execution is still closing.

    Nothing is done for a thread that has been woken since, or that was terminated or deleted.

    Raises:
        CallerError: the thread cannot be woken.
        NoAnswer: it does not replay here, and no worker answered in time which agent it had.
    """
    described = await _after_closing(reader.temporal, thread_id, within=WAKEABLE_WITHIN_SECONDS)
    if described is None or described.run_id != closed_run_id:
        return True
    if described.status is WorkflowExecutionStatus.RUNNING:
        return False
    if has_ended(described):
        request = await _start_request(reader, thread_id, described, _LATE)
        await _start(reader.temporal, thread_id, described, request, described.task_queue, _LATE)
    return True


async def _start(
    temporal: Client, thread_id: str, closed: Described | None, request: RunRequest, queue: str, signal: WakeSignal
) -> None:
    """Start the execution that wakes a thread, or a new one, with the signal if there is one."""
    try:
        await temporal.start_workflow(
            names.WORKFLOW,
            request,
            id=thread_id,
            task_queue=queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            memo=_memo(signal.title, closed),
            priority=_priority(request, closed),
            static_summary=f"{request.agent_id}: {signal.title}",
            start_signal=signal.signal or None,
            start_signal_args=[signal.payload] if signal.signal else [],
        )
    except RPCError as error:
        raise error_of(error, thread_id) from error


def check_tenant(described: Described | None, tenant: str | None, *, sent: str = "message") -> None:
    """Raise `OtherTenant` if search attributes show that a thread belongs to another tenant than the sender.

    A thread without them, or that has no tenant, refuses what is sent itself.
    """
    if described is None or tenant is None:
        return
    if described.typed_search_attributes.get(_TENANT, tenant) != tenant:
        raise OtherTenant(described.id, tenant, sent=sent)


def temporal_priority(request: RunRequest) -> Priority:
    """With which priority Temporal is to start a thread."""
    return Priority(**priority_of(request.priority, request.tenant).model_dump())


def _priority(request: RunRequest, closed: Described | None) -> Priority:
    """That of the thread's closed execution, or of a new thread."""
    if closed is None:
        return temporal_priority(request)
    given = closed.raw_description.workflow_execution_info.priority
    return Priority(given.priority_key or None, given.fairness_key or None, given.fairness_weight or None)


def _memo(title: str, closed: Described | None) -> dict[str, str]:
    woken_from = {} if closed is None else {names.MEMO_WOKEN_FROM: closed.run_id}
    return {names.MEMO_TITLE: title} | woken_from


async def _after_closing(
    temporal: Client, thread_id: str, *, within: float = CLOSED_WITHIN_SECONDS
) -> Described | None:
    """The newest execution of a thread; if it is closing, wait until it is closed.

    A thread that takes longer gets the signal nevertheless: it keeps a message for the execution that wakes it.
    """
    described, pause, waited = await describe(temporal, thread_id), FIRST_PAUSE_SECONDS, 0.0
    while described is not None and is_closing(described) and waited < within:
        await asyncio.sleep(pause)
        waited, pause = waited + pause, min(2 * pause, MAX_PAUSE_SECONDS)
        described = await describe(temporal, thread_id)
    return described


async def _came_too_late(temporal: Client, signalled: Described, signal: WakeSignal) -> bool:
    """Whether a message reached an execution that was closing, and that has closed without reading it."""
    if not isinstance(signal.payload, Submission):
        return False
    described = await _after_closing(temporal, signalled.id)
    if described is None or not has_ended(described) or described.run_id != signalled.run_id:
        return False
    result = await read_result(temporal, described)
    if result is None or (result.cut and not result.unread):  # to be sent again is safe: the message has an id
        return True
    return any(message.id in result.unread for message in signal.payload.messages)


def is_closing(described: Described) -> bool:
    """Whether an open execution does nothing more than to close, or will as soon as a worker handles its cancel."""
    raw = described.raw_description
    is_marked = names.MEMO_CLOSING in raw.workflow_execution_info.memo.fields
    return (
        is_marked or raw.workflow_extended_info.cancel_requested
    ) and described.status is WorkflowExecutionStatus.RUNNING


async def describe(temporal: Client, thread_id: str) -> Described | None:
    """The newest execution of a thread; None if there is none.

    Raises:
        ThreadNotFound: the workflow with this id is not a thread.
        CannotDecode: it needs a payload codec, and this client has none.
    """
    try:
        described = await describe_execution(temporal, thread_id)
    except RPCError as error:
        raise error_of(error, thread_id) from error
    if described is not None and described.workflow_type != names.WORKFLOW:
        raise ThreadNotFound(thread_id)
    if described is not None:
        check_decodable(temporal.data_converter, described)
    return described


async def _signal(temporal: Client, thread_id: str, signal: WakeSignal) -> bool:
    """Whether the thread was still open for the signal."""
    try:
        await temporal.get_workflow_handle(thread_id).signal(signal.signal, signal.payload)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise error_of(error, thread_id) from error
        return False
    return True


async def _start_request(
    reader: ThreadReader, thread_id: str, closed: Described | None, signal: WakeSignal
) -> RunRequest:
    """The request that starts a new thread, or restores a closed one from the newest execution that a worker ran."""
    agent_id = signal.agent_id
    if closed is None:
        if await last_archive(reader.temporal, thread_id) is not None:
            raise ThreadExpired(thread_id)
        return _new_thread(thread_id, agent_id, signal.tenant)
    start = await latest_started(reader.temporal, thread_id, closed.run_id)
    if signal.tenant is not None and signal.tenant != start.tenant and not start.is_of_any_tenant:
        raise OtherTenant(thread_id, signal.tenant)  # it would wake the thread, only to be refused
    # Each request has it, so that no wake depends on what the restore finds.
    tenant = start.tenant
    if not start.has_started and start.snapshot is not None:
        # The server has deleted the execution that it continues; its own input has everything.
        agent_id = agent_id or unpack(start.snapshot).thread.identity.agent_id
    elif not start.has_started:
        request = start.request
        if request is not None and (fork := request.fork) is not None:
            raise CallerError(
                f"thread {thread_id!r} was closed before it started: fork thread {fork.thread_id!r} again"
            )
        if request is not None and request.subagent is not None:
            # A new thread would have none of the rules that it was to inherit.
            raise CallerError(
                f"thread {thread_id!r} is a sub-agent's that was closed before it started: write to thread "
                f"{request.subagent.path[-1]!r}, which can start another"
            )
        agent_id = agent_id or (request.agent_id if request else None)
        if start.predecessor is not None and agent_id is not None:
            # The server has deleted it; the thread is restored from what it archived.
            restored = start.predecessor.run_id
            return RunRequest(agent_id=agent_id, mode=ThreadMode.THREAD, restore_from=restored, tenant=tenant)
        return _new_thread(thread_id, agent_id, tenant)
    elif agent_id is None:
        name, run_id = names.QUERY_STATUS, start.run_id
        status = await reader.query(thread_id, name, StatusView, run_id=run_id, within=QUERY_TIMEOUT)
        agent_id = status.identity.agent_id
    if start.run_id != closed.run_id:
        # The server may delete it before the thread is restored; a snapshot that it left behind stays for longer.
        start = await latest_started(reader.temporal, thread_id, closed.run_id, or_snapshot=True)
    return RunRequest(agent_id=agent_id, mode=ThreadMode.THREAD, restore_from=start.run_id, tenant=tenant)


def _new_thread(thread_id: str, agent_id: str | None, tenant: str | None) -> RunRequest:
    """The request for a thread without a conversation; executions that never started do not count."""
    if agent_id is None:
        raise CallerError(f"thread {thread_id!r} is new: say which agent should answer (agent_id, or --agent)")
    return RunRequest(agent_id=agent_id, mode=ThreadMode.THREAD, tenant=tenant)
