"""Cancel a run or close its thread: stop everything in flight with its descendants, and wait until it has stopped."""

from wakeful.contract.base import replace
from wakeful.contract.names import SIGNAL_CANCEL
from wakeful.contract.runs import Blocked, Cancelled, Stopped
from wakeful.contract.tools import ToolOutcome, ToolStatus
from wakeful.loop.calls.batch import RunningCall, finished
from wakeful.loop.calls.commit import finish_blocked, finish_failed, finish_with, running_call
from wakeful.loop.machine.events import answer_events, refuse
from wakeful.loop.machine.facts import (
    CancelRequested,
    HooksReturned,
    InferenceReturned,
    ToolReturned,
    WorkFact,
    WorkFailed,
)
from wakeful.loop.machine.stages import AfterRun, Cancelling, Done, Idle, PendingEnd, RunningHooks
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.step.hooks import apply_effects
from wakeful.loop.subagents import mail
from wakeful.loop.thread.ending import (
    finish,
    finish_cancelled,
    make_result,
    stop_and_finish,
    stop_commands,
    unread_ids,
)
from wakeful.loop.thread.outcomes import run_problem

_RANK = list(AfterRun)


def on_cancel_requested(thread: Thread, fact: CancelRequested, *, now: int) -> Advance:
    """Cancel or close for a client. A cancel that names a run stops that alone: not the tasks of an idle thread."""
    if fact.run_id is not None:
        ended = f"it is for run {fact.run_id!r}, which has ended" if isinstance(thread.stage, Idle) else None
        if (problem := run_problem(thread, fact.run_id) or ended) is not None:
            return refuse(thread, SIGNAL_CANCEL, problem, now=now)
    return cancel(thread, fact.reason, now=now, then=AfterRun.CLOSE if fact.close else AfterRun.END)


def cancel(thread: Thread, reason: str | None, *, now: int, then: AfterRun = AfterRun.END) -> Advance:
    """Stop everything in flight; the run ends when it has stopped. A second cancel is a no-op."""
    match thread.stage:
        case Cancelling() as cancelling:
            return _cancel_again(thread, cancelling, reason, then=then)
        case RunningHooks(ending=PendingEnd() as ending) as stage:
            # The run is ending already; only what follows it may still change.
            after = max(ending.then, then, key=_RANK.index)
            detail = _joined(ending.detail, reason) if then is AfterRun.CLOSE else ending.detail
            return Advance(thread.entering(replace(stage, ending=replace(ending, then=after, detail=detail))))
        case Idle() as idle if thread.children.running:
            stopping = tuple(task.task_id for task in thread.children.running)
            closes = then is AfterRun.CLOSE
            why = _joined(idle.reason, reason) if closes else idle.reason
            idle = replace(idle, closing=idle.closing or closes, stopping=stopping, reason=why)
            return Advance(thread.entering(idle), stop_commands(thread, stopping, reason))
        case Idle() if then is AfterRun.CLOSE:
            return Advance(thread.entering(_closed(thread, reason)))
        case Idle():
            return refuse(thread, SIGNAL_CANCEL, "no run is under way", now=now)
        case _:
            return stop_and_finish(thread, Cancelled(), now=now, reason=reason, then=then)


def _cancel_again(thread: Thread, cancelling: Cancelling, reason: str | None, *, then: AfterRun) -> Advance:
    """The run is being cancelled already: only a first reason, a rollback or the close of the thread adds anything."""
    if then not in (AfterRun.ROLL_BACK, AfterRun.CLOSE) or cancelling.then is AfterRun.CLOSE:
        if cancelling.reason is not None or reason is None:
            return Advance(thread)
        return Advance(thread.entering(replace(cancelling, reason=reason)))
    tasks = {task.task_id for task in thread.children.running} if then is AfterRun.CLOSE else set()
    more = tasks - cancelling.in_flight
    stage = replace(
        cancelling, then=then, in_flight=cancelling.in_flight | more, reason=_joined(cancelling.reason, reason)
    )
    return Advance(thread.entering(stage), stop_commands(thread, more, reason))


