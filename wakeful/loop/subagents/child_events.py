"""What other threads cause: sub-agents and tasks end, and mail arrives. Each reaches the model exactly once.

A child's end comes here by one of three paths, which `docs/concepts.md` draws: the child's own `child_settled` signal;
`ChildClosed`, if its workflow closed without that signal; or the worker's sweep, which signals in the child's place.
"""

from wakeful.contract import ids
from wakeful.contract.base import replace
from wakeful.contract.budgets import Spent
from wakeful.contract.files import FileRef
from wakeful.contract.inference import Source
from wakeful.contract.mail import AgentMessage, ReturnedMessage, TaskEvent, mail_message
from wakeful.contract.messages import Message
from wakeful.contract.names import (
    RECIPIENT_OF_OTHER_TENANT,
    RECIPIENT_UNAVAILABLE,
    SIGNAL_DELIVER,
    SIGNAL_MAIL_RETURNED,
)
from wakeful.contract.outcomes import OutcomeStatus
from wakeful.contract.runs import Cancelled, CancelReceipt, RunResult
from wakeful.contract.subagents import ChildResult, EndStatus, child_result_message, delegate_result
from wakeful.contract.tasks import Task, TaskStarter, TaskStatus
from wakeful.contract.tool_progress import ProgressStatus
from wakeful.contract.tools import ToolOutcome, ToolResult
from wakeful.loop.calls import tool_calls
from wakeful.loop.calls.batch import INLINE_LENGTH, RunningCall
from wakeful.loop.calls.commit import finish_call
from wakeful.loop.machine import revisions
from wakeful.loop.machine.commands import SendSignal
from wakeful.loop.machine.events import mail_arrived, refuse, run_start
from wakeful.loop.machine.facts import Delivered, Submitted, ToolReturned, WorkFact
from wakeful.loop.machine.stages import (
    AwaitingBudget,
    AwaitingTasks,
    BetweenSteps,
    CallingTools,
    Cancelling,
    Done,
    Idle,
)
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.step.steps import next_step
from wakeful.loop.subagents import budgets, ledger, start, tasks
from wakeful.loop.subagents.mail import keep_undelivered
from wakeful.loop.thread import cancelling
from wakeful.loop.thread.outcomes import is_accepted, record_messages
from wakeful.loop.thread.submissions import for_this_run, read_queued, start_next_run
from wakeful.loop.thread.waiting import no_room_for


def on_child_id_assigned(thread: Thread, work_id: str, thread_id: str, *, now: int) -> Advance:
    """A sub-agent or task has its thread; calls of the step that address it may start."""
    moved = start.assign_thread_id(thread, work_id, thread_id)
    waits = isinstance(moved.thread.stage, CallingTools) and moved.thread.stage.batch.startable
    return moved.then(tool_calls.continue_batch, now=now) if waits else moved


def on_child_settled(thread: Thread, child: ChildResult, *, now: int) -> Advance:
    """A sub-agent or task reported its end. A repeat, or a child that nothing waits for, is a no-op."""
    task, call = _find(thread, child.work_id)
    if task is not None and task.thread_id == child.thread_id:
        return _on_task_ended(thread, task, child, now=now)
    if call is not None and call.child_thread_id == child.thread_id:
        return _on_delegate_ended(thread, call, child, now=now)
    return Advance(thread)


def on_child_closed(thread: Thread, work_id: str, reason: str, *, now: int) -> Advance:
    """A sub-agent or task will never report a result."""
    task, call = _find(thread, work_id)
    if task is not None:
        return _on_task_ended(thread, task, _unreported(task, TaskStatus.FAILED, error=reason), now=now)
    if call is not None and call.by == "subagent":
        child = ChildResult(
            work_id=work_id, thread_id=call.child_thread_id or "", status=TaskStatus.FAILED, error=reason
        )
        return _on_delegate_ended(thread, call, child, now=now)
    return Advance(thread)


def on_task_never_started(thread: Thread, task_id: str, *, now: int) -> Advance:
    """A task was cancelled before it was started."""
    task, _ = _find(thread, task_id)
    assert task is not None  # the caller has seen it among those that run
    return _on_task_ended(thread, task, _unreported(task, TaskStatus.CANCELLED), now=now)


