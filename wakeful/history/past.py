"""The state of an execution at a time in its past: its history is replayed up to a workflow task, and no further."""

from collections.abc import Sequence
from dataclasses import dataclass

from temporalio.api.history.v1 import HistoryEvent
from temporalio.service import RPCError

from wakeful.contract import names
from wakeful.contract.errors import InternalError
from wakeful.contract.requests import MAX_PAGE
from wakeful.contract.state import StateView
from wakeful.contract.views import EventsPage, StatusView
from wakeful.history.decoder import ExecutionRef, moment_of
from wakeful.history.moments import TaskCompleted, TaskStarted
from wakeful.history.reader import HistoryReader
from wakeful.history.replayed_execution import ReplayedExecution, replay_execution
from wakeful.rpc_errors import error_of


@dataclass(frozen=True)
class PastReading:
    """What an execution had to show after one of its workflow tasks."""

    completed: int
    """The event that completed that task."""
    status: StatusView
    state: StateView


async def read_past(reader: HistoryReader, execution: ExecutionRef, *, seq: int, at: int) -> PastReading:
    """The execution as the workflow task left it that emitted an event of the thread.

    Args:
        seq: the event's number.
        at: its time, in milliseconds since 1970.

    Raises:
        ThreadNotFound: there is no such execution.
        DoesNotReplay: the history does not replay on the installed code.
    """
    handle = reader.temporal.get_workflow_handle(execution.thread_id, run_id=execution.run_id)
    try:
        events = (await handle.fetch_history()).events
    except RPCError as error:
        raise error_of(error, execution.thread_id) from error
    for part in _parts_until(events, at):
        replayed = await replay_execution(reader.replayer, execution, part)
        try:
            if await _last_event(replayed) >= seq:
                status = await replayed.query(names.QUERY_STATUS, StatusView)
                state = await replayed.query(names.QUERY_STATE, StateView)
                return PastReading(replayed.completed, status, state)
        finally:
            await replayed.drop()
    raise InternalError(f"execution {execution.run_id!r} of thread {execution.thread_id!r} has no event {seq}")


async def _last_event(replayed: ReplayedExecution) -> int:
    after = 0
    while True:
        request = {"after": after, "limit": MAX_PAGE}
        page = await replayed.query(names.QUERY_EVENTS, EventsPage, request)
        if not page.more:
            return page.last
        after = page.last


def _parts_until(events: Sequence[HistoryEvent], at: int) -> list[Sequence[HistoryEvent]]:
    """The history up to the task that was under way at this time, then up to each later one.

    An event has the time at which its task started, which the server and the SDK round differently. The task may also
    be a later one, if a worker made it wait for a local activity.
    """
    started: dict[int, int] = {}
    ends: list[tuple[int, int]] = []
    for event in events:
        match moment_of(event):
            case TaskStarted(event_id=id, at=time):
                started[id] = time
            case TaskCompleted(event_id=id, started=id_started):
                ends.append((id, started.get(id_started, 0)))
            case _:
                pass
    first = max((number for number, (_, time) in enumerate(ends) if time <= at + 1), default=0)
    cuts = [completed - 1 for completed, _ in ends[first + 1 :]] + [len(events)]
    return [events[:cut] for cut in cuts]
