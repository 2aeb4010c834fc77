"""What other threads bring about: sub-agents and tasks that end, and mail. Each reaches the model once."""

from wakeful.contract.budgets import Spent
from wakeful.contract.events import MailRead
from wakeful.contract.inference import Source
from wakeful.contract.mail import Letter, Returned, TaskEvent, mail_message
from wakeful.contract.messages import Message
from wakeful.contract.names import RECIPIENT_UNAVAILABLE, SIGNAL_RETURNED
from wakeful.contract.runs import CancelReceipt
from wakeful.contract.subagents import EndStatus, Settled, delegate_result, settled_message
from wakeful.contract.tasks import Task, TaskStatus
from wakeful.contract.tools import ToolOutcome, ToolResult
from wakeful.loop.calls import tool_calls
from wakeful.loop.calls.batch import RunningCall
from wakeful.loop.calls.commit import INLINE_LENGTH, answer
from wakeful.loop.machine.commands import Tell
from wakeful.loop.machine.events import run_start
from wakeful.loop.machine.facts import Submitted, Told, ToolReturned, WorkFact
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.stages import (
    AwaitingBudget,
    AwaitingDecisions,
    AwaitingTasks,
    BetweenSteps,
    CallingTools,
    Cancelling,
    Done,
    Idle,
)
from wakeful.loop.machine.state import REMEMBERED, Advance, RunState
from wakeful.loop.step.steps import next_step
from wakeful.loop.subagents import budgets, ledger, start, tasks
from wakeful.loop.thread import ending
from wakeful.loop.thread.submissions import begin_next_run, for_this_run, reading_queued

SHOWN_LENGTH = 500
"""Characters of what came that watchers are shown."""


def named(state: RunState, work_id: str, thread_id: str, *, now: int) -> Advance:
    """A sub-agent or task has its thread; calls of the step that are for it may go on."""
    moved = start.named(state, work_id, thread_id)
    waits = isinstance(moved.state.stage, CallingTools) and moved.state.stage.batch.waiting
    return moved.then(tool_calls.go_on, now=now) if waits else moved


def settled(state: RunState, settled: Settled, *, now: int) -> Advance:
    """A sub-agent or task has ended. One that nobody waits for, or any more, changes nothing."""
    task, call = _find(state, settled.work_id)
    if task is not None and task.thread_id == settled.thread_id:
        return _task_ended(state, task, settled, now=now)
    if call is not None and call.child == settled.thread_id:
        return _delegate_ended(state, call, settled, now=now)
    return Advance(state)


def gone(state: RunState, work_id: str, reason: str, *, now: int) -> Advance:
    """A sub-agent or task will never say anything."""
    task, call = _find(state, work_id)
    if task is not None:
        told = _unsaid(task, TaskStatus.FAILED, error=reason)
        return _task_ended(state, task, told, now=now)
    if call is not None and call.by == "sub_agent":
        told = Settled(work_id=work_id, thread_id=call.child or "", status=TaskStatus.FAILED, error=reason)
        return _delegate_ended(state, call, told, now=now)
    return Advance(state)


def never_started(state: RunState, task_id: str, *, now: int) -> Advance:
    """A task was stopped before it was begun."""
    task, _ = _find(state, task_id)
    assert task is not None  # whoever asks has seen it among those that run
    return _task_ended(state, task, _unsaid(task, TaskStatus.CANCELLED), now=now)


def _unsaid(task: Task, status: EndStatus, *, error: str | None = None) -> Settled:
    """The end of a task that could not tell it itself."""
    return Settled(work_id=task.task_id, thread_id=task.thread_id or "", name=task.name, status=status, error=error)


def _find(state: RunState, work_id: str) -> tuple[Task | None, RunningCall | None]:
    task = next((task for task in state.running_tasks if task.task_id == work_id), None)
    calls = state.batch.running if state.batch else ()
    return task, next((call for call in calls if call.id == work_id), None)


def _delegate_ended(state: RunState, call: RunningCall, settled: Settled, *, now: int) -> Advance:
    state = _reached(ledger.giving_back(state, call.id, settled.spent), settled)
    result = delegate_result(call.call.name, settled, timed_out=call.timed_out)
    word = {TaskStatus.COMPLETED: "done", TaskStatus.CANCELLED: "cancelled"}.get(settled.status, "failed")
    progress = start.progress(call.call, word, result.message or f"{settled.agent_id} is done")
    told = Advance(state, events=(progress,))
    fact = ToolReturned(call.id, ToolOutcome(result=result))
    if isinstance(state.stage, Cancelling):
        return told.then(ending.wound_down, state.stage, fact, now=now)
    return told.then(tool_calls.returned, fact, now=now)