def _unreported(task: Task, status: EndStatus, *, error: str | None = None) -> ChildResult:
    """The end of a task that did not report it itself."""
    return ChildResult(work_id=task.task_id, thread_id=task.thread_id or "", name=task.name, status=status, error=error)


def _find(thread: Thread, work_id: str) -> tuple[Task | None, RunningCall | None]:
    task = next((task for task in thread.children.running if task.task_id == work_id), None)
    calls = thread.batch.running if thread.batch else ()
    return task, next((call for call in calls if call.id == work_id), None)


def _on_delegate_ended(thread: Thread, call: RunningCall, child: ChildResult, *, now: int) -> Advance:
    thread = _with_receipt(_released(thread, call.id, child.spent), child)
    result = delegate_result(call.call.name, child, timed_out=call.timed_out)
    statuses: dict[TaskStatus, ProgressStatus] = {TaskStatus.COMPLETED: "done", TaskStatus.CANCELLED: "cancelled"}
    is_done = child.status is TaskStatus.COMPLETED
    message = f"{child.agent_id} is done" if is_done else result.text
    progress = start.progress(thread, call.call, statuses.get(child.status, "failed"), message)
    thread = thread.with_run(thread.current.with_files(*child.files))
    moved = Advance(thread, events=(progress,))
    fact = ToolReturned(call.id, ToolOutcome(result=result))
    if isinstance(thread.stage, Cancelling):
        return moved.then(cancelling.on_work_ended, thread.stage, fact, now=now)
    return moved.then(tool_calls.on_tool_returned, fact, now=now)


def _on_task_ended(thread: Thread, task: Task, child: ChildResult, *, now: int) -> Advance:
    """Its one terminal event goes to the model, or, if the run is being cancelled, to the model of the next run."""
    is_cancelled_with_run = isinstance(thread.stage, Cancelling) and task.task_id in thread.in_flight
    is_passive = _starts_no_step(thread, task.task_id)
    callers = [call for call in thread.batch.running if call.awaits == task.task_id] if thread.batch else []
    thread = _released(thread, task.task_id, child.spent if thread.has_started(task) else Spent())
    starter = _starter_of(thread, task)
    moved = tasks.record_end(_with_receipt(thread, child) if is_cancelled_with_run else thread, task, child, now=now)
    for call in callers:
        receipt = ToolResult.success(call.call.name, tasks.cancel_receipt(task, child))
        moved = moved.then(finish_call, call, receipt)
    message = child_result_message(child)
    is_short = len(message.text) <= INLINE_LENGTH and not child.media
    source: Source = message if is_short else ids.source(ids.FromChild(child.work_id))
    moved = moved.then(_post, message, source, now=now, passive=is_passive, starter=starter, files=child.files)
    match moved.thread.stage:
        case Cancelling() as stage if task.task_id in stage.in_flight:
            return moved.then(cancelling.on_task_stopped, stage, task.task_id, now=now)
        case CallingTools(batch=batch) if callers or batch.startable:
            return moved.then(tool_calls.continue_batch, now=now)
        case AwaitingBudget(asked_parent=False):
            return replace(moved, thread=budgets.on_tasks_released(moved.thread)).then(next_step, now=now)
        case Idle(closing=True):
            return replace(moved, thread=cancelling.close_if_quiet(moved.thread))
        case _:
            return moved


def _released(thread: Thread, work_id: str, spent: Spent) -> Thread:
    """The thread without the child's reservation, and with what its subtree has spent."""
    return thread if thread.run is None else thread.with_budget(ledger.release(thread.run.budget, work_id, spent))


def _starts_no_step(thread: Thread, task_id: str) -> bool:
    """Whether what the task reports starts no step: it was cancelled with the run or the thread, or that has ended."""
    match thread.stage:
        case Cancelling(in_flight=stopping) | Idle(stopping=stopping):
            return task_id in stopping
        case Done():
            return True
        case _:
            return False


def _with_receipt(thread: Thread, child: ChildResult) -> Thread:
    """A run that is being cancelled records which descendants it cancelled, and which had ended before."""
    if not isinstance(thread.stage, Cancelling):
        return thread
    run = thread.current
    receipt, descendants = run.receipt or CancelReceipt(), child.receipt or CancelReceipt()
    is_cancelled = child.status is TaskStatus.CANCELLED
    own = (child.thread_id,) if child.thread_id else ()
    total = CancelReceipt(
        cancelled=(*receipt.cancelled, *(own if is_cancelled else ()), *descendants.cancelled),
        ended=(*receipt.ended, *(() if is_cancelled else own), *descendants.ended),
    )
    return thread.with_run(replace(run, receipt=total))


