"""Query threads: one by one, or the statuses of many at once with a bound on how long the silent ones may take.

It knows nothing of what the answers are for: the client, the inbox and the tree do.
"""

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from temporalio.client import Client, WorkflowExecution, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from wakeful.contract import names
from wakeful.contract.base import Wire
from wakeful.contract.errors import WakefulError
from wakeful.contract.views import StatusView
from wakeful.history.list_queries import quoted
from wakeful.rpc_errors import error_of

V = TypeVar("V", bound=Wire)

MAX_CONCURRENT_QUERIES = 16
QUERY_TIMEOUT = timedelta(seconds=7)
"""Longer than the sticky timeout, after which another worker answers for one that has died."""

EARLY_PAUSES_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Before a query that came too early is asked again."""

OPEN_RUNS = f"WorkflowType = '{names.WORKFLOW}' AND ExecutionStatus = 'Running'"


async def query(
    temporal: Client,
    thread_id: str,
    name: str,
    kind: type[V],
    argument: object = None,
    *,
    run_id: str | None = None,
    within: timedelta | None = None,
) -> V:
    """What a thread, or one execution of it, answers to a query.

    Raises:
        NoAnswer: no worker answered `within` this time, or within Temporal's default.
    """
    try:
        return await ask(temporal, thread_id, name, kind, argument, run_id=run_id, within=within)
    except WorkflowQueryFailedError as error:
        raise WakefulError(f"query {name!r} of thread {thread_id!r} failed: {error}") from error
    except RPCError as error:
        raise error_of(error, thread_id) from error


async def ask(
    temporal: Client,
    thread_id: str,
    name: str,
    kind: type[V],
    argument: object = None,
    *,
    run_id: str | None = None,
    within: timedelta | None = None,
) -> V:
    """The same, with the SDK's own errors.

    A workflow fails a query that comes before its newest events have been handled by a workflow task. That task is due,
    so the query is asked again for a while; for an execution that was terminated it never comes, and history is read.
    """
    args = [] if argument is None else [argument]
    handle = temporal.get_workflow_handle(thread_id, run_id=run_id)
    for pause in (*EARLY_PAUSES_SECONDS, None):
        try:
            answer: V = await handle.query(name, args=args, result_type=kind, rpc_timeout=within)
            return answer
        except WorkflowQueryFailedError as error:
            if names.HANDLED_EARLY not in str(error):
                raise
        if pause is None or (await handle.describe()).close_time is not None:
            break
        await asyncio.sleep(pause)
    return await read_from_history(temporal, thread_id, name, kind, argument, run_id=run_id)


async def read_from_history(
    temporal: Client, thread_id: str, name: str, kind: type[V], argument: object = None, *, run_id: str | None = None
) -> V:
    """What an execution would answer, found by replaying its history in this process, without a worker."""
    from wakeful.history.reader import HistoryReader

    async with aclosing(HistoryReader(temporal)) as reader:
        return await reader.query(thread_id, name, kind, argument, run_id=run_id)


@dataclass(frozen=True)
class Unanswered:
    """The status of a thread is not known, and why."""

    reason: str


class StatusQueries:
    """One round of status queries. Once a query on a task queue has timed out, the rest of that queue is skipped."""

    def __init__(self, temporal: Client) -> None:
        self._temporal = temporal
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_QUERIES)
        self._answering: set[str] = set()
        self._silent: set[str] = set()
        """Task queues on which a query was answered, and on which one timed out."""

    async def statuses(self, executions: Iterable[WorkflowExecution]) -> list[StatusView | Unanswered | None]:
        """The status of each execution, in their order; None for one that the server has deleted."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._status(execution)) for execution in executions]
        return [task.result() for task in tasks]

    async def _status(self, execution: WorkflowExecution) -> StatusView | Unanswered | None:
        async with self._slots:
            if execution.task_queue in self._silent - self._answering:
                return Unanswered(f"no worker answers on task queue {execution.task_queue!r}")
            try:
                view = await ask(self._temporal, execution.id, names.QUERY_STATUS, StatusView, within=QUERY_TIMEOUT)
            except (WorkflowQueryFailedError, WakefulError) as error:
                return Unanswered(str(error))
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return None
                self._silent.add(execution.task_queue)
                return Unanswered(f"no worker answers on task queue {execution.task_queue!r}")
            self._answering.add(execution.task_queue)
            return view


def in_tree(thread_id: str, root_id: str | None) -> str:
    """The list query for a thread and its possible descendants; the caller checks their parents.

    Temporal counts a sub-agent that was woken as its own root, but its id still begins with its parent's.
    """
    roots = ", ".join(quoted(root) for root in sorted({thread_id, root_id or thread_id}))
    return (
        f"(WorkflowId = {quoted(thread_id)} OR WorkflowId STARTS_WITH {quoted(thread_id + '/')}"
        f" OR RootWorkflowId IN ({roots}))"
    )
