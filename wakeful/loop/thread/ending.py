"""How a run ends: at once, or, when it is cancelled, after everything in flight has stopped."""

from collections.abc import Iterable
from typing import assert_never

from pydantic import JsonValue

from wakeful.contract.events import AgentEvent, ToolCallCancel
from wakeful.contract.hooks import Moment
from wakeful.contract.mail import LETTER_ID
from wakeful.contract.names import SIGNAL_CANCEL, SIGNAL_DECIDE, TOOL_INTERRUPTED
from wakeful.contract.runs import (
    Blocked,
    Cancelled,
    RunResult,
    Stopped,
    Termination,
    ThreadMode,
    ToolCallStatus,
    status_reason,
)
from wakeful.contract.subagents import SETTLED_ID, settled_run
from wakeful.contract.tasks import Task
from wakeful.contract.tools import ToolOutcome, ToolResult, ToolStatus
from wakeful.loop.calls import commit as calls
from wakeful.loop.calls.batch import RunningCall, SettledCall
from wakeful.loop.machine.commands import CancelChild, Command, Settle, Stop
from wakeful.loop.machine.events import end_step, heard, leave_point, refuse, run_finish, run_start, shown
from wakeful.loop.machine.facts import HooksReturned, InferenceReturned, Submitted, ToolReturned, WorkFact, WorkFailed
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.stages import (
    Afterwards,
    AwaitingDecisions,
    AwaitingTasks,
    Cancelling,
    Done,
    Ending,
    Hooking,
    Idle,
    Inferring,
)
from wakeful.loop.machine.state import Advance, RunState
from wakeful.loop.step import hooks
from wakeful.loop.step.context import after_rewind
from wakeful.loop.step.hooks import fold
from wakeful.loop.subagents import ledger, mail
from wakeful.loop.thread.submissions import begin_next_run


def finish(
    state: RunState,
    termination: Termination,
    *,
    now: int,
    detail: str | None = None,
    then: Afterwards = Afterwards.END,
    is_broken: bool = False,
) -> Advance:
    """End the run: its calls are settled, its step is closed, its last hooks run, and its one result is made."""
    left_behind = _own_tasks(state) if state.work_id is not None else frozenset()
    if left_behind and not is_broken:
        # Nobody above a sub-agent that has ended could reach what it has started.
        return _wind_down(state, termination, now=now, reason=detail, then=then)
    stops = _stops(state, state.in_flight | left_behind, None)
    moved = Advance(state, stops, _woken(state)).then(_settle_the_rest).then(end_step)
    moments = () if is_broken else _last_moments(moved.state)
    if not moments:
        return moved.then(_end_now, termination, now=now, detail=detail, then=then)
    ending = Ending(termination, _result(moved.state, termination, detail=detail, then=then), detail, then)
    return moved.then(hooks.at_end, moments, ending)


def _last_moments(state: RunState) -> tuple[Moment, ...]:
    if state.resolved is None:
        return ()
    last = (Moment.RUN_END,) if state.has_left else (Moment.RUN_END, Moment.DEACTIVATE)
    return (*hooks.step_moments(state), *state.agent.hooks_at(*last))


def end_after_hooks(state: RunState, ending: Ending, *, now: int) -> Advance:
    """The last hooks have run. An end that they ask for comes too late: there is one already."""
    over = replace(state, wanted_end=None)
    return _end_now(over, ending.termination, now=now, detail=ending.detail, then=ending.then)


def _end_now(state: RunState, termination: Termination, *, now: int, detail: str | None, then: Afterwards) -> Advance:
    refusals = tuple(ledger.refusing(loan, "its parent has ended") for loan in state.loans)
    moved = replace(shown(replace(state, loans=())), commands=refusals)
    for _ in state.held:
        moved = moved.then(refuse, SIGNAL_DECIDE, "the run has ended", now=now)
    ended = replace(moved.state, held=())
    result = _result(ended, termination, detail=detail, then=then)
    done = ended.entering(Done(result))
    over = replace(moved, state=done).emitting(run_finish(done, termination))
    return over.then(_settle_with_owner, result).then(_afterwards, then)