def _task_ended(state: RunState, task: Task, settled: Settled, *, now: int) -> Advance:
    """Its one terminal event goes to the model, except that of a run which is being stopped: the next one reads it."""
    stopping = state.stage if isinstance(state.stage, Cancelling) and task.task_id in state.in_flight else None
    state = ledger.giving_back(state, task.task_id, settled.spent if ending.is_own(state, task) else Spent())
    moved = tasks.ended(_reached(state, settled) if stopping else state, task, settled, now=now)
    waited_for = [call for call in state.batch.running if call.awaits == task.task_id] if state.batch else []
    for call in waited_for:
        receipt = ToolResult.success(call.call.name, tasks.cancel_receipt(task, settled))
        moved = moved.then(answer, call, receipt)
    message = settled_message(settled)
    source: Source = message if len(message.text) <= INLINE_LENGTH else f"settled:{settled.work_id}"
    moved = moved.then(_post, message, source, now=now, passive=_wakes_nobody(state, task.task_id))
    match moved.state.stage:
        case Cancelling() as cancelling if task.task_id in cancelling.in_flight:
            return moved.then(ending.task_stopped, cancelling, task.task_id, now=now)
        case CallingTools(batch=batch) if waited_for or batch.waiting:
            return moved.then(tool_calls.go_on, now=now)
        case AwaitingBudget(asked=False):
            return replace(moved, state=budgets.tasks_gave_back(moved.state)).then(next_step, now=now)
        case _:
            return replace(moved, state=ending.close_if_quiet(moved.state))


def _wakes_nobody(state: RunState, task_id: str) -> bool:
    """Whether what the task tells is no reason for a step: it was stopped with the run or thread, or that has ended."""
    match state.stage:
        case Cancelling(in_flight=ids) | Idle(stopping=ids):
            return task_id in ids
        case Done():
            return True
        case _:
            return False


def _reached(state: RunState, settled: Settled) -> RunState:
    """A run that is being stopped notes what it stopped, and what had ended before."""
    if not isinstance(state.stage, Cancelling):
        return state
    receipt, below = state.receipt or CancelReceipt(), settled.receipt or CancelReceipt()
    is_cancelled = settled.status is TaskStatus.CANCELLED
    mine = (settled.thread_id,) if settled.thread_id else ()
    return replace(
        state,
        receipt=CancelReceipt(
            cancelled=(*receipt.cancelled, *(mine if is_cancelled else ()), *below.cancelled),
            ended=(*receipt.ended, *(() if is_cancelled else mine), *below.ended),
        ),
    )


def received(state: RunState, mail: Letter | TaskEvent, *, now: int) -> Advance:
    """Mail is read at the next step; where no step is to come, it is the reason for one."""
    if isinstance(mail, TaskEvent) and not _runs(state, mail):
        return Advance(state)  # its end was told, and nothing comes after that; or a rewind has undone it
    message = mail_message(mail)
    source: Source = message if len(message.text) <= INLINE_LENGTH else f"deliver:{mail.message_id}"
    passive = isinstance(mail, TaskEvent) and _wakes_nobody(state, mail.task_id)
    return _post(state, message, source, now=now, passive=passive)


def _runs(state: RunState, event: TaskEvent) -> bool:
    task = state.find_task(event.task_id)
    return task is not None and event.thread_id in (None, task.thread_id)


RETURNED_ID = "returned-"


def send_back(state: RunState, letter: Letter) -> Advance:
    """Send back a letter that came when the thread had ended and could not be woken yet."""
    returned = Returned(letter=letter, error=RECIPIENT_UNAVAILABLE)
    tell = Tell(f"{RETURNED_ID}{letter.message_id}", letter.sender.thread_id, SIGNAL_RETURNED, returned)
    return Advance(replace(state, returning=(*state.returning, letter)), (tell,))


def sent_back(state: RunState, fact: WorkFact, *, now: int) -> RunState:
    """The sender has it again; where it cannot be reached either, whoever wakes this thread reads the letter."""
    letter = next(letter for letter in state.returning if fact.id == f"{RETURNED_ID}{letter.message_id}")
    state = replace(state, returning=tuple(other for other in state.returning if other is not letter))
    return state if isinstance(fact, Told) else received(state, letter, now=now).state


def _post(state: RunState, message: Message, source: Source, *, now: int, passive: bool = False) -> Advance:
    if message.id in state.seen_messages:
        return Advance(state)
    submitted = Submitted(message, source, internal=True, passive=passive)
    seen = (*state.seen_messages, message.id)[-REMEMBERED:]
    state = replace(state, seen_messages=seen, steering=(*state.steering, submitted))
    arrived = MailRead(message_id=message.id, text=message.text[:SHOWN_LENGTH])
    match state.stage:
        case _ if passive:
            return Advance(state)
        case AwaitingDecisions():
            return Advance(state)  # nobody reads it before the run goes on
        case AwaitingTasks():
            return _woken(state).emitting(arrived).then(next_step, now=now)
        case Idle(closing=False):
            return begin_next_run(state).emitting(arrived)
        case _:
            return Advance(state, events=(arrived,))


def go_on_with_messages(state: RunState, *, now: int) -> Advance:
    """Somebody says something to a run that only waits for its tasks: it reads that at once."""
    if not (state.steering or for_this_run(state)):
        return Advance(state)
    return _woken(reading_queued(state)).then(next_step, now=now)


def _woken(state: RunState) -> Advance:
    return Advance(state.entering(BetweenSteps()), events=(run_start(state),))
