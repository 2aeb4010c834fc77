"""How a run ends: at once, or after everything that it must stop first has stopped."""

from collections.abc import Iterable
from typing import assert_never

from pydantic import JsonValue

from wakeful.contract.base import replace
from wakeful.contract.events import AgentEvent, ToolCallCancel
from wakeful.contract.hooks import LifecyclePhase
from wakeful.contract.ids import is_task_message
from wakeful.contract.messages import MediaBlock, Role
from wakeful.contract.names import TOOL_INTERRUPTED
from wakeful.contract.runs import RunResult, Termination, ThreadMode, ToolCallStatus, status_reason
from wakeful.contract.subagents import child_result
from wakeful.contract.tools import ToolResult
from wakeful.loop.calls.batch import FinishedCall, RunningCall
from wakeful.loop.calls.commit import commit, finish_call, move
from wakeful.loop.machine import revisions
from wakeful.loop.machine.commands import CancelChild, CancelWork, Command, NotifyParent
from wakeful.loop.machine.events import emit_state, end_step, record_fork_point, run_finish, run_start
from wakeful.loop.machine.facts import Submitted
from wakeful.loop.machine.stages import (
    AfterRun,
    AwaitingDecisions,
    AwaitingTasks,
    Cancelling,
    Done,
    Idle,
    Inferring,
    PendingEnd,
)
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.step import context, hooks
from wakeful.loop.subagents import ledger
from wakeful.loop.thread.outcomes import after_rollback, refuse_decisions
from wakeful.loop.thread.submissions import start_next_run


def finish(
    thread: Thread,
    termination: Termination,
    *,
    now: int,
    detail: str | None = None,
    then: AfterRun = AfterRun.END,
    is_failure: bool = False,
) -> Advance:
    """End the run: finish its calls, close its step, run its last hooks, and make its one result."""
    left_behind = own_tasks(thread) if thread.parent is not None else frozenset()
    if left_behind and not is_failure:
        # Nothing above a sub-agent that has ended could reach the tasks it has started.
        return stop_and_finish(thread, termination, now=now, reason=detail, then=then)
    stops = stop_commands(thread, thread.in_flight | left_behind, None)
    moved = Advance(thread, stops, resumed_events(thread)).then(_finish_calls).then(end_step)
    phases = () if is_failure else _last_hooks(moved.thread)
    if not phases:
        return moved.then(_end_now, termination, now=now, detail=detail, then=then)
    result = make_result(moved.thread, termination, detail=detail, then=then)
    return moved.then(hooks.run_at_end, phases, PendingEnd(termination, result, detail, then))


def stop_and_finish(
    thread: Thread,
    termination: Termination,
    *,
    now: int,
    reason: str | None = None,
    then: AfterRun = AfterRun.END,
    requested_by: str | None = None,
) -> Advance:
    """Stop everything in flight and every task that the run has started; end the run when all of it has stopped."""
    running = thread.children.running
    tasks = frozenset(task.task_id for task in running) if then is AfterRun.CLOSE else own_tasks(thread)
    stopping = thread.in_flight | tasks
    if not stopping and requested_by is None:
        return finish(thread, termination, now=now, detail=reason, then=then)
    stage = Cancelling(
        stopping,
        batch=thread.batch,
        reason=reason,
        then=then,
        since=thread.stage.since if isinstance(thread.stage, Inferring) else now,
        termination=termination,
        requested_by=requested_by,
    )
    moved = Advance(thread.entering(stage), stop_commands(thread, stopping, reason), resumed_events(thread))
    return moved if stopping else moved.then(finish_cancelled, stage, now=now)


def finish_cancelled(thread: Thread, cancelling: Cancelling, *, now: int) -> Advance:
    """Everything that the run had to stop has stopped."""
    return finish(thread, cancelling.termination, now=now, detail=cancelling.reason, then=cancelling.then)


def _last_hooks(thread: Thread) -> tuple[LifecyclePhase, ...]:
    run = thread.current
    if run.resolved is None or not run.agent.plugins:
        return ()
    last = (LifecyclePhase.RUN_END,) if run.has_deactivated else (LifecyclePhase.RUN_END, LifecyclePhase.DEACTIVATE)
    return (*hooks.pending_step_end(run), *run.agent.hooks_at(*last))


def on_last_hooks_returned(thread: Thread, ending: PendingEnd, *, now: int) -> Advance:
    """The last hooks have run. An end that they request comes too late: there is one already."""
    ended = thread.with_run(replace(thread.current, requested_end=None))
    return _end_now(ended, ending.termination, now=now, detail=ending.detail, then=ending.then)