def cancel(state: RunState, reason: str | None, *, now: int, then: Afterwards = Afterwards.END) -> Advance:
    """Tell everything in flight to stop; the run ends when it has. Cancelling twice changes nothing."""
    match state.stage:
        case Cancelling() as cancelling:
            return _cancel_further(state, cancelling, reason, then=then)
        case Hooking(ending=Ending() as ending) as hooks:
            # It is ending already, as it is; only what comes after may still change.
            after = max(ending.then, then, key=list(Afterwards).index)
            return Advance(replace(state, stage=replace(hooks, ending=replace(ending, then=after))))
        case Idle() as idle if state.running_tasks:
            ids = tuple(task.task_id for task in state.running_tasks)
            stopping = replace(idle, closing=idle.closing or then is Afterwards.CLOSE, stopping=ids)
            return Advance(replace(state, stage=stopping), _stops(state, ids, reason))
        case Idle() if then is Afterwards.CLOSE:
            return Advance(replace(state, stage=_closed(state, reason)))
        case Idle():
            return refuse(state, SIGNAL_CANCEL, "no run is under way", now=now)
        case _:
            return _wind_down(state, Cancelled(), now=now, reason=reason, then=then)


def _cancel_further(state: RunState, cancelling: Cancelling, reason: str | None, *, then: Afterwards) -> Advance:
    """A run that is being stopped is told once more: only a rollback or the end of the thread make a difference."""
    if then not in (Afterwards.ROLL_BACK, Afterwards.CLOSE) or cancelling.then is Afterwards.CLOSE:
        return Advance(state)
    tasks = {task.task_id for task in state.running_tasks} if then is Afterwards.CLOSE else set()
    more = tasks - cancelling.in_flight
    further = replace(cancelling, then=then, in_flight=cancelling.in_flight | more)
    return Advance(replace(state, stage=further), _stops(state, more, reason))


def _closed(state: RunState, reason: str | None) -> Done:
    """A thread that ends between two runs, with its last result if it had one."""
    last = state.stage.result if isinstance(state.stage, Idle) else None
    return Done(last or _result(state, Cancelled(), detail=reason, then=Afterwards.CLOSE))


def close_if_quiet(state: RunState) -> RunState:
    """The thread was told to end, and waited for its last task."""
    if isinstance(state.stage, Idle) and state.stage.closing and not state.running_tasks:
        return replace(state, stage=_closed(state, None))
    return state


def cancel_self(state: RunState, call_id: str, *, now: int) -> Advance:
    """The model cancelled its own run by this call: it stops with everything below it, and there is no further turn."""
    return _wind_down(state, Cancelled(), now=now, reason="cancelled by the agent itself", asked_by=call_id)


def stop(state: RunState, termination: Stopped, *, now: int) -> Advance:
    """A limit of the whole tree is reached: nothing below the run may go on either."""
    return _wind_down(state, termination, now=now)


def _wind_down(
    state: RunState,
    termination: Termination,
    *,
    now: int,
    reason: str | None = None,
    then: Afterwards = Afterwards.END,
    asked_by: str | None = None,
) -> Advance:
    """Stop what is in flight and every task that the run has started, and end when all of it has stopped."""
    tasks = frozenset(task.task_id for task in state.running_tasks) if then is Afterwards.CLOSE else _own_tasks(state)
    ids = state.in_flight | tasks
    if not ids and asked_by is None:
        return finish(state, termination, now=now, detail=reason, then=then)
    since = state.stage.since if isinstance(state.stage, Inferring) else now
    stopping = Cancelling(
        ids, batch=state.batch, reason=reason, then=then, since=since, termination=termination, asked_by=asked_by
    )
    moved = Advance(state.entering(stopping), _stops(state, ids, reason), _woken(state))
    return moved if ids else moved.then(_end, stopping, now=now)


def _own_tasks(state: RunState) -> frozenset[str]:
    """The tasks that this very run has started and that still run."""
    return frozenset(task.task_id for task in state.running_tasks if is_own(state, task))


