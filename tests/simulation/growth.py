"""How trees grow: once a thread has cancelled all of its descendants, only agents start that were scheduled before."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from temporalio.api.enums.v1 import EventType

from tests.simulation.execution import Execution
from tests.simulation.server import Server
from tests.simulation.service import CONVERTER
from wakeful.contract import names

_MEMO = EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED
_START = EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED


@dataclass(frozen=True)
class Stopping:
    """From when until when a thread has waited until all of its descendants have stopped."""

    thread_id: str
    since: int
    until: float


def growth_problem(server: Server) -> str | None:
    """An agent that was started below a thread which had handled its cancel; None if there is none.

    A worker that had the workflow task already when the cancel was handled may still start what it has scheduled.
    """
    stops = [stopping for execution in server.executions for stopping in _stops(execution)]
    for execution in server.executions if stops else ():
        above = {execution.workflow_id, *_ancestors(server, execution)}
        for began, child in _starts(execution):
            for stopping in stops:
                if stopping.thread_id in above and stopping.since < began < stopping.until:
                    return f"{child} was started although {stopping.thread_id} had cancelled its descendants"
    return None


def _stops(execution: Execution) -> Iterator[Stopping]:
    since = None
    for event in execution.history:
        memo = event.workflow_properties_modified_event_attributes.upserted_memo.fields
        if event.event_type == _MEMO and names.MEMO_STOPPING in memo:
            is_set = CONVERTER.payload_converter.from_payload(memo[names.MEMO_STOPPING])
            if since is not None and not is_set:
                yield Stopping(execution.workflow_id, since, event.event_time.ToMilliseconds())
            since = event.event_time.ToMilliseconds() if is_set else None
    if since is not None:
        yield Stopping(execution.workflow_id, since, execution.closed_at or math.inf)


def _starts(execution: Execution) -> Iterator[tuple[int, str]]:
    """The counted agents that the execution has started, each with the time at which that workflow task began."""
    by_id = {event.event_id: event for event in execution.history}
    for event in execution.history:
        started = event.start_child_workflow_execution_initiated_event_attributes
        if event.event_type == _START and names.MEMO_COUNTED in started.memo.fields:
            task = by_id[started.workflow_task_completed_event_id].workflow_task_completed_event_attributes
            yield by_id[task.started_event_id].event_time.ToMilliseconds(), started.workflow_id


def _ancestors(server: Server, execution: Execution) -> Iterator[str]:
    above: Execution | None = execution
    while above is not None and above.parent is not None:
        yield above.parent.workflow_id
        above = server.find(above.parent.workflow_id, above.parent.run_id)
