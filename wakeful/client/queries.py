"""Ask workers for the state of threads, by query.

The client reads histories (`thread_reader.py`). It asks a worker where it wants to know whether one answers, for the
newest events of a run that is being watched, and for histories that do not replay on its code.
"""

import asyncio
from contextlib import aclosing
from datetime import timedelta
from typing import TypeVar

from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError

from wakeful.contract import names
from wakeful.contract.base import Wire
from wakeful.contract.errors import WakefulError
from wakeful.history.list_queries import quoted
from wakeful.rpc_errors import error_of
from wakeful.undecodable import decoding

V = TypeVar("V", bound=Wire)

QUERY_TIMEOUT = timedelta(seconds=7)
"""Longer than a usual sticky timeout, after which another worker answers for one that has died."""

EARLY_PAUSES_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Before a query that came too early, or to a worker that was too busy, is asked again."""

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
        with decoding(temporal.data_converter, f"the answer of thread {thread_id!r}"):
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
    So it is for a query that took a busy worker too long.
    """
    args = [] if argument is None else [argument]
    handle = temporal.get_workflow_handle(thread_id, run_id=run_id)
    for pause in (*EARLY_PAUSES_SECONDS, None):
        try:
            answer: V = await handle.query(name, args=args, result_type=kind, rpc_timeout=within)
            return answer
        except WorkflowQueryFailedError as error:
            if not any(code in str(error) for code in (names.HANDLED_EARLY, names.DEADLOCK)):
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


def in_tree(thread_id: str, root_id: str | None) -> str:
    """The list query for a thread and its possible descendants; the caller checks their parents.

    Temporal counts a sub-agent that was woken as its own root, but its id still begins with its parent's.
    """
    roots = ", ".join(quoted(root) for root in sorted({thread_id, root_id or thread_id}))
    return (
        f"(WorkflowId = {quoted(thread_id)} OR WorkflowId STARTS_WITH {quoted(thread_id + '/')}"
        f" OR RootWorkflowId IN ({roots}))"
    )
