"""Find out which events a reset has retained: Temporal's reset starts a new execution with a part of the old history.

It only reads. `wakeful.client.branching` resets threads, and so may anyone with Temporal's own tools.
"""

from dataclasses import dataclass

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.thread_reader import ThreadReader
from wakeful.client.watching.reading import read_events
from wakeful.history.decoder import ExecutionRef, read_moments, walk_chain
from wakeful.history.moments import Started, TaskFailed


@dataclass(frozen=True)
class Reset:
    """When a thread was reset, and the execution that starts with the history that was retained."""

    run_id: str
    at: int


async def first_reset(temporal: Client, thread_id: str, *, since: int) -> Reset | None:
    """The first reset from this time on, in the executions that the thread consists of now.

    Raises:
        RPCError: Temporal did not answer.
    """

    async def read(execution: ExecutionRef) -> _Resets:
        return await _read_resets(temporal, execution, since=since)

    found: Reset | None = None
    newest = (await temporal.get_workflow_handle(thread_id).describe()).run_id
    try:
        async for resets in walk_chain(read, ExecutionRef(thread_id, newest)):
            found = resets.first or found
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:  # else the server has deleted the older executions
            raise
    return found


@dataclass
class _Resets:
    """The resets that one execution's history records."""

    first: Reset | None = None
    predecessor: ExecutionRef | None = None
    """Only if it may record resets that are recent enough."""


async def _read_resets(temporal: Client, execution: ExecutionRef, *, since: int) -> _Resets:
    resets = _Resets()
    async for moment in read_moments(temporal, execution):
        match moment:
            case Started(continued_run_id=run_id) if run_id and moment.at >= since:
                resets.predecessor = ExecutionRef(execution.thread_id, run_id)
            case TaskFailed(is_reset=True) if moment.at >= since and resets.first is None:
                resets.first = Reset(execution.run_id, moment.at)
            case _:
                pass
    return resets


async def last_retained(reader: ThreadReader, thread_id: str, reset: Reset) -> int:
    """The number of the last event that a reset has retained.

    An event has the time at which its workflow task started: retained ones are earlier than the reset, and those that
    the new execution has added are later.

    Raises:
        WakefulError: the thread did not answer.
    """
    last = 0
    while True:
        page = await read_events(reader, thread_id, after=last, run_id=reset.run_id)
        retained = [record.seq for record in page.events if record.at < reset.at]
        last = max(retained, default=last)
        if len(retained) < len(page.events) or not page.more:
            return last
