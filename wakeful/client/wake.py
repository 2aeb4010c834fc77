"""Say something to a thread whether it is awake or not: one that sleeps is woken, and a new one is created."""

from collections.abc import Callable
from dataclasses import dataclass

from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.queries import PATIENCE, query
from wakeful.contract import names
from wakeful.contract.errors import CallerError, ThreadNotFound
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import ThreadMode
from wakeful.contract.views import StatusView
from wakeful.history.latest_execution import latest_started
from wakeful.rpc_errors import error_of

Described = WorkflowExecutionDescription


@dataclass(frozen=True)
class WakeSignal:
    """A signal for a thread, who is to answer it if nobody does yet, and how a thread is titled that it begins."""

    signal: str
    payload: object
    agent_id: str | None
    title: str


async def signal_or_wake(
    temporal: Client, thread_id: str, word: WakeSignal, *, queue_of: Callable[[Described | None], str]
) -> None:
    """Bring `word` to a thread, in whatever state it is.

    Args:
        queue_of: the task queue for a thread that is closed, or that is new; it raises if that may not be woken.

    Raises:
        CallerError: the thread is new and nobody is named to answer, or it is a fork that never began.
        ThreadNotFound: what has this id is no thread.
        NoAnswer: no worker told in time who answered on the closed thread.
    """
    described = await describe(temporal, thread_id)
    if described is not None and described.status is WorkflowExecutionStatus.RUNNING:
        if await _signalled(temporal, thread_id, word):
            return
        described = await describe(temporal, thread_id)  # it has just ended
    queue = queue_of(described)
    request = await _request(temporal, thread_id, described, word.agent_id)
    try:
        await temporal.start_workflow(
            names.WORKFLOW,
            request,
            id=thread_id,
            task_queue=queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            memo={names.MEMO_TITLE: word.title},
            static_summary=f"{request.agent_id}: {word.title}",
            start_signal=word.signal,
            start_signal_args=[word.payload],
        )
    except RPCError as error:
        raise error_of(error, thread_id) from error


async def describe(temporal: Client, thread_id: str) -> Described | None:
    """The newest execution of a thread, if there is any."""
    try:
        described = await temporal.get_workflow_handle(thread_id).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise error_of(error, thread_id) from error
        return None
    if described.workflow_type != names.WORKFLOW:
        raise ThreadNotFound(thread_id)
    return described


async def _signalled(temporal: Client, thread_id: str, word: WakeSignal) -> bool:
    try:
        await temporal.get_workflow_handle(thread_id).signal(word.signal, word.payload)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise error_of(error, thread_id) from error
        return False
    return True


async def _request(temporal: Client, thread_id: str, closed: Described | None, agent_id: str | None) -> RunRequest:
    """What a thread is started with that goes on from its closed execution, or that is new."""
    if closed is None:
        return _new(thread_id, agent_id)
    start = await latest_started(temporal, thread_id, closed.run_id)
    if not start.has_started:
        asked_for = start.request
        if asked_for is not None and (fork := asked_for.fork) is not None:
            raise CallerError(f"thread {thread_id!r} was closed before it began: fork thread {fork.thread_id!r} again")
        return _new(thread_id, agent_id or (asked_for.agent_id if asked_for else None))
    if agent_id is None:
        asked = query(temporal, thread_id, names.QUERY_STATUS, StatusView, run_id=start.run_id, within=PATIENCE)
        agent_id = (await asked).identity.agent_id
    return RunRequest(agent_id=agent_id, mode=ThreadMode.THREAD, restore_from=start.run_id)


def _new(thread_id: str, agent_id: str | None) -> RunRequest:
    """What a thread is started with that has not said anything yet, whatever was once tried with its id."""
    if agent_id is None:
        raise CallerError(f"thread {thread_id!r} is new: say which agent should answer")
    return RunRequest(agent_id=agent_id, mode=ThreadMode.THREAD)
