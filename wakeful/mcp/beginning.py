"""Begin the run that a request asks for, or find the one that it has begun before."""

import asyncio
import uuid
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from wakeful.contract import ids, names
from wakeful.contract.errors import CallerError, NoAnswer, ThreadBusy, ThreadExists
from wakeful.contract.messages import InputMessage
from wakeful.contract.outcomes import Outcome, OutcomeStatus
from wakeful.contract.runs import RunStatus
from wakeful.contract.views import OutcomesView, StatusView
from wakeful.mcp.arguments import AgentArguments
from wakeful.mcp.served import Served

T = TypeVar("T")

_WAITS = (OutcomeStatus.QUEUED, OutcomeStatus.STEERING)


@dataclass(frozen=True)
class Target:
    """What a request is about: the run on a thread that reads a message, or that has an id."""

    thread_id: str
    message_id: str | None = None
    run_id: str | None = None


def start_detached(work: Awaitable[T]) -> asyncio.Future[T]:
    """Start work that is completed even if the request is cancelled: a signal must not be sent by half."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # it counts as seen
    return task


async def detached(work: Awaitable[T]) -> T:
    """Await such work."""
    return await asyncio.shield(start_detached(work))


async def begin(served: Served, agent_id: str, asked: AgentArguments) -> Target:
    """Start a thread, or send the message to an existing one, unless an equal request has done so before.

    A request is repeated if it has the same `request_id`; one without is, if it has the same text and thread as the run
    under way.

    Raises:
        WakefulError: the thread does not exist any more, is not served, or refuses the message.
    """
    named = asked.request_id
    if asked.thread_id is not None and not served.has_opened(asked.thread_id):
        return await _send(served, agent_id, asked, asked.thread_id)  # it was opened elsewhere, or is refused
    thread_id = asked.thread_id or served.new_thread_id(agent_id, named or uuid.uuid4().hex)
    message_id = ids.request_message_id(named) if named else ids.text_message_id(asked.message, 1)
    try:
        message = InputMessage(content=asked.message, id=message_id)
        await served.client.start(agent_id, [message], thread_id=thread_id, tenant=served.tenant, user=served.user)
    except (ThreadBusy, ThreadExists):
        if asked.thread_id is not None:
            return await _send(served, agent_id, asked, thread_id)
    return Target(thread_id, message_id)


async def _send(served: Served, agent_id: str, asked: AgentArguments, thread_id: str) -> Target:
    """Send the message to a thread that exists, unless it has it."""
    served.check_id(thread_id)
    try:
        view = await served.client.status(thread_id)
    except NoAnswer:
        if not served.has_opened(thread_id):
            raise  # whose it is cannot be read
        view = None  # no worker has taken it: a message that it has already has no effect, by its id
    if view is not None:
        served.check_thread(view.identity)
    candidates = _message_ids(asked, view)
    if view is not None and (known := await _known(served, view, candidates, is_named=bool(asked.request_id))):
        return Target(thread_id, known)
    await served.client.send(
        thread_id,
        asked.message,
        agent_id=agent_id,
        message_id=candidates[0],
        tenant=served.tenant,
        user=served.user,
    )
    return Target(thread_id, candidates[0])


def _message_ids(asked: AgentArguments, view: StatusView | None) -> tuple[str, ...]:
    """The id of the message, and those that an equal request may have given it before."""
    if asked.request_id:
        return (ids.request_message_id(asked.request_id),)
    if view is None:
        return (ids.text_message_id(asked.message, 1),)
    if view.status is RunStatus.DONE:
        return (ids.text_message_id(asked.message, view.runs + 1),)
    # It may have been sent while the run before this one was under way.
    return tuple(ids.text_message_id(asked.message, run) for run in (view.runs, view.runs - 1))


async def _known(served: Served, view: StatusView, candidates: tuple[str, ...], *, is_named: bool) -> str | None:
    """The id under which the thread has the message."""
    thread_id = view.identity.thread_id
    request = {"ids": list(candidates)}
    known = await served.client.reader.query(thread_id, names.QUERY_OUTCOMES, OutcomesView, request)
    for outcome in known.outcomes:
        if is_named and outcome.status is OutcomeStatus.WITHDRAWN:
            raise CallerError("the request with this `request_id` was cancelled: use another one to ask again")
        if outcome.id in candidates and _is_under_way(outcome, view, is_named=is_named):
            return outcome.id
    return None


def _is_under_way(outcome: Outcome, view: StatusView, *, is_named: bool) -> bool:
    """Whether a run reads the message or has read it: of one without a `request_id`, the run under way."""
    if not outcome.is_accepted_message or outcome.status in (OutcomeStatus.UNREAD, OutcomeStatus.WITHDRAWN):
        return False
    return is_named or outcome.status in _WAITS or outcome.run == view.runs
