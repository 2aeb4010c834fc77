"""Cancel every active run and background tool that a list query finds, such as those of an agent, a tenant or a user.

Sub-agents and tools that are found are cancelled beside their parents: a thread's cancel leaves the tasks of its
earlier runs. The end of a task starts a run of its idle thread, unless the thread itself was cancelled: so an idle
thread that is found with its task is cancelled first. What is found are runs as Temporal's visibility lists them, a
moment after they change.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from temporalio.api.common.v1 import WorkflowExecution as ExecutionProto
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecution
from temporalio.common import SearchAttributeKey
from temporalio.converter import decode_typed_search_attributes
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.cancel import cancel_run
from wakeful.client.client import Client
from wakeful.contract import names
from wakeful.contract.errors import CallerError, WakefulError
from wakeful.contract.runs import RunStatus
from wakeful.history.list_queries import any_of, quoted
from wakeful.rpc_errors import error_of

MAX_CONCURRENT_CALLS = 16
FIRST_PAUSE_SECONDS = 0.1
MAX_PAUSE_SECONDS = 2.0

_OPEN = f"WorkflowType IN ('{names.WORKFLOW}', '{names.WORKFLOW_TOOL_TASK}') AND ExecutionStatus = 'Running'"
_AGENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT)
_STATUS = SearchAttributeKey.for_keyword(names.ATTRIBUTE_STATUS)

Progress = Callable[[int], None]
"""Called with the number of runs that are done."""


@dataclass(frozen=True)
class ActiveRun:
    """A run that a query has found, or a background tool."""

    thread_id: str
    agent_id: str = ""
    """Of a tool, the agent that has called it."""
    is_tool: bool = False
    idle_owner: str | None = None
    """The thread that has started it and is idle, if the query finds that, too."""


@dataclass
class CancelledMany:
    """What became of the runs."""

    requested: list[str] = field(default_factory=list)
    """Threads whose cancellation was requested; Temporal accepts that also for a workflow that has just closed."""
    ended: list[str] = field(default_factory=list)
    """Threads that refuse it, because their run has ended meanwhile."""
    failed: dict[str, str] = field(default_factory=dict)
    """Threads whose run could not be cancelled, and why."""
    undecoded: list[str] = field(default_factory=list)
    """Those of `requested` that Temporal's own cancel also closes, because their mode cannot be decoded here."""


def filter_of(
    *, query: str | None = None, agent_id: str | None = None, tenant: str | None = None, user: str | None = None
) -> str:
    """The list filter for all of these conditions that are given."""
    conditions = [
        *([f"({query})"] if query is not None else []),
        *([f"{names.ATTRIBUTE_AGENT} = {quoted(agent_id)}"] if agent_id is not None else []),
        *([f"{names.ATTRIBUTE_TENANT} = {quoted(tenant)}"] if tenant is not None else []),
        *([f"{names.ATTRIBUTE_USER} = {quoted(user)}"] if user is not None else []),
    ]
    return " AND ".join(conditions)


async def select_runs(temporal: TemporalClient, query: str) -> list[ActiveRun]:
    """The active runs and background tools that a list filter finds, oldest first.

    Raises:
        CallerError: Temporal does not understand the filter.
    """
    found = await _list(temporal, f"{_OPEN} AND ({query})")
    idle = {each.id for each in found if not _is_active(each)}
    return [
        ActiveRun(
            each.id,
            each.typed_search_attributes.get(_AGENT) or "",
            is_tool=each.workflow_type == names.WORKFLOW_TOOL_TASK,
            idle_owner=each.parent_id if each.parent_id in idle else None,
        )
        for each in sorted(found, key=lambda each: each.start_time)
        if _is_active(each)
    ]