def is_own(state: RunState, task: Task) -> bool:
    return task.parent_context.run_id == state.identity.run_id


def _woken(state: RunState) -> tuple[AgentEvent, ...]:
    """A run that had paused is active again, if only to end."""
    return (run_start(state),) if isinstance(state.stage, AwaitingDecisions | AwaitingTasks) else ()


def _stops(state: RunState, ids: Iterable[str], reason: str | None) -> tuple[Command, ...]:
    """The commands that stop this work: activities by their ids, sub-agents and tasks by their threads."""
    threads = {call.id: call.child for call in state.batch.running} if state.batch else {}
    threads |= {task.task_id: task.thread_id for task in state.running_tasks}
    return tuple(
        Stop(id) if (thread := threads.get(id)) is None else CancelChild(id, thread, reason) for id in sorted(ids)
    )


def block(state: RunState, reason: str, *, now: int) -> Advance:
    """A gate forbade a call: stop the others that run, and end the run when they have stopped."""
    termination = Blocked(value=reason)
    if not state.in_flight:
        return finish(state, termination, now=now)
    stopping = Cancelling(state.in_flight, batch=state.batch, reason=None, termination=termination)
    return Advance(state.entering(stopping), _stops(state, state.in_flight, reason))


def wound_down(state: RunState, cancelling: Cancelling, fact: WorkFact, *, now: int) -> Advance:
    """Something in flight came back. What a tool finished counts; what the model said in vain is only seen."""
    left = replace(cancelling, in_flight=cancelling.in_flight - {fact.id})
    state = replace(state, stage=left)
    moved = Advance(state)
    running = state.batch.running if state.batch else ()
    sending = next((call for call in running if call.id == fact.id and call.letter), None)
    match fact:
        case _ if sending is not None:
            moved = mail.sent(state, sending, fact, now=now)
        case ToolReturned(id=id, outcome=ToolOutcome(blocked=str(reason), effects=effects)) if state.batch:
            moved = calls.move(state, *calls.blocked(calls.running_call(state, id), reason, effects))
        case ToolReturned(id=id, outcome=outcome) if outcome.result.status is ToolStatus.PENDING:
            moved = fold(state, outcome.effects, source=calls.running_call(state, id).call.id)
        case HooksReturned(id=id, effects=effects):
            moved = fold(state, effects, source=id)
        case ToolReturned(id=id, outcome=outcome) if state.batch:
            call = calls.running_call(state, id)
            after = replace(calls.settled(call, outcome.result), effects=outcome.effects)
            moved = calls.move(state, after, calls.ended(call, outcome.result))
        case WorkFailed(id=id, error=error) if state.batch:
            moved = calls.settle_lost(state, calls.running_call(state, id), error)
        case InferenceReturned(response=response):
            # Without its calls: nobody will ever answer them.
            said = response.model_copy(update={"tool_calls": ()})
            seen = heard(said, duration_ms=max(0, now - cancelling.since))
            moved = Advance(replace(state, usage=state.usage.plus(response.usage)), events=seen)
        case _:
            pass
    return moved if left.in_flight else moved.then(_end, left, now=now)


def task_stopped(state: RunState, cancelling: Cancelling, task_id: str, *, now: int) -> Advance:
    """A background task that the run is waiting for has ended."""
    left = replace(cancelling, in_flight=cancelling.in_flight - {task_id})
    moved = Advance(replace(state, stage=left))
    return moved if left.in_flight else moved.then(_end, left, now=now)


def _end(state: RunState, cancelling: Cancelling, *, now: int) -> Advance:
    return finish(state, cancelling.termination, now=now, detail=cancelling.reason, then=cancelling.then)


