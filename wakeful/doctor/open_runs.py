"""The open runs of a namespace, read once for several checks: all are listed, and the newest ones described."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionDescription
from temporalio.service import RPCError

from wakeful.client.queries import QUERY_TIMEOUT
from wakeful.contract import names
from wakeful.rpc_errors import describe_execution

MAX_LISTED = 1_000
MAX_DESCRIBED = 100
"""Open runs that are described, the newest ones: each is a call."""
MAX_CONCURRENT_CALLS = 8
MAX_NAMED = 5
"""Threads that a problem names."""

THREADS = f"WorkflowType IN ('{names.WORKFLOW}', '{names.WORKFLOW_TOOL_TASK}')"
_FAILING = "TemporalReportedProblems IS NOT NULL"
"""Temporal itself marks executions whose workflow task fails repeatedly."""

T = TypeVar("T")


@dataclass(frozen=True)
class OpenRuns:
    listed: Sequence[WorkflowExecution]
    described: Sequence[WorkflowExecutionDescription]
    unread: str | None = None
    """Why they could not be listed."""

    @property
    def summary(self) -> str:
        if len(self.described) < len(self.listed):
            return f"the newest {len(self.described)} of {counted_from(self.listed)} open runs"
        return f"{len(self.listed)} open runs" if len(self.listed) != 1 else "one open run"


def counted_from(listed: Sequence[object]) -> str:
    return f"{MAX_LISTED:,} or more" if len(listed) >= MAX_LISTED else f"{len(listed):,}"


async def read_open_runs(client: Client) -> OpenRuns:
    """The open runs and background tools of the namespace."""
    try:
        listed = await list_executions(client, f"{THREADS} AND ExecutionStatus = 'Running'", MAX_LISTED)
    except RPCError as error:
        return OpenRuns((), (), unread=f"runs could not be listed: {error.message}")
    try:
        failing = await list_executions(
            client, f"{THREADS} AND ExecutionStatus = 'Running' AND {_FAILING}", MAX_DESCRIBED
        )
    except RPCError:  # an older server does not mark them
        failing = []
    chosen = {execution.id: execution.run_id for execution in (*failing, *listed)}
    slots = asyncio.Semaphore(MAX_CONCURRENT_CALLS)

    async def describe(id: str, run_id: str) -> WorkflowExecutionDescription | None:
        async with slots:
            try:
                return await describe_execution(client, id, run_id)
            except RPCError:  # it has ended, or the next call reports what is wrong
                return None

    wanted = list(chosen.items())[:MAX_DESCRIBED]
    described = await asyncio.gather(*(describe(id, run_id) for id, run_id in wanted))
    return OpenRuns(listed, [each for each in described if each is not None])


async def list_executions(client: Client, query: str, limit: int) -> list[WorkflowExecution]:
    """The newest executions that a list filter finds.

    Raises:
        RPCError: the server refused the filter, or is unreachable.
    """
    return [each async for each in client.list_workflows(query, limit=limit, rpc_timeout=QUERY_TIMEOUT)]


def named(ids: Sequence[str]) -> str:
    """Some of these ids, for a person."""
    shown = ", ".join(ids[:MAX_NAMED])
    return shown if len(ids) <= MAX_NAMED else f"{shown} and {len(ids) - MAX_NAMED:,} more"
