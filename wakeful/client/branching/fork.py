"""Fork a thread: start a new one that goes on after any step of it. The thread itself is only asked, never told.

The fork's workflow reads by itself what it goes on from (the `restore_thread` activity). Here the place is found, and
whether it is one that a conversation can go on from.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pydantic import ValidationError
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from wakeful.client.branching.steps import Step, steps_of
from wakeful.client.queries import query
from wakeful.client.wake import Described, describe
from wakeful.client.watching.reading import read_messages
from wakeful.contract import names
from wakeful.contract.errors import CallerError, ThreadNotFound, validation_problems
from wakeful.contract.messages import Message, Role
from wakeful.contract.requests import Fork, ForkPointRequest, RunRequest, title_of
from wakeful.contract.runs import ForkedFrom, ThreadMode
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful.contract.views import ForkPointView
from wakeful.rpc_errors import error_of

SUMMARY_LENGTH = 200
"""Characters of the line that Temporal UI shows of a workflow; the server takes 400 bytes."""


@dataclass(frozen=True)
class ForkRequest:
    """What a fork is to be: what is said after which step, who answers, and what it is called."""

    at: int
    message: str | None = None
    agent_id: str | None = None
    new_thread_id: str | None = None
    mode: ThreadMode = ThreadMode.RUN


async def fork_thread(temporal: Client, thread_id: str, wish: ForkRequest) -> str:
    """Start the fork, on its origin's task queue, and return its thread's id.

    Raises:
        CallerError: there is no such step, it is not over, it has left nothing to answer, or the new id is taken.
        ThreadNotFound: there is no such thread.
    """
    origin = await describe(temporal, thread_id)
    if origin is None:
        raise ThreadNotFound(thread_id)
    # One execution answers everything: what the thread goes on to do meanwhile changes nothing.
    messages = await read_messages(temporal, thread_id, run_id=origin.run_id)
    kept = kept_messages(thread_id, messages, wish.at)
    if not wish.message and is_answer(messages[kept - 1]):
        reason = f"step {wish.at} of thread {thread_id!r} is an answer, and nothing is left to do"
        raise CallerError(f"{reason}: give the fork a message to go on with")
    digest = reduce(chained, messages[:kept], EMPTY_DIGEST)
    run_id, agent_id = await _place(temporal, origin, wish.at, ForkPointRequest(messages=kept, digest=digest))
    try:
        request = RunRequest(
            agent_id=wish.agent_id or agent_id,
            input=wish.message or "",
            mode=wish.mode,
            fork=Fork(thread_id=thread_id, run_id=run_id, step=wish.at, messages=kept, digest=digest),
            title=None if wish.message else await _title(origin),
        )
    except ValidationError as error:
        raise CallerError("; ".join(validation_problems(error))) from None
    return await _start(temporal, request, wish.new_thread_id, task_queue=origin.task_queue)


def kept_messages(thread_id: str, messages: Sequence[Message], at: int) -> int:
    """How many messages a fork keeps that goes on after step `at`: none that was said to the thread later.

    Raises:
        CallerError: there is no such step, or it is not over.
    """
    steps = steps_of(messages)
    if not 0 <= at <= len(steps):
        number = f"{len(steps)} step{'' if len(steps) == 1 else 's'}"
        raise CallerError(f"thread {thread_id!r} has {number}, so there is no step {at} to fork it after")
    if at == 0:
        kept = steps[0].asked if steps else len(messages)
        if not kept:
            raise CallerError(f"nothing was said on thread {thread_id!r} before its first step")
        return kept
    step = steps[at - 1]
    if missing := _missing(messages, step):
        raise CallerError(f"step {at} of thread {thread_id!r} is not over: {missing} has not returned")
    return _end(messages, step)


def is_answer(message: Message) -> bool:
    """The model has said it all: it is not its turn."""
    return message.role is Role.ASSISTANT


def _missing(messages: Sequence[Message], step: Step) -> str:
    """The calls of a step that have no result, in words."""
    returned = {message.tool_call_id for message in messages[step.asked : step.end]}
    return ", ".join(f"{call.name} ({call.id})" for call in messages[step.asked].tool_calls if call.id not in returned)


def _end(messages: Sequence[Message], step: Step) -> int:
    """After the step's results, and what the loop itself had to say to them."""
    end = step.end
    while end < len(messages) and messages[end].metadata == messages[step.asked].metadata:
        end += 1
    return end


async def _place(temporal: Client, origin: Described, at: int, asked: ForkPointRequest) -> tuple[str, str]:
    """The execution of the origin that has the place, or that leads to it, and who answers there."""
    thread_id, run_id = origin.id, origin.run_id
    execution = run_id
    while True:
        point = await query(temporal, thread_id, names.QUERY_FORK_POINT, ForkPointView, asked, run_id=execution)
        if (earlier := point.earlier) is None:
            break
        # A step that the origin has from its own origin: the fork is still the fork of whom its maker has named.
        thread_id, execution = earlier.thread_id or thread_id, earlier.run_id
        run_id = execution if thread_id == origin.id else run_id
    if point.carryover is None or point.carryover.agent_id is None:
        raise CallerError(f"step {at} of thread {origin.id!r} is just ending: try again in a moment")
    return run_id, point.carryover.agent_id


async def _title(origin: Described) -> str | None:
    title = await origin.memo_value(names.MEMO_TITLE, None)
    return title if isinstance(title, str) and title else None


async def _start(temporal: Client, request: RunRequest, thread_id: str | None, *, task_queue: str) -> str:
    assert request.fork is not None
    thread_id = thread_id or f"{request.agent_id}-{uuid.uuid4().hex[:12]}"
    title, whence = title_of(request), ForkedFrom(thread_id=request.fork.thread_id, step=request.fork.step)
    summary = f"{request.agent_id}: {title} ({fork_words(whence)})"
    try:
        await temporal.start_workflow(
            names.WORKFLOW,
            request,
            id=thread_id,
            task_queue=task_queue,
            # Not even of a thread that is closed: its conversation would be lost from sight.
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            memo={names.MEMO_TITLE: title, names.MEMO_FORKED_FROM: whence},
            static_summary=summary if len(summary) <= SUMMARY_LENGTH else summary[: SUMMARY_LENGTH - 1] + "…",
        )
    except WorkflowAlreadyStartedError as error:
        raise CallerError(f"there is a thread {thread_id!r} already: a fork needs an id of its own") from error
    except RPCError as error:
        raise error_of(error, thread_id) from error
    return thread_id


def fork_words(whence: ForkedFrom) -> str:
    """Where a fork comes from, in words."""
    return f"fork of {whence.thread_id} after step {whence.step}"