def _end_now(thread: Thread, termination: Termination, *, now: int, detail: str | None, then: AfterRun) -> Advance:
    run = thread.current
    waiting, agents = (*run.budget.requests, *run.budget.agents.requests), replace(run.budget.agents, requests=())
    refusals = tuple(map(ledger.refuse_request, waiting))
    ended = thread.with_run(replace(run, held=(), budget=replace(run.budget, requests=(), agents=agents)))
    moved = replace(emit_state(ended), commands=refusals)
    for batch in run.held:
        moved = moved.then(refuse_decisions, batch, "the run has ended", now=now)
    result = make_result(moved.thread, termination, detail=detail, then=then)
    done = moved.thread.entering(Done(result))
    finished = run_finish(done, result, rolled_back=then is AfterRun.ROLL_BACK)
    moved = replace(moved, thread=done, ended=(result,)).emitting(finished)
    return moved.then(_notify_parent, result).then(_after_run, then, now=now)


def make_result(thread: Thread, termination: Termination, *, detail: str | None, then: AfterRun) -> RunResult:
    run, identity = thread.run, thread.identity
    # The queue is empty if the sender of the message that interrupted the run has withdrawn it.
    starts_next = then is not AfterRun.END and thread.queued
    is_last = then is AfterRun.CLOSE or (thread.mode is ThreadMode.RUN and not starts_next)
    result = RunResult(
        thread_id=identity.thread_id,
        run_id=identity.run_id,
        agent_id=identity.agent_id,
        status_reason=status_reason(termination),
        termination=termination,
        detail=detail,
        unread=unread_ids(thread) if is_last else (),
    )
    if run is None:
        return result
    return result.model_copy(
        update={
            "response": run.response,
            "steps": run.step.number,
            "usage": run.usage,
            "output": run.output,
            "artifacts": _files_of_answer(thread),
            "tool_files": run.tool_files if run.revision >= revisions.TOOL_FILES_ARE_REPORTED else (),
            "receipt": run.receipt,
            "spent": ledger.spent_or_none(run),
        }
    )


def unread_ids(thread: Thread) -> tuple[str, ...]:
    """The messages that no run reads until something wakes the thread; late ones wake it themselves."""
    waiting = (*thread.steering, *thread.queued)
    return tuple(later.message.id for later in waiting if not (later.passive or later.late))


def list_unread(thread: Thread) -> Advance:
    """The result of a thread that has ended lists the messages that came afterwards, too."""
    assert isinstance(thread.stage, Done)
    result = thread.stage.result.model_copy(update={"unread": unread_ids(thread)})
    return Advance(thread.entering(Done(result)))


def own_tasks(thread: Thread) -> frozenset[str]:
    """The running tasks that this very run has started."""
    return frozenset(task.task_id for task in thread.children.running if thread.has_started(task))


def resumed_events(thread: Thread) -> tuple[AgentEvent, ...]:
    """A run that had paused is active again, if only to end."""
    return (run_start(thread),) if isinstance(thread.stage, AwaitingDecisions | AwaitingTasks) else ()


def stop_commands(thread: Thread, stopping: Iterable[str], reason: str | None) -> tuple[Command, ...]:
    """The commands that stop this work: activities by their ids, sub-agents and tasks by their threads."""
    threads = {call.id: call.child_thread_id for call in thread.batch.running} if thread.batch else {}
    threads |= {task.task_id: task.thread_id for task in thread.children.running}
    return tuple(
        CancelWork(id) if (child := threads.get(id)) is None else CancelChild(id, child, reason)
        for id in sorted(stopping)
    )


def _finish_calls(thread: Thread) -> Advance:
    """A run that ends within a step keeps what was done: every call gets its one result and the step is committed."""
    batch = thread.batch
    if batch is None:
        return Advance(thread)
    moved = Advance(thread)
    requested_by = thread.stage.requested_by if isinstance(thread.stage, Cancelling) else None
    for call in batch.calls:
        if call.call.id == requested_by and isinstance(call, RunningCall):
            receipt = ToolResult.success(call.call.name, _self_cancel_receipt(thread))
            moved = moved.then(finish_call, call, receipt)
        elif not isinstance(call, FinishedCall):
            result = ToolResult.error(call.call.name, TOOL_INTERRUPTED)
            event = ToolCallCancel(id=call.call.id, name=call.call.name, reason="the run ended")
            moved = moved.then(move, FinishedCall(call.call, ToolCallStatus.CANCELLED, result), event)
    return moved.then(commit).then(record_fork_point)


