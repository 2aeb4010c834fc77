"""Start a run on a thread, and wait for its result."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import CancelledError, TerminatedError, WorkflowAlreadyStartedError
from temporalio.service import RPCError

from wakeful.client.branching.rewind import has_continued
from wakeful.contract import names
from wakeful.contract.errors import CallerError, ThreadBusy, WakefulError, validation_problems
from wakeful.contract.requests import RunRequest, title_of
from wakeful.contract.runs import Cancelled, RunResult
from wakeful.permissions.rules import rule_problems
from wakeful.rpc_errors import error_of

Handle = WorkflowHandle[Any, RunResult]


@contextmanager
def rejecting_invalid() -> Iterator[None]:
    """Raise what pydantic finds wrong with a request as a `CallerError`."""
    try:
        yield
    except ValidationError as error:
        raise CallerError("; ".join(validation_problems(error))) from None


async def start_thread(temporal: Client, request: RunRequest, thread_id: str | None, *, task_queue: str) -> str:
    """Start a run and return its thread's id.

    Raises:
        ThreadBusy: the thread already has an active run.
        CallerError: a permission rule cannot be parsed.
    """
    if problems := rule_problems(request.permissions):
        raise CallerError("; ".join(problems))
    thread_id = thread_id or new_thread_id(request.agent_id)
    try:
        await temporal.start_workflow(
            names.WORKFLOW,
            request,
            id=thread_id,
            task_queue=task_queue,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            memo={names.MEMO_TITLE: title_of(request)},
            static_summary=f"{request.agent_id}: {title_of(request)}",
        )
    except WorkflowAlreadyStartedError as error:
        raise ThreadBusy(thread_id) from error
    return thread_id


def new_thread_id(agent_id: str) -> str:
    """The id of a thread that the caller gave none."""
    return f"{agent_id}-{uuid.uuid4().hex[:12]}"


async def wait_for_result(temporal: Client, handle: Handle) -> RunResult:
    """The result of a thread's run; if the thread is reset meanwhile, of the execution that follows."""
    try:
        return await handle.result()
    except WorkflowFailureError as error:
        if isinstance(error.cause, TerminatedError) and await has_continued(temporal, handle.id):
            return await wait_for_result(temporal, handle)
        if isinstance(error.cause, CancelledError):  # cancelled in Temporal before a worker ran its first workflow task
            return _never_started(handle.id)
        raise WakefulError(f"the run on thread {handle.id!r} failed: {error.cause}") from error
    except RPCError as error:
        raise error_of(error, handle.id) from error


def _never_started(thread_id: str) -> RunResult:
    return RunResult(thread_id=thread_id, run_id="", agent_id="", status_reason="cancelled", termination=Cancelled())
