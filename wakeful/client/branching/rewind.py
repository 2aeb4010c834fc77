"""Rewind a thread: undo everything after one of its steps, and have the model asked again from there.

Temporal resets the thread's workflow, which opens a new execution with the history up to a workflow task. Here is found
which task that is, and what the server does not do: whatever the thread has started since is cancelled, and what others
told it since is told again. What tools did outside stays done.
"""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import ResetReapplyExcludeType, ResetReapplyType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.branching.reset_points import ResetPoint, ResetPointFinder
from wakeful.client.branching.steps import Step, steps_of
from wakeful.client.queries import query
from wakeful.client.wake import WakeSignal, describe, signal_or_wake
from wakeful.client.watching.reading import read_messages
from wakeful.contract import names
from wakeful.contract.base import Few, Wire
from wakeful.contract.errors import CallerError, ThreadNotFound
from wakeful.contract.subagents import CLOSED_SILENTLY, ChildResult
from wakeful.contract.tasks import TaskStatus
from wakeful.contract.views import StatusView
from wakeful.history.decoder import ExecutionRef
from wakeful.history.timeline import ChildClosed, ChildInitiated, MessageSent, ThreadSignal, Timeline, read_timeline
from wakeful.rpc_errors import error_of

REWOUND = "its parent was rewound"

_NOTHING_AGAIN = (
    ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL,
    ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_UPDATE,
    ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_NEXUS,
    ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_CANCEL_REQUEST,
)
"""The server would otherwise bring back the messages and decisions that are undone."""


class Rewound(Wire):
    """What a rewind has done."""

    thread_id: str
    step: int
    """The newest step that is left."""
    undone: int
    """How many steps came after it."""
    cancelled: Few[tuple[str, ...]] = ()
    """The threads of sub-agents and background tasks that were started after it and still ran."""
    told_again: Few[int] = 0
    """What other threads had told since then, and were still to tell: ends, events, letters."""
    run_id: str
    """The execution in which the thread goes on (a Temporal run id)."""


@dataclass(frozen=True)
class RewindPlan:
    """What a rewind will do, as things stand."""

    thread_id: str
    step: int
    place: ResetPoint
    undone: tuple[Step, ...]
    messages: int
    """How many messages are undone."""
    children: tuple[str, ...]
    """The threads that were started since then and have not said that they ended."""
    executions: tuple[str, ...]
    """The executions of the thread from the one that has the place on (Temporal run ids)."""


async def plan_rewind(temporal: Client, thread_id: str, *, to: int) -> RewindPlan:
    """Find out what a rewind to after step `to` undoes; nothing is changed yet.

    Raises:
        CallerError: there is no such step, nothing came after it, or the thread is a sub-agent's.
        NoAnswer: no worker told what the thread has said.
    """
    newest = await describe(temporal, thread_id)
    if newest is None:
        raise ThreadNotFound(thread_id)
    identity = (await query(temporal, thread_id, names.QUERY_STATUS, StatusView)).identity
    if identity.parent_thread_id is not None:
        root = identity.path[0] if identity.path else identity.parent_thread_id
        raise CallerError(f"thread {thread_id!r} is a sub-agent's: rewind its root {root!r}, or fork it")
    messages = await read_messages(temporal, thread_id)
    steps = steps_of(messages)
    first = identity.forked_from.step if identity.forked_from else 0
    if not 0 <= to <= len(steps):
        raise CallerError(f"thread {thread_id!r} has no step {to}: its newest is {len(steps)}")
    if to < first:
        raise CallerError(f"thread {thread_id!r} was forked after step {first}: what came before is not its own")
    finder = ResetPointFinder(temporal, thread_id, messages, steps)
    place = await finder.find(newest.run_id, to, is_first=to == first)
    past = finder.timelines
    base = next(number for number, timeline in enumerate(past) if timeline.run_id == place.run_id)
    undone = _Undone.of(past[base:], place)
    return RewindPlan(
        thread_id=thread_id,
        step=to,
        place=place,
        undone=steps[to:],
        messages=len(messages) - place.messages,
        children=tuple(child.thread_id for child in undone.children if child.thread_id not in undone.ended),
        executions=tuple(timeline.run_id for timeline in past[base:]),
    )


@dataclass(frozen=True)
class _Undone:
    """What stands after a place: the children that were started there, and what came from other threads."""

    children: tuple[ChildInitiated, ...]
    heard: tuple[ThreadSignal, ...]
    ended: frozenset[str]
    """The threads of children that have said so."""

    @classmethod
    def of(cls, past: Sequence[Timeline], place: ResetPoint) -> "_Undone":
        """Of the executions from the one on that has the place."""
        after = [(timeline, place.task if timeline.run_id == place.run_id else 0) for timeline in past]
        children = [child for timeline, event in after for child in timeline.of(ChildInitiated, after=event)]
        undelivered = {
            letter.message_id for timeline, event in after for letter in timeline.of(MessageSent, after=event)
        }
        heard = [word for timeline, event in after for word in timeline.of(ThreadSignal, after=event)]
        ended = {word.sender for timeline in past for word in timeline.of(ThreadSignal) if _is_end(word)}
        heard += _unsaid(past[0], place, ended)
        gone = tuple(child.thread_id for child in children)
        about = undelivered | {child.work_id for child in children}
        kept = tuple(word for word in heard if word.about not in about and not _is_below(word.sender, gone))
        return cls(tuple(children), kept, frozenset(ended))


