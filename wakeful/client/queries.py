"""Query threads: one by one, or the statuses of many at once with a bound on how long the silent ones may take.

It knows nothing of what the answers are for: the client, the inbox and the tree do.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from temporalio.client import Client, WorkflowExecution, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from wakeful.contract import names
from wakeful.contract.base import Wire
from wakeful.contract.errors import WakefulError
from wakeful.contract.views import StatusView
from wakeful.rpc_errors import error_of

V = TypeVar("V", bound=Wire)

MAX_CONCURRENT_QUERIES = 16
QUERY_TIMEOUT = timedelta(seconds=7)
"""Longer than the sticky timeout, after which another worker answers for one that has died."""

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
    args = [] if argument is None else [argument]
    handle = temporal.get_workflow_handle(thread_id, run_id=run_id)
    try:
        answer: V = await handle.query(name, args=args, result_type=kind, rpc_timeout=within)
        return answer
    except WorkflowQueryFailedError as error:
        raise WakefulError(f"query {name!r} of thread {thread_id!r} failed: {error}") from error
    except RPCError as error:
        raise error_of(error, thread_id) from error


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
            handle = self._temporal.get_workflow_handle(execution.id)
            try:
                view: StatusView = await handle.query(
                    names.QUERY_STATUS, result_type=StatusView, rpc_timeout=QUERY_TIMEOUT
                )
            except WorkflowQueryFailedError as error:
                return Unanswered(str(error))
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return None
                self._silent.add(execution.task_queue)
                return Unanswered(f"no worker answers on task queue {execution.task_queue!r}")
            self._answering.add(execution.task_queue)
            return view


def quoted(text: str) -> str:
    """A text as Temporal's list queries spell it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def in_tree(thread_id: str, root_id: str | None) -> str:
    """The list query for a thread and its possible descendants; the caller checks their parents.

    Temporal counts a sub-agent that was woken as its own root, but its id still begins with its parent's.
    """
    roots = ", ".join(quoted(root) for root in sorted({thread_id, root_id or thread_id}))
    return (
        f"(WorkflowId = {quoted(thread_id)} OR WorkflowId STARTS_WITH {quoted(thread_id + '/')}"
        f" OR RootWorkflowId IN ({roots}))"
    )
