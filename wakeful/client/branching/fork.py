"""Fork a thread: start a new one that continues after any step of it. The thread itself is only read.

This module finds the fork point and checks that a conversation can continue there. The fork's own workflow reads the
conversation (the `restore_thread` activity).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeVar

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from wakeful.client.arguments import check_rules, check_thread_id, rejecting_invalid
from wakeful.client.branching.steps import Step, steps_of
from wakeful.client.start import new_thread_id
from wakeful.client.thread_reader import ThreadReader
from wakeful.client.wake import Described, describe, temporal_priority
from wakeful.client.watching.reading import read_messages
from wakeful.contract import names
from wakeful.contract.base import Wire
from wakeful.contract.carryover import Carryover
from wakeful.contract.errors import CallerError, OtherTenant, ThreadNotFound
from wakeful.contract.messages import Message, Role
from wakeful.contract.requests import Fork, ForkPointRequest, RunRequest, title_of
from wakeful.contract.runs import ForkedFrom, ThreadMode, ThreadModeName
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful.history.decoder import ExecutionRef
from wakeful.history.fork_point import find_fork_point
from wakeful.history.step_spans import step_span
from wakeful.rpc_errors import error_of
from wakeful.telemetry.client_spans import client_span, is_tracing
from wakeful.telemetry.names import SPAN_FORK

V = TypeVar("V", bound=Wire)

SUMMARY_LENGTH = 200
"""Characters of the line that Temporal UI shows of a workflow; the server takes 400 bytes."""


@dataclass(frozen=True)
class ForkRequest:
    """After which step to fork, the message that the fork is sent, its agent, and its thread's id."""

    at: int
    message: str | None = None
    agent_id: str | None = None
    new_thread_id: str | None = None
    mode: ThreadMode | ThreadModeName = ThreadMode.RUN
    options: Mapping[str, Any] = field(default_factory=dict)
    """The fields of its request that `RunOptions` names."""


async def fork_thread(reader: ThreadReader, thread_id: str, fork: ForkRequest) -> str:
    """Start the fork, on its origin's task queue, and return its thread's id.

    Raises:
        CallerError: there is no such step, it has not ended, it needs a message, or the new id is taken or not valid.
        ThreadNotFound: there is no such thread.
    """
    if fork.new_thread_id is not None:
        check_thread_id(fork.new_thread_id)
    temporal = reader.temporal
    origin = await describe(temporal, thread_id)
    if origin is None:
        raise ThreadNotFound(thread_id)
    # All from one execution: the thread may continue meanwhile.
    messages = await read_messages(reader, thread_id, run_id=origin.run_id)
    inherited = inherited_messages(thread_id, messages, fork.at)
    if not fork.message and messages[inherited - 1].role is Role.ASSISTANT:
        reason = f"step {fork.at} of thread {thread_id!r} is an answer, so the model has nothing to continue with"
        raise CallerError(f"{reason}: give the fork a message")
    digest = reduce(chained, messages[:inherited], EMPTY_DIGEST)
    point = ForkPointRequest(messages=inherited, digest=digest)
    run_id, kept = await _find_fork_point(reader, origin, fork.at, point)
    if (tenant := fork.options.get("tenant")) not in (None, kept.tenant):
        raise OtherTenant(thread_id, tenant)
    with rejecting_invalid():
        request = RunRequest(
            agent_id=fork.agent_id or kept.agent_id or "",
            input=fork.message or "",
            mode=fork.mode,
            fork=Fork(thread_id=thread_id, run_id=run_id, step=fork.at, messages=inherited, digest=digest),
            title=None if fork.message else await _title(origin),
            **{**fork.options, "tenant": kept.tenant},
        )
    check_rules(request.permissions)
    origin_span = await step_span(temporal, ExecutionRef(thread_id, run_id), inherited) if is_tracing() else None
    with client_span(SPAN_FORK, thread_id=thread_id, agent_id=request.agent_id, origin=origin_span):
        return await _start(temporal, request, fork.new_thread_id, task_queue=origin.task_queue)


def inherited_messages(thread_id: str, messages: Sequence[Message], at: int) -> int:
    """How many messages a fork after step `at` inherits: none that was sent to the thread later.

    Raises:
        CallerError: there is no such step, or it has not ended.
    """
    steps = steps_of(messages)
    if not 0 <= at <= len(steps):
        number = f"{len(steps)} step{'' if len(steps) == 1 else 's'}"
        raise CallerError(f"thread {thread_id!r} has {number}, so there is no step {at} to fork it after")
    if at == 0:
        inherited = steps[0].start if steps else len(messages)
        if not inherited:
            raise CallerError(f"thread {thread_id!r} has no message before its first step")
        return inherited
    step = steps[at - 1]
    if missing := missing_results(messages, step):
        raise CallerError(f"step {at} of thread {thread_id!r} has not ended: {missing} has not returned")
    return end_of(messages, step)


def missing_results(messages: Sequence[Message], step: Step) -> str:
    """The calls of a step that have no result."""
    returned = {message.tool_call_id for message in messages[step.start : step.end]}
    return ", ".join(f"{call.name} ({call.id})" for call in messages[step.start].tool_calls if call.id not in returned)


def end_of(messages: Sequence[Message], step: Step) -> int:
    """The position after the step's results and the messages that the loop added to them."""
    end = step.end
    while end < len(messages) and messages[end].metadata == messages[step.start].metadata:
        end += 1
    return end


async def _find_fork_point(
    reader: ThreadReader, origin: Described, at: int, request: ForkPointRequest
) -> tuple[str, Carryover]:
    """The execution of the origin that has the fork point, or that leads to it, and what the thread kept there."""

    async def ask(execution: ExecutionRef, name: str, kind: type[V], argument: object = None, /) -> V:
        return await reader.query(execution.thread_id, name, kind, argument, run_id=execution.run_id)

    found = await find_fork_point(ask, reader.archives, ExecutionRef(origin.id, origin.run_id), request)
    kept = found.view.carryover
    if kept is None or kept.agent_id is None:
        raise CallerError(f"step {at} of thread {origin.id!r} is just ending: retry in a moment")
    return found.run_id, kept


async def _title(origin: Described) -> str | None:
    title = await origin.memo_value(names.MEMO_TITLE, None)
    return title if isinstance(title, str) and title else None


async def _start(temporal: Client, request: RunRequest, thread_id: str | None, *, task_queue: str) -> str:
    assert request.fork is not None
    thread_id = thread_id or new_thread_id(request.agent_id)
    title, origin = title_of(request), ForkedFrom(thread_id=request.fork.thread_id, step=request.fork.step)
    summary = f"{request.agent_id}: {title} (fork of {origin.thread_id} after step {origin.step})"
    try:
        await temporal.start_workflow(
            names.WORKFLOW,
            request,
            id=thread_id,
            task_queue=task_queue,
            # A closed thread counts, too: it would become unreachable under its id.
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            memo={names.MEMO_TITLE: title, names.MEMO_FORKED_FROM: origin},
            priority=temporal_priority(request),
            static_summary=summary if len(summary) <= SUMMARY_LENGTH else summary[: SUMMARY_LENGTH - 1] + "…",
        )
    except WorkflowAlreadyStartedError as error:
        raise CallerError(f"there is a thread {thread_id!r} already: choose another id for the fork") from error
    except RPCError as error:
        raise error_of(error, thread_id) from error
    return thread_id