async def cancel_many(
    client: Client, runs: Sequence[ActiveRun], *, reason: str | None = None, on_progress: Progress = lambda _: None
) -> CancelledMany:
    """Request the cancellation of all these runs. One that fails does not stop the others."""
    outcome, slots = CancelledMany(), asyncio.Semaphore(MAX_CONCURRENT_CALLS)

    async def cancel_idle(thread_id: str) -> None:
        async with slots:
            # Without the reason, which its tasks get: this client may have no codec. If it fails, a run starts.
            with contextlib.suppress(RPCError):
                await client.temporal.get_workflow_handle(thread_id).signal(names.SIGNAL_CANCEL)

    async def cancel(thread_id: str) -> None:
        async with slots:
            try:
                if not await cancel_run(client.temporal, thread_id, reason=reason):
                    outcome.undecoded.append(thread_id)
                outcome.requested.append(thread_id)
            except CallerError:  # the run has ended, or was deleted
                outcome.ended.append(thread_id)
            except WakefulError as error:
                outcome.failed[thread_id] = str(error)
        on_progress(len(outcome.requested) + len(outcome.ended) + len(outcome.failed))

    await asyncio.gather(*map(cancel_idle, {run.idle_owner for run in runs if run.idle_owner is not None}))
    await asyncio.gather(*(cancel(run.thread_id) for run in runs))
    return outcome


async def wait_until_ended(temporal: TemporalClient, threads: Sequence[str], *, on_progress: Progress) -> list[str]:
    """Wait until the cancelled runs of all these threads have ended, by lists of those that are still active.

    Returns:
        The threads that are active again: a message was queued, and has started the next run.
    """
    active, next_runs, pause = list(threads), list[str](), FIRST_PAUSE_SECONDS
    slots = asyncio.Semaphore(MAX_CONCURRENT_CALLS)

    async def has_next_run(execution: WorkflowExecution) -> bool:
        async with slots:
            return await _has_next_run(temporal, execution)

    while active:
        await asyncio.sleep(pause)
        pause = min(2 * pause, MAX_PAUSE_SECONDS)
        listed = [
            each
            for condition in any_of("WorkflowId", active)
            for each in await _list(temporal, f"{_OPEN} AND {condition}")
            if _is_active(each)
        ]
        have_next = await asyncio.gather(*map(has_next_run, listed))
        next_runs += [each.id for each, has_next in zip(listed, have_next, strict=True) if has_next]
        active = [each.id for each, has_next in zip(listed, have_next, strict=True) if not has_next]
        on_progress(len(threads) - len(active))
    return next_runs


async def _has_next_run(temporal: TemporalClient, execution: WorkflowExecution) -> bool:
    """Whether the run of an active thread started after its cancel: then the status was `done` since, or just before.

    If it is `done` now, no run has started: visibility shows the end a moment later. Search attributes are never
    encoded, so no codec is needed.
    """
    is_before_cancel, is_newest = False, True
    async for event in _newest_first(temporal, execution):
        upserted = event.upsert_workflow_search_attributes_event_attributes.search_attributes
        status = decode_typed_search_attributes(upserted).get(_STATUS)
        if status == RunStatus.DONE.value:
            return not is_newest
        if status is not None and is_before_cancel:
            return False
        is_newest &= status is None
        is_before_cancel |= event.workflow_execution_signaled_event_attributes.signal_name == names.SIGNAL_CANCEL
        is_before_cancel |= event.HasField("workflow_execution_cancel_requested_event_attributes")
    return False


async def _newest_first(temporal: TemporalClient, execution: WorkflowExecution) -> AsyncIterator[HistoryEvent]:
    """The events of an execution, and of those that it continues."""
    run_id = execution.run_id
    while run_id:
        request = GetWorkflowExecutionHistoryReverseRequest(
            namespace=temporal.namespace, execution=ExecutionProto(workflow_id=execution.id, run_id=run_id)
        )
        while True:
            try:
                page = await temporal.workflow_service.get_workflow_execution_history_reverse(request)
            except RPCError as error:
                raise error_of(error, execution.id) from error
            for event in page.history.events:
                yield event
                run_id = event.workflow_execution_started_event_attributes.continued_execution_run_id
            if not page.next_page_token:
                break
            request.next_page_token = page.next_page_token


def _is_active(execution: WorkflowExecution) -> bool:
    """Whether a run is under way, and not only its thread open; one without attributes may be."""
    return execution.typed_search_attributes.get(_STATUS) != RunStatus.DONE.value


async def _list(temporal: TemporalClient, query: str) -> list[WorkflowExecution]:
    try:
        return [each async for each in temporal.list_workflows(query)]
    except RPCError as error:
        if error.status is RPCStatusCode.INVALID_ARGUMENT:
            raise CallerError(f"Temporal refused the query {query!r}: {error.message}") from error
        raise error_of(error, query) from error
