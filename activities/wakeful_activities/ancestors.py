"""The `find_stopping_ancestor` activity: whether a thread above stops its descendants.

A cancel passes from thread to thread, and every one of them may take seconds on busy workers. A sub-agent asks the
server for the threads above it before it starts another, and so learns of a cancel that has yet to reach it.
"""

import asyncio

from temporalio import activity
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus

from wakeful.contract.names import ACTIVITY_FIND_STOPPING, MEMO_STOPPING
from wakeful.contract.subagents import Ancestors, StoppingAncestor
from wakeful.rpc_errors import describe_execution

_ENDED_FROM_OUTSIDE = (WorkflowExecutionStatus.CANCELED, WorkflowExecutionStatus.TERMINATED)


class AncestorsActivity:
    """The `find_stopping_ancestor` activity."""

    def __init__(self, temporal: Client) -> None:
        self._temporal = temporal

    @activity.defn(name=ACTIVITY_FIND_STOPPING)
    async def find_stopping_ancestor(self, input: Ancestors) -> StoppingAncestor:
        found = await asyncio.gather(*(describe_execution(self._temporal, id) for id in input.thread_ids))
        stopping = [each.id for each in found if each is not None and await _is_stopping(each)]
        return StoppingAncestor(thread_id=next(iter(stopping), None))


async def _is_stopping(described: WorkflowExecutionDescription) -> bool:
    if described.status is WorkflowExecutionStatus.RUNNING:
        # Its value, and not whether it is there: the server does not recognise the null by which a worker with a codec
        # removes it, and so keeps it.
        return bool(await described.memo_value(MEMO_STOPPING, False))
    return described.status in _ENDED_FROM_OUTSIDE