def on_mail_received(thread: Thread, mail: AgentMessage | TaskEvent, *, now: int) -> Advance:
    """Mail is read in the next step; if none is due, it is the reason for one."""
    if isinstance(mail, TaskEvent) and not _is_running(thread, mail):
        return Advance(thread)  # its end was reported, and nothing comes after that; or a rewind has undone it
    if isinstance(mail, AgentMessage) and _is_of_other_tenant(thread, mail):
        reason = f"the message of thread {mail.sender.thread_id!r} comes from another tenant"
        refused = refuse(thread, SIGNAL_DELIVER, reason, now=now)
        return refused.then(return_message, mail, RECIPIENT_OF_OTHER_TENANT)
    if isinstance(mail, AgentMessage) and _has_left_tree(thread):
        return return_message(thread, mail)
    message = mail_message(mail)
    is_new = not is_accepted(thread, message.id)
    if is_new and (problem := no_room_for(thread, (Submitted(message=message, source=message),))) is not None:
        refused = refuse(thread, SIGNAL_DELIVER, problem, now=now)
        return refused.then(return_message, mail) if isinstance(mail, AgentMessage) else refused
    return _accept_mail(thread, mail, message, now=now)


def on_mail_returned(thread: Thread, message: AgentMessage, error: str, *, now: int) -> Advance:
    """A message of this thread came back. One of another tenant is not its own, and would be sent again as that one."""
    if _is_of_other_tenant(thread, message):
        reason = f"the thread has not sent message {message.message_id!r}, which is of another tenant"
        return refuse(thread, SIGNAL_MAIL_RETURNED, reason, now=now)
    return Advance(keep_undelivered(thread, message, error, now=now))


def _accept_mail(
    thread: Thread, mail: AgentMessage | TaskEvent, message: Message, *, now: int, waits: bool = False
) -> Advance:
    """Take mail; if it `waits`, for the next step, it is no reason for one."""
    is_short = len(message.text) <= INLINE_LENGTH
    source: Source = message if is_short else ids.source(ids.FromMail(mail.message_id))
    if isinstance(mail, TaskEvent):
        task, passive, late = thread.children.find(mail.task_id), _starts_no_step(thread, mail.task_id), False
    else:
        task, passive, late = _task_of_sender(thread, mail), _has_no_task(thread, mail), _wakes(thread, mail)
    starter = _starter_of(thread, task) if task else None
    return _post(thread, message, source, now=now, passive=passive or waits, late=late, starter=starter)


def _starter_of(thread: Thread, task: Task) -> TaskStarter | None:
    """For whom the run acted that started the task. One that nothing bound may have been bound by a hook since."""
    known, run_id = thread.children.starter_of(task), task.parent_context.run_id
    return known or (TaskStarter(run_id=run_id) if run_id and _binds_mail(thread) else None)


def _task_of_sender(thread: Thread, message: AgentMessage) -> Task | None:
    """The running task that the sender is, or is below of; None for agents of other trees."""
    return thread.children.sender_of(message.sender.thread_id) if _binds_mail(thread) else None


def _has_no_task(thread: Thread, message: AgentMessage) -> bool:
    """Whether the sender is below the thread, but below none of its running tasks: no run is known that it acts for.

    Its message begins no run, and the next one reads it.
    """
    is_below = ids.is_descendant(message.sender.thread_id, thread.identity.thread_id)
    is_idle = isinstance(thread.stage, Idle) and _binds_mail(thread)
    return is_idle and is_below and _task_of_sender(thread, message) is None


def _binds_mail(thread: Thread) -> bool:
    revision = thread.run.revision if thread.run is not None else thread.restored_revision
    return revision >= revisions.MAIL_OF_TASKS_IS_BOUND


def _is_of_other_tenant(thread: Thread, message: AgentMessage) -> bool:
    return message.sender.tenant != thread.identity.tenant


def _is_running(thread: Thread, event: TaskEvent) -> bool:
    task = thread.children.find(event.task_id)
    return task is not None and event.thread_id in (None, task.thread_id)


