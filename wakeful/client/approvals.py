"""The decisions that runs wait for, and how one is answered so that the answer is known. `Client` has the verbs.

Nothing is kept anywhere: the runs themselves are the inbox. They are found by search attribute and read by query; a run
that nobody can ask is listed with the reason.
"""

import asyncio
from collections.abc import AsyncIterator
from time import time
from typing import Any, Literal

from pydantic import JsonValue
from temporalio.client import (
    Client as TemporalClient,
)
from temporalio.client import (
    WorkflowExecution,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.queries import OPEN_RUNS, PATIENCE, StatusQueries, Unanswered, in_tree
from wakeful.contract import names
from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.decisions import Decision, Decisions, ResumeMode, SuspensionTicket
from wakeful.contract.errors import CallerError, DecisionRefused, NoAnswer
from wakeful.contract.ids import ticket_id
from wakeful.contract.runs import RunIdentity
from wakeful.contract.views import StatusView, ToolCallView

UPDATE_LIMIT = 1_000_000
"""Bytes: an update that is too big for the server would leave its run stuck."""

DecisionStatus = Literal["applied", "held", "repeated"]
"""What became of a decision: `held` for a call that has not suspended yet, `repeated` if it had been applied before."""

# Runs that were begun while the attributes could not be registered have none: they are asked, too.
# A call may wait for a decision while others of its step run.
_WAITING = (
    f"{OPEN_RUNS} AND ({names.ATTRIBUTE_STATUS} = 'waiting' OR {names.ATTRIBUTE_STATUS} IS NULL"
    f" OR {names.ATTRIBUTE_PENDING} IS NOT NULL)"
)

_AGENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT)
_PENDING = SearchAttributeKey.for_keyword_list(names.ATTRIBUTE_PENDING)


class PendingDecision(Wire):
    """A decision that a run waits for, with what somebody needs to make it."""

    ticket: str
    """`THREAD/CALL`, as `wakeful approve` takes it."""
    thread_id: str
    run_id: Few[str] = ""
    agent_id: Few[str] = ""
    path: tuple[str, ...]
    """The threads from the root to this one."""
    call_id: Few[str] = ""
    suspension_id: Maybe[str] = None
    tool_name: Few[str] = ""
    arguments: Maybe[JsonValue] = None
    arguments_digest: Maybe[str] = None
    """Send it along with the decision: it is refused if the arguments are others by then."""
    message: Maybe[str] = None
    action: Few[str] = ""
    since: Maybe[int] = None
    """Milliseconds since 1970, as is `expires_at`."""
    age: Maybe[float] = None
    """Seconds that it has been waiting."""
    expires_at: Maybe[int] = None
    resume_mode: Maybe[ResumeMode] = None
    remember: Maybe[str] = None
    """The rule that a decision with `always` would leave behind."""
    response_schema: Maybe[JsonValue] = None
    unknown: Maybe[str] = None
    """Why nothing more is known: the run could not be asked. Its decision can be sent all the same."""


async def pending_decisions(
    temporal: TemporalClient,
    *,
    thread_id: str | None = None,
    agent_id: str | None = None,
    tool: str | None = None,
    limit: int | None = None,
) -> AsyncIterator[PendingDecision]:
    """What waits now, oldest first, then the runs that could not be asked; with `thread_id`, in its tree alone."""
    executions = await _waiting(temporal, thread_id)
    answers = await StatusQueries(temporal).statuses(executions)
    found = [
        entry
        for execution, answer in zip(executions, answers, strict=True)
        for entry in (_unknown(execution, answer.reason) if isinstance(answer, Unanswered) else _entries(answer))
        if thread_id is None or _is_of(entry, thread_id)
    ]
    wanted = [
        entry
        for entry in found
        if agent_id in (None, entry.agent_id or agent_id) and tool in (None, entry.tool_name or tool)
    ]
    wanted.sort(key=lambda entry: (entry.unknown is not None, entry.since or 0, entry.ticket))
    for entry in wanted[:limit]:
        yield entry