def _self_cancel_receipt(thread: Thread) -> JsonValue:
    """The receipt of a run that cancelled itself counts the run, too."""
    task, receipt = thread.identity.task, thread.current.receipt
    root = task.task_id if task is not None else thread.identity.run_id
    count = len(receipt.cancelled) if receipt else 0
    return {"status": "accepted", "root_task_id": root, "cancelled_count": count + 1}


def _notify_parent(thread: Thread, result: RunResult) -> Advance:
    """Report the end of a sub-agent to its parent; only its first run was asked for."""
    parent_thread_id, parent = thread.identity.parent_thread_id, thread.parent
    if parent_thread_id is None or parent is None:
        return Advance(thread)
    task, is_task = thread.identity.task, thread.identity.is_task
    name = task.name if is_task and task is not None else None
    command = NotifyParent(parent_thread_id, child_result(parent.work_id, result, name=name), is_task)
    return Advance(replace(thread, parent=None), (command,))


def _files_of_answer(thread: Thread) -> tuple[MediaBlock, ...]:
    """The files of the last message, if it is the run's answer: of a remote agent, the artifacts."""
    if thread.current.revision < revisions.FILES_ARE_REPORTED:
        return ()
    last = next(reversed(thread.transcript.messages), None)
    if last is None or last.role is not Role.ASSISTANT or last.metadata is None:
        return ()
    return last.media if last.metadata.run_id == thread.identity.run_id else ()


def _after_run(thread: Thread, then: AfterRun, *, now: int) -> Advance:
    """The run is over: the thread ends, waits for the next message, or starts the next run."""
    assert isinstance(thread.stage, Done)
    match then:
        case AfterRun.CLOSE if thread.children.running:
            # The thread was closed while the last hooks ran of a run that leaves its tasks running.
            stopping = tuple(task.task_id for task in thread.children.running)
            closing = Idle(thread.stage.result, closing=True, stopping=stopping)
            return Advance(thread.entering(closing), stop_commands(thread, stopping, None))
        case AfterRun.CLOSE:
            return Advance(thread)
        case AfterRun.ROLL_BACK:
            return _after_interruption(_rolled_back(thread), now=now)
        case AfterRun.NEXT_RUN:
            return _after_interruption(thread, now=now)
        case AfterRun.END if thread.mode is ThreadMode.RUN:
            return Advance(thread)
        case AfterRun.END if thread.queued or any(not later.passive for later in thread.steering):
            return start_next_run(thread)
        case AfterRun.END:
            return Advance(thread.entering(Idle(thread.stage.result, since=now)))
        case _:
            assert_never(then)


def _after_interruption(thread: Thread, *, now: int) -> Advance:
    """The message that interrupted the run starts the next one, unless its sender has withdrawn it meanwhile."""
    return start_next_run(thread, interrupted=True) if thread.queued else _after_run(thread, AfterRun.END, now=now)


def _rolled_back(thread: Thread) -> Thread:
    """The thread as it was before the run; mail that the run has read is kept for the next one."""
    mail, run = _mail_to_read_again(thread), thread.current
    transcript = thread.transcript.rewound(run.started_at_position)
    before = run.before or thread.before_run
    return replace(
        after_rollback(thread, mail),
        identity=thread.identity.model_copy(update={"agent_id": before.agent_id}),
        active_agent=before.active_agent,
        requested_agent=before.requested_agent,
        agent_state=thread.agent_state.rolled_back(before.agent_state),
        permissions=before.permissions,
        handed_over=before.handed_over,
        frontend_tools=thread.frontend_tools if before.frontend_tools is None else before.frontend_tools,
        transcript=transcript,
        context=context.rolled_back(thread.context, before.context, transcript.length),
        steering=(*mail, *thread.steering),
    )


def _mail_to_read_again(thread: Thread) -> tuple[Submitted, ...]:
    """Mail was sent once, so the next run has to read it; except of tasks that the undone run started itself."""
    run = thread.current
    own = [task.thread_id or "" for task in thread.children.tasks if thread.has_started(task)]
    start = max(0, run.started_at_position.length - thread.transcript.before.length)
    read = [message for message in thread.transcript.messages[start:] if message.id in run.read_mail]
    return tuple(
        Submitted(message=message, source=message, internal=True, passive=True)
        for message in read
        if not any(is_task_message(message.id, task_thread_id) for task_thread_id in own)
    )