def _is_end(word: ThreadSignal) -> bool:
    return word.signal == names.SIGNAL_CHILD_SETTLED


def _is_below(thread_id: str, tops: Sequence[str]) -> bool:
    return any(thread_id == top or thread_id.startswith(f"{top}/") for top in tops)


def _unsaid(base: Timeline, place: ResetPoint, ended: set[str]) -> list[ThreadSignal]:
    """The ends of children that said nothing: the server told the execution that is undone, and tells no other."""
    work = {child.thread_id: child.work_id for child in base.of(ChildInitiated) if child.event < place.task}
    said: list[ThreadSignal] = []
    for closed in base.of(ChildClosed, after=place.task):
        work_id = work.get(closed.thread_id)
        if work_id and closed.thread_id not in ended:
            error = closed.error or CLOSED_SILENTLY
            settled = ChildResult(work_id=work_id, thread_id=closed.thread_id, status=TaskStatus.FAILED, error=error)
            payload = settled.model_dump(mode="json")
            said.append(ThreadSignal(closed.event, names.SIGNAL_CHILD_SETTLED, payload, closed.thread_id, work_id))
    return said


async def rewind(temporal: Client, plan: RewindPlan, *, reason: str | None = None) -> Rewound:
    """Do what was planned. What the thread has done since is undone as well.

    Raises:
        WakefulError: Temporal refused; then nothing has changed.
    """
    run_id = await _reset(temporal, plan, reason or f"rewound to step {plan.step}")
    undone = _Undone.of(await _past(temporal, plan), plan.place)
    cancelled = await asyncio.gather(*(_cancelled(temporal, child.thread_id) for child in undone.children))
    for word in undone.heard:
        await _tell_again(temporal, plan.thread_id, word)
    return Rewound(
        thread_id=plan.thread_id,
        step=plan.step,
        undone=len(plan.undone),
        cancelled=tuple(child.thread_id for child, was in zip(undone.children, cancelled, strict=True) if was),
        told_again=len(undone.heard),
        run_id=run_id,
    )


async def _reset(temporal: Client, plan: RewindPlan, reason: str) -> str:
    request = ResetWorkflowExecutionRequest(
        namespace=temporal.namespace,
        workflow_execution=WorkflowExecution(workflow_id=plan.thread_id, run_id=plan.place.run_id),
        reason=reason,
        workflow_task_finish_event_id=plan.place.task,
        request_id=uuid.uuid4().hex,
        reset_reapply_type=ResetReapplyType.RESET_REAPPLY_TYPE_NONE,
        reset_reapply_exclude_types=_NOTHING_AGAIN,
        identity=temporal.identity,
    )
    try:
        return (await temporal.workflow_service.reset_workflow_execution(request)).run_id
    except RPCError as error:
        raise error_of(error, plan.thread_id) from error


async def goes_on(temporal: Client, thread_id: str) -> bool:
    """Whether a thread whose execution was terminated has another one: a reset terminates the one before."""
    newest = await describe(temporal, thread_id)
    return newest is not None and newest.status is not WorkflowExecutionStatus.TERMINATED


async def _past(temporal: Client, plan: RewindPlan) -> list[Timeline]:
    """What is undone, read after the reset has closed it: the thread may have gone on since the plan was made."""
    past: list[Timeline] = []
    wanted: list[str] = list(plan.executions)
    while wanted:
        try:
            past.append(await read_timeline(temporal, ExecutionRef(plan.thread_id, wanted.pop(0))))
        except RPCError as error:
            raise error_of(error, plan.thread_id) from error
        if not wanted and (following := past[-1].successor):
            wanted.append(following)
    return past


async def _cancelled(temporal: Client, thread_id: str) -> bool:
    """Whether it still ran; it stops what is below it itself."""
    try:
        await temporal.get_workflow_handle(thread_id).signal(names.SIGNAL_CANCEL, {"reason": REWOUND})
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise error_of(error, thread_id) from error
        return False
    return True


async def _tell_again(temporal: Client, thread_id: str, word: ThreadSignal) -> None:
    """An end and a letter wake a thread that has ended, as they do when they come for the first time."""
    spoken = WakeSignal(word.signal, word.payload, None, "a background task has ended")
    if word.signal in (names.SIGNAL_CHILD_SETTLED, names.SIGNAL_DELIVER):
        await signal_or_wake(temporal, thread_id, spoken, queue_of=lambda closed: closed.task_queue if closed else "")
        return
    try:
        await temporal.get_workflow_handle(thread_id).signal(word.signal, word.payload)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise error_of(error, thread_id) from error
