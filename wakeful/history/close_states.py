"""What the close status of an execution says about its thread, and where the result of its last run is.

A run that ends in an error fails its workflow, and one that was cancelled in Temporal closes it as cancelled: such a
thread has ended like any other, and its memo says so. Temporal itself also closes executions, without a word to their
parents and children: by a timeout, a termination, or before a worker has started them.
"""

from contextlib import suppress
from datetime import timedelta

from pydantic import ValidationError
from temporalio.api.common.v1 import Payloads as RawPayloads
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.service import RPCError

from wakeful.contract import names
from wakeful.contract.errors import CallerError, CannotDecode
from wakeful.contract.runs import RunResult
from wakeful.history.decoder import Payloads
from wakeful.undecodable import decoding
from wakeful_workflows.closing import failure_result


def has_ended(execution: WorkflowExecution) -> bool:
    """Whether the workflow itself closed the execution: its run has a result, and its parent knows it."""
    if execution.status is WorkflowExecutionStatus.COMPLETED:
        return True
    return names.MEMO_ENDED in execution.raw_info.memo.fields


async def read_result(
    temporal: Client, execution: WorkflowExecution, *, within: timedelta | None = None
) -> RunResult | None:
    """The result of a closed execution, whatever its close status; None if it has none, or it cannot be read."""
    handle = temporal.get_workflow_handle(execution.id, run_id=execution.run_id, result_type=RunResult)
    try:
        with decoding(temporal.data_converter, f"the result of thread {execution.id!r}"):
            if execution.status is WorkflowExecutionStatus.CANCELED:
                return await memo_result(temporal, execution)
            try:
                result: RunResult = await handle.result(follow_runs=False, rpc_timeout=within)
            except WorkflowFailureError as error:
                return failure_result(error.cause)
            return result
    except (RPCError, ValueError, CannotDecode):
        return None


async def memo_result(temporal: Client, execution: WorkflowExecution) -> RunResult | None:
    """The result of a run that was cancelled in Temporal: its memo has it."""
    payload = execution.raw_info.memo.fields.get(names.MEMO_RESULT)
    if payload is None:
        return None
    with suppress(CallerError, ValidationError):
        return await Payloads(temporal.data_converter).value(RawPayloads(payloads=[payload]), RunResult)
    return None
