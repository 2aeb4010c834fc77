"""Rewind a thread: undo everything after one of its steps, and call the model again from there.

Temporal resets the thread's workflow: it starts a new execution with the history up to a workflow task. This module
does what the server does not: it finds that task, cancels the children that the thread has started since, and sends the
signals again that other threads have sent it since. Side effects of tools are not undone.
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
from wakeful.client.thread_reader import ThreadReader
from wakeful.client.wake import WakeSignal, describe, signal_or_wake
from wakeful.client.watching.reading import read_messages
from wakeful.contract import names
from wakeful.contract.base import Few, Wire
from wakeful.contract.errors import CallerError, ThreadNotFound
from wakeful.contract.ids import is_descendant
from wakeful.contract.subagents import CLOSED_SILENTLY, ChildResult
from wakeful.contract.tasks import TaskStatus
from wakeful.contract.views import StatusView
from wakeful.history.decoder import ExecutionRef
from wakeful.history.timeline import ChildClosed, ChildInitiated, MessageSent, ThreadSignal, Timeline, read_timeline
from wakeful.rpc_errors import error_of

PARENT_REWOUND = "its parent was rewound"

_REAPPLY_NOTHING = (
    ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL,
    ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_UPDATE,
    ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_NEXUS,
    ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_CANCEL_REQUEST,
)
"""The server would otherwise reapply the messages and decisions that are undone."""


class Rewound(Wire):
    """The result of a rewind."""

    thread_id: str
    step: int
    """The last step that is retained."""
    undone: int
    """How many steps came after it."""
    cancelled: Few[tuple[str, ...]] = ()
    """The threads of sub-agents and background tasks that were started after it and were still running."""
    resent: Few[int] = 0
    """How many signals of other threads were sent again: results of children, task events, mail."""
    run_id: str
    """The execution in which the thread continues (a Temporal run id)."""


@dataclass(frozen=True)
class RewindPlan:
    """What a rewind will do, as the thread is now."""

    thread_id: str
    step: int
    reset_point: ResetPoint
    undone: tuple[Step, ...]
    messages: int
    """How many messages are undone."""
    children: tuple[str, ...]
    """The threads of children that were started since then and have not settled."""
    executions: tuple[str, ...]
    """The executions of the thread from the one with the reset point on (Temporal run ids)."""


async def plan_rewind(reader: ThreadReader, thread_id: str, *, to: int) -> RewindPlan:
    """Find out what a rewind to the end of step `to` would undo; nothing is changed yet.

    Raises:
        CallerError: there is no such step, nothing came after it, or the thread is a sub-agent's.
        NoAnswer: the thread cannot be read.
    """
    temporal = reader.temporal
    newest = await describe(temporal, thread_id)
    if newest is None:
        raise ThreadNotFound(thread_id)
    identity = (await reader.query(thread_id, names.QUERY_STATUS, StatusView)).identity
    if identity.parent_thread_id is not None:
        root = identity.path[0] if identity.path else identity.parent_thread_id
        raise CallerError(f"thread {thread_id!r} is a sub-agent's: rewind its root {root!r}, or fork it")
    messages = await read_messages(reader, thread_id)
    steps = steps_of(messages)
    first = identity.forked_from.step if identity.forked_from else 0
    if not 0 <= to <= len(steps):
        raise CallerError(f"thread {thread_id!r} has no step {to}: its newest is {len(steps)}")
    if to < first:
        raise CallerError(f"thread {thread_id!r} was forked after step {first}: earlier steps are its origin's")
    finder = ResetPointFinder(temporal, thread_id, messages, steps)
    reset_point = await finder.find(newest.run_id, to, is_first=to == first)
    timelines = finder.timelines
    base = next(number for number, timeline in enumerate(timelines) if timeline.run_id == reset_point.run_id)
    undone = _Undone.after(reset_point, timelines[base:])
    return RewindPlan(
        thread_id=thread_id,
        step=to,
        reset_point=reset_point,
        undone=steps[to:],
        messages=len(messages) - reset_point.messages,
        children=tuple(child.thread_id for child in undone.children if child.thread_id not in undone.settled),
        executions=tuple(timeline.run_id for timeline in timelines[base:]),
    )


@dataclass(frozen=True)
class _Undone:
    """What comes after a reset point: the children that were started, and the signals of other threads."""

    children: tuple[ChildInitiated, ...]
    signals: tuple[ThreadSignal, ...]
    """Those that are to be sent again: they are not about children or messages that are undone, too."""
    settled: frozenset[str]
    """The threads of children that have reported their results."""

    @classmethod
    def after(cls, reset_point: ResetPoint, timelines: Sequence[Timeline]) -> "_Undone":
        """From the timelines of the executions from the one with the reset point on."""
        starts = [(each, reset_point.task if each.run_id == reset_point.run_id else 0) for each in timelines]
        children = [child for timeline, event in starts for child in timeline.of(ChildInitiated, after=event)]
        sent = {message.message_id for timeline, event in starts for message in timeline.of(MessageSent, after=event)}
        signals = [signal for timeline, event in starts for signal in timeline.of(ThreadSignal, after=event)]
        settled = {
            signal.sender
            for timeline in timelines
            for signal in timeline.of(ThreadSignal)
            if signal.signal == names.SIGNAL_CHILD_SETTLED
        }
        signals += _silent_ends(timelines[0], reset_point, settled)
        about_undone = sent | {child.work_id for child in children}
        undone = tuple(child.thread_id for child in children)
        again = (each for each in signals if each.about not in about_undone and not _is_in_any(each.sender, undone))
        return cls(tuple(children), tuple(again), frozenset(settled))


def _is_in_any(thread_id: str, roots: Sequence[str]) -> bool:
    return any(thread_id == root or is_descendant(thread_id, root) for root in roots)


def _silent_ends(base: Timeline, reset_point: ResetPoint, settled: set[str]) -> list[ThreadSignal]:
    """Signals for children that closed without one: the server reported that only to the execution that is undone."""
    work = {child.thread_id: child.work_id for child in base.of(ChildInitiated) if child.event < reset_point.task}
    signals: list[ThreadSignal] = []
    for closed in base.of(ChildClosed, after=reset_point.task):
        work_id = work.get(closed.thread_id)
        if work_id and closed.thread_id not in settled:
            error = closed.error or CLOSED_SILENTLY
            result = ChildResult(work_id=work_id, thread_id=closed.thread_id, status=TaskStatus.FAILED, error=error)
            payload = result.model_dump(mode="json")
            signals.append(ThreadSignal(closed.event, names.SIGNAL_CHILD_SETTLED, payload, closed.thread_id, work_id))
    return signals


async def rewind(reader: ThreadReader, plan: RewindPlan, *, reason: str | None = None) -> Rewound:
    """Perform a plan. What the thread has done since it was made is undone as well.

    Raises:
        WakefulError: Temporal rejected the reset; then nothing has changed.
    """
    temporal = reader.temporal
    run_id = await _reset(temporal, plan, reason or f"rewound to step {plan.step}")
    undone = _Undone.after(plan.reset_point, await _read_undone(temporal, plan))
    cancelled = await asyncio.gather(*(_cancel(temporal, child.thread_id) for child in undone.children))
    for signal in undone.signals:
        await _send_again(reader, plan.thread_id, signal)
    return Rewound(
        thread_id=plan.thread_id,
        step=plan.step,
        undone=len(plan.undone),
        cancelled=tuple(child.thread_id for child, was in zip(undone.children, cancelled, strict=True) if was),
        resent=len(undone.signals),
        run_id=run_id,
    )


async def _reset(temporal: Client, plan: RewindPlan, reason: str) -> str:
    request = ResetWorkflowExecutionRequest(
        namespace=temporal.namespace,
        workflow_execution=WorkflowExecution(workflow_id=plan.thread_id, run_id=plan.reset_point.run_id),
        reason=reason,
        workflow_task_finish_event_id=plan.reset_point.task,
        request_id=uuid.uuid4().hex,
        reset_reapply_type=ResetReapplyType.RESET_REAPPLY_TYPE_NONE,
        reset_reapply_exclude_types=_REAPPLY_NOTHING,
        identity=temporal.identity,
    )
    try:
        return (await temporal.workflow_service.reset_workflow_execution(request)).run_id
    except RPCError as error:
        raise error_of(error, plan.thread_id) from error


async def has_continued(temporal: Client, thread_id: str) -> bool:
    """Whether a thread whose execution was terminated has a newer one: a reset terminates one and starts another."""
    newest = await describe(temporal, thread_id)
    return newest is not None and newest.status is not WorkflowExecutionStatus.TERMINATED


async def _read_undone(temporal: Client, plan: RewindPlan) -> list[Timeline]:
    """The executions that are undone, read after the reset has closed them: they may have changed since the plan."""
    timelines: list[Timeline] = []
    unread: list[str] = list(plan.executions)
    while unread:
        try:
            timelines.append(await read_timeline(temporal, ExecutionRef(plan.thread_id, unread.pop(0))))
        except RPCError as error:
            raise error_of(error, plan.thread_id) from error
        if not unread and (successor := timelines[-1].successor):
            unread.append(successor)
    return timelines


async def _cancel(temporal: Client, thread_id: str) -> bool:
    """Whether it was still running; it cancels its descendants itself."""
    try:
        await temporal.get_workflow_handle(thread_id).signal(names.SIGNAL_CANCEL, {"reason": PARENT_REWOUND})
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise error_of(error, thread_id) from error
        return False
    return True


async def _send_again(reader: ThreadReader, thread_id: str, signal: ThreadSignal) -> None:
    """Send a signal to the rewound thread. Results and mail wake it if it has ended, as they do the first time."""
    if signal.signal in (names.SIGNAL_CHILD_SETTLED, names.SIGNAL_DELIVER):
        wake = WakeSignal(signal.signal, signal.payload, None, "a background task has ended")
        await signal_or_wake(reader, thread_id, wake, queue_of=lambda closed: closed.task_queue if closed else "")
        return
    try:
        await reader.temporal.get_workflow_handle(thread_id).signal(signal.signal, signal.payload)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise error_of(error, thread_id) from error