def _settle_the_rest(state: RunState) -> Advance:
    """A run that ends within a step keeps what was done: every call gets its one result and the step is committed."""
    batch = state.batch
    if batch is None:
        return Advance(state)
    moved = Advance(state)
    asked_by = state.stage.asked_by if isinstance(state.stage, Cancelling) else None
    for call in batch.calls:
        if call.call.id == asked_by and isinstance(call, RunningCall):
            moved = moved.then(calls.answer, call, ToolResult.success(call.call.name, _self_receipt(state)))
        elif not isinstance(call, SettledCall):
            result = ToolResult.error(call.call.name, TOOL_INTERRUPTED)
            event = ToolCallCancel(id=call.call.id, name=call.call.name, reason="the run ended")
            moved = moved.then(calls.move, SettledCall(call.call, ToolCallStatus.CANCELLED, result), event)
    return moved.then(calls.commit).then(leave_point)


def _self_receipt(state: RunState) -> JsonValue:
    """What a run that cancelled itself is told: it counts itself."""
    task = state.identity.task
    stopped = state.receipt.cancelled if state.receipt else ()
    root = task.task_id if task is not None else state.identity.run_id
    return {"status": "accepted", "root_task_id": root, "cancelled_count": len(stopped) + 1}


def _settle_with_owner(state: RunState, result: RunResult) -> Advance:
    """Tell whoever started this sub-agent; only its first run was asked for."""
    owner, work_id = state.identity.parent_thread_id, state.work_id
    if owner is None or work_id is None:
        return Advance(state)
    task = state.identity.task
    is_task = state.identity.is_task
    name = task.name if is_task and task is not None else None
    settle = Settle(owner, settled_run(work_id, result, name=name), is_task)
    return Advance(replace(state, work_id=None), (settle,))


def _mail(state: RunState) -> tuple[Submitted, ...]:
    """What others have told the run that is undone: it was told once, so the next one has to read it."""
    started = {f"{SETTLED_ID}{task.thread_id}" for task in state.tasks if is_own(state, task)}
    read = state.transcript.messages[max(0, state.began.length - state.transcript.before.length) :]
    kept = [message for message in read if message.id.startswith((SETTLED_ID, LETTER_ID)) and message.id not in started]
    return tuple(Submitted(message, message, internal=True, passive=True) for message in kept)


def _result(state: RunState, termination: Termination, *, detail: str | None, then: Afterwards) -> RunResult:
    is_last = then is Afterwards.CLOSE or (then is Afterwards.END and state.mode is ThreadMode.RUN)
    unread = [later for later in (*state.steering, *state.queued) if is_last and not later.passive]
    return RunResult(
        thread_id=state.identity.thread_id,
        run_id=state.identity.run_id,
        agent_id=state.identity.agent_id,
        status_reason=status_reason(termination),
        termination=termination,
        response=state.response,
        detail=detail,
        steps=state.steps,
        usage=state.usage,
        unread=tuple(submitted.message.id for submitted in unread),
        output=state.output,
        receipt=state.receipt,
        tree=ledger.tree(state),
    )


def _afterwards(state: RunState, then: Afterwards) -> Advance:
    """The run is over: end the workflow, wait for the next message, or go on with one that waits."""
    assert isinstance(state.stage, Done)
    match then:
        case Afterwards.CLOSE if state.running_tasks:
            # The thread was closed while the last hooks ran of a run that leaves its tasks running.
            ids = tuple(task.task_id for task in state.running_tasks)
            closing = Idle(state.stage.result, closing=True, stopping=ids)
            return Advance(replace(state, stage=closing), _stops(state, ids, None))
        case Afterwards.CLOSE:
            return Advance(state)
        case Afterwards.ROLL_BACK:
            transcript = state.transcript.rewound(state.began)
            context = after_rewind(state.context, transcript.length)
            undone = replace(state, transcript=transcript, context=context, steering=(*_mail(state), *state.steering))
            return begin_next_run(undone, interrupted=True)
        case Afterwards.NEXT_RUN:
            return begin_next_run(state, interrupted=True)
        case Afterwards.END if state.mode is ThreadMode.RUN:
            return Advance(state)
        case Afterwards.END if state.queued or any(not later.passive for later in state.steering):
            return begin_next_run(state)
        case Afterwards.END:
            return Advance(replace(state, stage=Idle(state.stage.result)))
        case _:
            assert_never(then)
