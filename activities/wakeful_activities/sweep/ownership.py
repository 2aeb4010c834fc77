"""Whose child an execution is, as its own input says.

Temporal's parent is whatever workflow started an agent, perhaps a user's own one, which means to leave it running. Only
a parent that has passed on a `SubagentContext` or the input of a `ToolTask` is a thread of ours.
"""

from contextlib import suppress

from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError, RPCStatusCode

from wakeful.contract import names
from wakeful.contract.errors import CallerError
from wakeful.history.decoder import ExecutionRef, Payloads, read_moments
from wakeful.history.moments import Started
from wakeful.loop.thread.continue_as_new import unpack


async def owner_of(client: Client, child: WorkflowExecution) -> str | None:
    """The thread that started a sub-agent or a background tool; None of every other execution.

    Raises:
        RPCError: the server refused the request, or is unreachable.
    """
    try:
        async for moment in read_moments(client, ExecutionRef(child.id, child.run_id), page_size=1):
            if isinstance(moment, Started):
                with suppress(CallerError):  # what cannot be decoded names no owner
                    return _owner(await Payloads(client.data_converter).json(moment.input))
            return None
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
    return None


def _owner(given: object) -> str | None:
    match given:
        case {"owner_thread_id": str(owner)} | {"subagent": {"path": [*_, str(owner)]}}:
            return owner
        case {names.SNAPSHOT: dict(snapshot)}:
            path = unpack(snapshot).thread.identity.path
            return path[-1] if path else None
        case _:
            return None