def keeps_late_mail(thread: Thread, message: AgentMessage) -> bool:
    """Whether a thread that has ended keeps a message, and is woken for it, instead of returning it."""
    run = thread.run
    is_pinned = run is None or run.resolved is None or run.revision < revisions.LATE_MESSAGES
    return not is_pinned and not _has_left_tree(thread) and _wakes(thread, message)


def _has_left_tree(thread: Thread) -> bool:
    """Whether the thread is a sub-agent's that has reported its end, or is about to.

    What mail would make it do, no budget of its tree would limit, no cancel reach and no receipt list.
    """
    run = thread.run
    if not thread.identity.path or run is None or run.resolved is None or run.revision < revisions.ENDED_TAKE_NO_MAIL:
        return False
    return thread.parent is None or thread.is_ending


def _wakes(thread: Thread, message: AgentMessage) -> bool:
    """Whether a thread that ends is woken for a message.

    Not within its own tree: a descendant that has not noticed the close, or a sibling in a tree that is cancelled,
    would start it again. A parent only signals its child.
    """
    sender, identity = message.sender.thread_id, thread.identity
    if sender == identity.parent_thread_id or ids.is_descendant(sender, identity.thread_id):
        return False
    match thread.stage:
        case Cancelling() | Done(result=RunResult(termination=Cancelled())):
            is_stopped = identity.parent_thread_id is not None
        case _:
            is_stopped = False
    return thread.takes_late and not is_stopped


def return_message(thread: Thread, message: AgentMessage, error: str = RECIPIENT_UNAVAILABLE) -> Advance:
    """Return a message: the thread had ended and could not be woken yet, has no room for it, or refuses it."""
    returned = ReturnedMessage(message=message, error=error)
    id = ids.work_id(ids.ReturnMessage(message.message_id))
    command = SendSignal(id, message.sender.thread_id, SIGNAL_MAIL_RETURNED, returned)
    returning = (*thread.mail.returning, message)
    return Advance(replace(thread, mail=replace(thread.mail, returning=returning)), (command,))


def on_message_returned(thread: Thread, message_id: str, fact: WorkFact, *, now: int) -> Thread:
    """The sender has the message again; if it is unreachable, the next run of this thread reads what it may read."""
    message = next((message for message in thread.mail.returning if message.message_id == message_id), None)
    if message is None:
        return thread
    others = tuple(other for other in thread.mail.returning if other is not message)
    thread = replace(thread, mail=replace(thread.mail, returning=others))
    if isinstance(fact, Delivered) or _is_of_other_tenant(thread, message):
        return thread
    waits = thread.run is None or thread.run.revision >= revisions.UNRETURNED_MAIL_WAITS
    return _accept_mail(thread, message, mail_message(message), now=now, waits=waits).thread


def _post(
    thread: Thread,
    message: Message,
    source: Source,
    *,
    now: int,
    passive: bool = False,
    late: bool = False,
    starter: TaskStarter | None = None,
    files: tuple[FileRef, ...] = (),
) -> Advance:
    if is_accepted(thread, message.id):
        return Advance(thread)
    submitted = Submitted(message=message, source=source, internal=True, passive=passive, late=late, files=files)
    if starter is not None:
        submitted = submitted.model_copy(update=starter.on_mail)
    thread = replace(thread, steering=(*thread.steering, submitted))
    thread = record_messages(thread, (submitted,), OutcomeStatus.STEERING)
    posted = Advance(thread, events=(mail_arrived(message),))
    match thread.stage:
        case AwaitingTasks() if not passive:
            return posted.then(_resume_run).then(next_step, now=now)
        case Idle(closing=False) if not passive:
            return posted.then(start_next_run)
        case Done():
            return Advance(thread)  # the execution that wakes the thread emits the event
        case _:
            return posted  # the model reads it in its next step


def continue_with_messages(thread: Thread, *, now: int) -> Advance:
    """A message arrived for a run that only waits for its tasks: it reads the message at once."""
    if not (thread.steering or for_this_run(thread)):
        return Advance(thread)
    return _resume_run(thread).then(read_queued).then(next_step, now=now)


def _resume_run(thread: Thread) -> Advance:
    return Advance(thread.entering(BetweenSteps()), events=(run_start(thread),))
