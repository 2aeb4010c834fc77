"""Cancel every active run that a list query finds, such as those of an agent or a tenant.

Sub-agents of a run that is cancelled go with it. What is found are runs as Temporal's visibility lists them, a moment
after they change.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecution
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.cancel import cancel_run
from wakeful.client.client import Client
from wakeful.client.deletion.find import parent_of
from wakeful.client.queries import OPEN_RUNS
from wakeful.contract import names
from wakeful.contract.errors import CallerError, WakefulError
from wakeful.contract.runs import RunStatus
from wakeful.history.list_queries import any_of, quoted
from wakeful.rpc_errors import error_of

MAX_CONCURRENT_CALLS = 16
FIRST_PAUSE_SECONDS = 0.1
MAX_PAUSE_SECONDS = 2.0

_AGENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT)
_STATUS = SearchAttributeKey.for_keyword(names.ATTRIBUTE_STATUS)

Progress = Callable[[int], None]
"""Called with the number of runs that are done."""


@dataclass(frozen=True)
class ActiveRun:
    """A run that a query has found."""

    thread_id: str
    agent_id: str = ""


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


def filter_of(*, query: str | None, agent_id: str | None, tenant: str | None) -> str:
    """The list filter for all of these conditions that are given."""
    conditions = [
        *([f"({query})"] if query is not None else []),
        *([f"{names.ATTRIBUTE_AGENT} = {quoted(agent_id)}"] if agent_id is not None else []),
        *([f"{names.ATTRIBUTE_TENANT} = {quoted(tenant)}"] if tenant is not None else []),
    ]
    return " AND ".join(conditions)


async def select_runs(temporal: TemporalClient, query: str) -> list[ActiveRun]:
    """The active runs that a list filter finds, oldest first, without those that are cancelled with a found parent.

    Raises:
        CallerError: Temporal does not understand the filter.
    """
    found = await _list(temporal, f"{OPEN_RUNS} AND ({query})")
    active = {each.id: each for each in sorted(found, key=lambda each: each.start_time) if _is_active(each)}
    parents = {id: parent_of(each) for id, each in active.items()}
    return [
        ActiveRun(id, each.typed_search_attributes.get(_AGENT) or "")
        for id, each in active.items()
        if parents[id] not in active
    ]


async def cancel_many(
    client: Client, threads: Sequence[str], *, reason: str | None = None, on_progress: Progress = lambda _: None
) -> CancelledMany:
    """Request the cancellation of all these runs. One that fails does not stop the others."""
    outcome, slots = CancelledMany(), asyncio.Semaphore(MAX_CONCURRENT_CALLS)

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

    await asyncio.gather(*map(cancel, threads))
    return outcome


async def wait_until_ended(temporal: TemporalClient, threads: Sequence[str], *, on_progress: Progress) -> None:
    """Wait until the runs of all these threads have ended, by lists of those that are still active."""
    active, pause = list(threads), FIRST_PAUSE_SECONDS
    while active:
        await asyncio.sleep(pause)
        pause = min(2 * pause, MAX_PAUSE_SECONDS)
        listed = [
            each
            for condition in any_of("WorkflowId", active)
            for each in await _list(temporal, f"{OPEN_RUNS} AND {condition}")
        ]
        active = [each.id for each in listed if _is_active(each)]
        on_progress(len(threads) - len(active))


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