def _closed(thread: Thread, reason: str | None) -> Done:
    """A thread that closes between two runs ends with its last result, if it had one."""
    result = thread.result or make_result(thread, Cancelled(), detail=None, then=AfterRun.CLOSE)
    return Done(result.model_copy(update={"unread": unread_ids(thread), "detail": _joined(result.detail, reason)}))


def _joined(*reasons: str | None) -> str | None:
    """All reasons that were given, each once, the first one first."""
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason)) or None


def expire(thread: Thread) -> Thread:
    """Close a thread that was idle for too long, to be deleted."""
    return thread.entering(replace(_closed(thread, None), expired=True))


def close_if_quiet(thread: Thread) -> Thread:
    """Close an idle thread that is closing, once its last task has stopped."""
    if not thread.children.running:
        assert isinstance(thread.stage, Idle)  # only an idle thread waits for its tasks to close
        return thread.entering(_closed(thread, thread.stage.reason))
    return thread


def cancel_self(thread: Thread, call_id: str, *, now: int) -> Advance:
    """The model cancelled its own run by this call: it stops with its descendants, and there is no further step."""
    reason = "cancelled by the agent itself"
    return stop_and_finish(thread, Cancelled(), now=now, reason=reason, requested_by=call_id)


def stop(thread: Thread, termination: Stopped, *, now: int) -> Advance:
    """A limit of the whole tree is reached: the run stops with its descendants."""
    return stop_and_finish(thread, termination, now=now)


def block(thread: Thread, termination: Blocked, *, now: int) -> Advance:
    """A rule or a gate blocked a call: stop the others that are running, and end the run when they have stopped."""
    if not thread.in_flight:
        return finish(thread, termination, now=now)
    stage = Cancelling(thread.in_flight, batch=thread.batch, reason=None, termination=termination)
    return Advance(thread.entering(stage), stop_commands(thread, thread.in_flight, termination.value))


def on_work_ended(thread: Thread, cancelling: Cancelling, fact: WorkFact, *, now: int) -> Advance:
    """Something in flight ended. A finished tool call counts; an answer is only emitted, and its calls are dropped."""
    left = replace(cancelling, in_flight=cancelling.in_flight - {fact.id})
    moved = _record(thread.entering(left), cancelling, fact, now=now)
    return moved if left.in_flight else moved.then(finish_cancelled, left, now=now)


def _record(thread: Thread, cancelling: Cancelling, fact: WorkFact, *, now: int) -> Advance:
    running = thread.batch.running if thread.batch else ()
    sending = next((call for call in running if call.id == fact.id and call.message), None)
    match fact:
        case _ if sending is not None:
            return mail.on_message_sent(thread, sending, fact, now=now)
        case ToolReturned(id=id, outcome=outcome) if thread.batch:
            return _record_outcome(thread, running_call(thread, id), outcome)
        case HooksReturned(id=id, effects=effects):
            return apply_effects(thread, effects, source=id)
        case WorkFailed(id=id, error=error, is_result=is_result) if thread.batch:
            return finish_failed(thread, running_call(thread, id), error, is_result=is_result)
        case InferenceReturned(response=response):
            # Without its calls: they will never be executed.
            answer = response.model_copy(update={"tool_calls": ()})
            events = answer_events(answer, duration_ms=max(0, now - cancelling.since))
            run = thread.current
            return Advance(thread.with_run(replace(run, usage=run.usage.plus(response.usage))), events=events)
        case _:
            return Advance(thread)


def _record_outcome(thread: Thread, call: RunningCall, outcome: ToolOutcome) -> Advance:
    if outcome.blocked is not None:
        return finish_blocked(thread, call, outcome.blocked, outcome.result, outcome.effects)
    if outcome.result.status is ToolStatus.PENDING:
        return apply_effects(thread, outcome.effects, source=call.call.id)
    after = replace(finished(call, outcome.result), effects=outcome.effects)
    return finish_with(thread, call, after)


def on_task_stopped(thread: Thread, cancelling: Cancelling, task_id: str, *, now: int) -> Advance:
    """A background task that the run waited for has ended."""
    left = replace(cancelling, in_flight=cancelling.in_flight - {task_id})
    moved = Advance(thread.entering(left))
    return moved if left.in_flight else moved.then(finish_cancelled, left, now=now)
