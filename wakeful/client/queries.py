"""Ask threads for what they know, many at once and with patience; and what Temporal's refusals mean.

It knows nothing of what is asked for: the client, the inbox and the tree do.
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

AT_ONCE = 16
PATIENCE = timedelta(seconds=7)
"""How long a run is given to answer: longer than it takes until it has left a worker that died."""

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
    """What a thread, or one execution of it, answers to a question.

    Raises:
        NoAnswer: no worker answered `within` this time, or within Temporal's usual one.
    """
    args = [] if argument is None else [argument]
    handle = temporal.get_workflow_handle(thread_id, run_id=run_id)
    try:
        answer: V = await handle.query(name, args=args, result_type=kind, rpc_timeout=within)
        return answer
    except WorkflowQueryFailedError as error:
        raise WakefulError(f"thread {thread_id!r} does not answer {name!r}: {error}") from error
    except RPCError as error:
        raise error_of(error, thread_id) from error


@dataclass(frozen=True)
class Unanswered:
    """Nobody answered for a thread, and why."""

    reason: str


class StatusQueries:
    """One round of questions. A task queue on which nobody answers is not asked again and again."""

    def __init__(self, temporal: Client) -> None:
        self._temporal = temporal
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._answered: set[str] = set()
        self._silent: set[str] = set()

    async def statuses(self, executions: Iterable[WorkflowExecution]) -> list[StatusView | Unanswered | None]:
        """What each of them says, in their order; nothing of one that is gone."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._status(execution)) for execution in executions]
        return [task.result() for task in tasks]

    async def _status(self, execution: WorkflowExecution) -> StatusView | Unanswered | None:
        async with self._turn:
            if execution.task_queue in self._silent - self._answered:
                return Unanswered(f"no worker answers on task queue {execution.task_queue!r}")
            handle = self._temporal.get_workflow_handle(execution.id)
            try:
                view: StatusView = await handle.query(names.QUERY_STATUS, result_type=StatusView, rpc_timeout=PATIENCE)
            except WorkflowQueryFailedError as error:
                return Unanswered(str(error))
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return None
                self._silent.add(execution.task_queue)
                return Unanswered(f"no worker answers on task queue {execution.task_queue!r}")
            self._answered.add(execution.task_queue)
            return view


def quoted(text: str) -> str:
    """A text as Temporal's list queries spell it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def in_tree(thread_id: str, root_id: str | None) -> str:
    """The list query for a thread and what may stand below it; whoever asks looks at the parents.

    A sub-agent that was woken is its own root to Temporal, but its id still begins with its parent's.
    """
    roots = ", ".join(quoted(root) for root in sorted({thread_id, root_id or thread_id}))
    return (
        f"(WorkflowId = {quoted(thread_id)} OR WorkflowId STARTS_WITH {quoted(thread_id + '/')}"
        f" OR RootWorkflowId IN ({roots}))"
    )