async def confirmed(handle: WorkflowHandle[Any, Any], written: Decision | Decisions) -> DecisionStatus:
    """Send decisions as an update, which answers what became of them.

    Raises:
        DecisionRefused: they changed nothing.
        NoAnswer: no worker answered in time, or none that knows the update: send them as a signal.
    """
    size = len(written.model_dump_json())
    if size > UPDATE_LIMIT:
        raise CallerError(f"the decision has {size:,} bytes, and at most {UPDATE_LIMIT:,} fit: shorten it")
    silence = f"thread {handle.id!r} did not answer in time; is a worker running on its task queue?"
    try:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            answer = await handle.execute_update(names.UPDATE_DECIDE, written, rpc_timeout=PATIENCE)
    except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
        raise NoAnswer(silence) from error
    except RPCError as error:
        if error.status is RPCStatusCode.RESOURCE_EXHAUSTED:
            raise NoAnswer(f"thread {handle.id!r} takes no more updates for now: {error.message}") from error
        raise
    except WorkflowUpdateFailedError as error:
        reason = error.cause.message if isinstance(error.cause, ApplicationError) else str(error.cause)
        if "expected but not found" in reason:
            raise NoAnswer(f"the worker of thread {handle.id!r} does not know the update: {reason}") from error
        raise DecisionRefused(handle.id, reason) from error
    status: DecisionStatus = answer["status"]
    return status


def pending_of(view: StatusView) -> tuple[PendingDecision, ...]:
    """What a run with this status waits for."""
    now = int(time() * 1000)
    return tuple(_entry(view.identity, call, call.ticket, now) for call in view.calls if call.ticket is not None)


def _is_of(entry: PendingDecision, thread_id: str) -> bool:
    # Of a run that could not be asked, not every thread above it is known: its id tells.
    return thread_id in entry.path or (entry.unknown is not None and entry.thread_id.startswith(f"{thread_id}/"))


def _entries(view: StatusView | None) -> tuple[PendingDecision, ...]:
    return pending_of(view) if view is not None else ()


async def _waiting(temporal: TemporalClient, thread_id: str | None) -> list[WorkflowExecution]:
    tree = ""
    if thread_id is not None:
        described = await temporal.get_workflow_handle(thread_id).describe()
        tree = f" AND {in_tree(thread_id, described.root_id)}"
    try:
        return [execution async for execution in temporal.list_workflows(_WAITING + tree)]
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        return [execution async for execution in temporal.list_workflows(OPEN_RUNS + tree)]


def _entry(identity: RunIdentity, call: ToolCallView, ticket: SuspensionTicket, now: int) -> PendingDecision:
    asked = ticket.suspension
    return PendingDecision(
        ticket=ticket_id(identity.thread_id, call.call_id),
        thread_id=identity.thread_id,
        run_id=identity.run_id,
        agent_id=identity.agent_id,
        path=_path(identity),
        call_id=call.call_id,
        suspension_id=asked.id,
        tool_name=call.tool_name,
        arguments=ticket.pending.arguments,
        arguments_digest=ticket.arguments_digest,
        message=asked.message,
        action=asked.action,
        since=call.since,
        age=None if call.since is None else max(0.0, (now - call.since) / 1000),
        expires_at=ticket.expires_at,
        resume_mode=ticket.resume_mode,
        remember=ticket.remember,
        response_schema=asked.response_schema,
    )


def _path(identity: RunIdentity) -> tuple[str, ...]:
    """From the root down; a run that was begun before paths were recorded knows its parent alone."""
    parent = identity.parent_thread_id
    return (*(identity.path or ((parent,) if parent else ())), identity.thread_id)


def _unknown(execution: WorkflowExecution, reason: str) -> tuple[PendingDecision, ...]:
    """What the search attributes alone say; without any, that there may be something."""
    attributes = execution.typed_search_attributes
    known = (execution.root_id, execution.parent_id, execution.id)
    return tuple(
        PendingDecision(
            ticket=ticket_id(execution.id, call_id),
            thread_id=execution.id,
            agent_id=attributes.get(_AGENT) or "",
            path=tuple(dict.fromkeys(thread for thread in known if thread)),
            call_id=call_id,
            unknown=reason,
        )
        for call_id in attributes.get(_PENDING) or [""]
    )
