"""The agent loop: `thread.opening.begin` makes a thread's first state, `advance` makes each next one. Pure.

Theory of operation. A thread is one immutable value (`state.Thread`) in one of twelve stages (`stages`). Whatever
happens to it is a fact (`facts`): an activity returned, a signal arrived, a timer fired. `advance(thread, fact)`
returns the next thread together with the commands that the workflow has to perform (`commands`) and the events that
watchers see. Each activity or signal ends as exactly one fact with its command's id, so a stage that waits knows what
it waits for (`Thread.in_flight`). `transitions` has every edge between stages.

A run goes through `resolving`, then steps of `inferring` and `calling_tools`, and ends in `done`. Everything else is a
detour from that path: hooks, handoffs, waiting for decisions, tasks or budget, and cancelling. Handlers of facts are
called `on_<fact>`; they and the moves they are composed of take a thread and return an `Advance`.
"""

from typing import assert_never

from wakeful.contract import ids
from wakeful.contract.base import replace
from wakeful.contract.mail import AgentMessage
from wakeful.contract.names import SIGNAL_CANCEL, SIGNAL_CLOSE, SIGNAL_EDIT, SIGNAL_SUBMIT
from wakeful.contract.runs import Errored, OnBusy
from wakeful.loop.calls import deadlines, decisions, tool_calls
from wakeful.loop.calls.commit import running_call
from wakeful.loop.machine.events import refuse
from wakeful.loop.machine.facts import (
    AgentResolved,
    BudgetGranted,
    BudgetRequested,
    CancelRequested,
    ChildClosed,
    ChildIdAssigned,
    ChildSettled,
    CompactionReturned,
    DecisionsReceived,
    Delivered,
    EditRequested,
    Fact,
    HistoryReset,
    HooksReturned,
    InferenceReturned,
    LateChildFact,
    LoopFailed,
    MailReceived,
    MailReturned,
    MessagesSubmitted,
    RevocationRequested,
    SignalFact,
    SignalMalformed,
    TimerFired,
    ToolReturned,
    UndeliveredRequested,
    WithdrawalRequested,
    WorkCancelled,
    WorkFact,
    WorkFailed,
)
from wakeful.loop.machine.revisions import REVISION
from wakeful.loop.machine.stages import (
    AfterRun,
    AwaitingTasks,
    BetweenSteps,
    CallingTools,
    Cancelling,
    Done,
    HandingOff,
    Idle,
    Inferring,
    Resolving,
    RunningHooks,
)
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.step import context, hooks, inference, steps
from wakeful.loop.step.steps import next_step
from wakeful.loop.subagents import budgets, child_events, ledger, mail, tree
from wakeful.loop.thread import cancelling, changes, ending, outcomes, submissions


def advance(thread: Thread, fact: Fact, *, now: int) -> Advance:
    """What `fact` makes of `thread`. A fact that comes too late changes nothing, except for a recorded refusal."""
    if _is_submission(fact):
        thread = submissions.count_submission(thread)
    match fact:
        case (
            AgentResolved()
            | InferenceReturned()
            | ToolReturned()
            | CompactionReturned()
            | HooksReturned()
            | Delivered()
            | WorkFailed()
            | WorkCancelled()
        ):
            if fact.id == thread.context.compacting:
                return context.on_compaction_ended(thread, fact)
            if _was_never_asked(fact):
                thread = replace(thread, transcript=thread.transcript.not_sent())
            moved = _on_work_ended(thread, fact, now=now)
        case HistoryReset(lineage=lineage):
            return Advance(inference.on_history_reset(thread, lineage))
        case ChildIdAssigned(id=id, thread_id=thread_id):
            moved = child_events.on_child_id_assigned(thread, id, thread_id, now=now)
        case _ if isinstance(thread.stage, Done):
            moved = _on_late_fact(thread, fact, now=now)
        case ChildSettled(result=result):
            moved = child_events.on_child_settled(thread, result, now=now)
        case ChildClosed(id=id, reason=reason):
            moved = child_events.on_child_closed(thread, id, reason, now=now)
        case MailReceived(mail=received):
            moved = child_events.on_mail_received(thread, received, now=now)
        case MailReturned(message=message, error=error):
            moved = child_events.on_mail_returned(thread, message, error, now=now)
        case UndeliveredRequested(action=action):
            moved = mail.resend_undelivered(thread) if action == "replay" else mail.clear_undelivered(thread)
        case BudgetRequested(request=request) if request.agents:
            moved = tree.on_agents_requested(thread, request, now=now)
        case BudgetGranted(grant=grant) if grant.agents is not None:
            moved = tree.on_agents_granted(thread, grant).then(_start_granted, now=now)
        case BudgetRequested(request=request):
            moved = budgets.on_budget_requested(thread, request, now=now)
        case BudgetGranted(grant=grant):
            moved = budgets.on_budget_granted(thread, grant, now=now).then(_continue_after_grant, now=now)
        case DecisionsReceived():
            moved = decisions.on_decisions_received(thread, fact, now=now)
        case MessagesSubmitted():
            moved = _on_messages_submitted(thread, fact, now=now)
        case WithdrawalRequested() | EditRequested() | RevocationRequested():
            moved = changes.on_change_requested(thread, fact, now=now)
        case CancelRequested():
            moved = cancelling.on_cancel_requested(thread, fact, now=now)
        case SignalMalformed(signal=signal, reason=reason):
            moved = refuse(thread, signal, reason, now=now)
        case TimerFired(at=at):
            moved = deadlines.on_timer_fired(thread, at, now=now)
        case LoopFailed():
            moved = _refuse_lost(thread, fact, now=now).then(_on_loop_failed, fact.error, now=now)
        case _:
            assert_never(fact)
    # A decision may come before the call it names has suspended, so the held ones are judged after every fact.
    if moved.thread.run is not None and moved.thread.run.held:
        moved = moved.then(decisions.judge_held, thread, now=now)
    if isinstance(moved.thread.stage, Done) and (moved.thread.queued or moved.thread.steering):
        return replace(moved, thread=outcomes.without_unread(moved.thread))
    return moved


def _was_never_asked(fact: WorkFact) -> bool:
    """Whether it is the end of an inference whose input is not in history."""
    if not isinstance(fact, WorkFailed | WorkCancelled) or fact.was_scheduled:
        return False
    return isinstance(ids.parse_work(fact.id), ids.Infer)


def _refuse_lost(thread: Thread, failed: LoopFailed, *, now: int) -> Advance:
    match failed.lost:
        case MessagesSubmitted() as lost:
            return submissions.refuse_submitted(thread, lost, failed.error, now=now)
        case DecisionsReceived(decisions=batch):
            return outcomes.refuse_decisions(thread, batch, failed.error, now=now)
        case WithdrawalRequested() | EditRequested() | RevocationRequested():
            return changes.refuse_change(thread, failed.lost, failed.error, now=now)
        case None:
            return Advance(thread)
        case _:
            assert_never(failed.lost)


def _on_loop_failed(thread: Thread, error: str, *, now: int) -> Advance:
    if isinstance(thread.stage, Idle | Done):
        return Advance(thread)  # there is no run to end, and an idle thread still accepts messages
    return ending.finish(thread, Errored(value=error, code="internal_error"), now=now, is_failure=True)


def _is_submission(fact: Fact) -> bool:
    """Whether it came by a `submit` or `edit` signal, also by one that is malformed or that the loop failed on."""
    match fact:
        case MessagesSubmitted() | EditRequested() | LoopFailed(lost=MessagesSubmitted() | EditRequested()):
            return True
        case SignalMalformed(signal=signal):
            return signal in (SIGNAL_SUBMIT, SIGNAL_EDIT)
        case _:
            return False


def _on_work_ended(thread: Thread, fact: WorkFact, *, now: int) -> Advance:
    """A command ended: one that the stage waits for, or mail and budget signals that are sent besides."""
    if fact.id in thread.in_flight:
        return _on_stage_work_ended(thread, fact, now=now)
    match ids.parse_work(fact.id):
        case ids.ResendMessage(message_id=message_id):
            return mail.on_message_resent(thread, message_id, fact, now=now)
        case ids.ReturnMessage(message_id=message_id):
            return Advance(child_events.on_message_returned(thread, message_id, fact, now=now))
        case ids.RequestBudget(field=tree.FIELD) if not isinstance(fact, Delivered):
            return tree.on_parent_unreachable(thread).then(_start_granted, now=now)
        case ids.RequestBudget() if not isinstance(fact, Delivered):
            return budgets.on_parent_unreachable(thread, now=now).then(_continue_after_grant, now=now)
        case ids.Task() if isinstance(fact, WorkCancelled) and thread.children.find(fact.id) is not None:
            return child_events.on_task_never_started(thread, fact.id, now=now)
        case _:
            return Advance(thread)


def _start_granted(thread: Thread, *, now: int) -> Advance:
    """Start the calls that have waited for a grant, or finish them, if it was refused."""
    waits = isinstance(thread.stage, CallingTools) and thread.stage.batch.startable
    return tool_calls.continue_batch(thread, now=now) if waits else Advance(thread)


def _continue_after_grant(thread: Thread, *, now: int) -> Advance:
    return next_step(thread, now=now) if isinstance(thread.stage, BetweenSteps) else Advance(thread)


def _on_stage_work_ended(thread: Thread, fact: WorkFact, *, now: int) -> Advance:
    """The command that the stage waits for ended."""
    match thread.stage, fact:
        case Cancelling() as stage, _:
            if isinstance(fact, WorkCancelled) and thread.children.find(fact.id) is not None:
                return child_events.on_task_never_started(thread, fact.id, now=now)
            return cancelling.on_work_ended(thread, stage, fact, now=now)
        case CallingTools(), ToolReturned():
            return tool_calls.on_tool_returned(thread, fact, now=now)
        case CallingTools(), _ if (call := running_call(thread, fact.id)).message is not None:
            return tool_calls.on_message_sent(thread, call, fact, now=now)
        case CallingTools(), _:
            is_result = isinstance(fact, WorkFailed) and fact.is_result
            return tool_calls.on_tool_failed(thread, fact.id, _why(fact), is_result=is_result, now=now)
        case Inferring() as stage, InferenceReturned(response=response):
            return inference.on_inference_returned(thread.entering(BetweenSteps()), stage, response, now=now)
        case Resolving(), AgentResolved(agent=agent, revision=revision, unpriced=unpriced):
            pinned = thread.with_run(replace(thread.current, revision=min(revision, REVISION)))
            # Not resolving any more: a run that stops at once would wait for the lookup, which has ended.
            bound = steps.bind_agent(pinned, agent, now=now).entering(BetweenSteps())
            if (problem := ledger.price_problem(bound.current, agent.agent_id, unpriced)) is not None:
                return ending.finish(bound, Errored(value=problem, code="no_price"), now=now)
            started = hooks.run_at_start(bound) if agent.plugins else None
            return started or next_step(bound, now=now)
        case RunningHooks() as stage, _:
            return _on_hooks_returned(thread, stage, fact, now=now)
        case HandingOff(), AgentResolved(agent=agent, unpriced=unpriced):
            if (problem := ledger.price_problem(thread.current, agent.agent_id, unpriced)) is not None:
                return steps.on_handoff_failed(thread, problem, now=now)
            return steps.on_handoff_resolved(thread, agent, now=now).then(_take_over, now=now)
        case HandingOff(), _:
            return steps.on_handoff_failed(thread, _why(fact), now=now)
        case _:
            code = fact.code if isinstance(fact, WorkFailed) else ""
            return ending.finish(thread.entering(BetweenSteps()), Errored(value=_why(fact), code=code), now=now)


def _take_over(thread: Thread, *, now: int) -> Advance:
    return hooks.run_at_takeover(thread) or next_step(thread, now=now)


def _on_hooks_returned(thread: Thread, stage: RunningHooks, fact: WorkFact, *, now: int) -> Advance:
    """Lifecycle hooks have run: the run continues, or ends as it was about to."""
    moved = hooks.on_hooks_returned(thread, stage, fact, _why(fact))
    if stage.ending is not None:
        return moved.then(ending.on_last_hooks_returned, stage.ending, now=now)
    return moved.then(next_step, now=now)


def _why(fact: WorkFact) -> str:
    match fact:
        case WorkFailed(error=error):
            return error
        case WorkCancelled():
            return "it was cancelled from outside"
        case _:
            return f"{fact.id} ended as {type(fact).__name__}, which is not how it can end"


def _on_messages_submitted(thread: Thread, fact: MessagesSubmitted, *, now: int) -> Advance:
    if isinstance(thread.stage, Idle) and thread.stage.closing:
        return submissions.accept_late(thread, fact, "the thread is being closed", now=now)
    accepted = submissions.accept(thread, fact, now=now)
    is_new = accepted.thread.queued != thread.queued
    waiting = accepted.thread.queued or any(not later.passive for later in accepted.thread.steering)
    match thread.stage, fact.on_busy:
        case Idle(), _ if waiting:
            return accepted.then(submissions.start_next_run)
        case AwaitingTasks(), OnBusy.ENQUEUE | OnBusy.STEER | OnBusy.REJECT:
            return accepted.then(child_events.continue_with_messages, now=now)
        case _, OnBusy.INTERRUPT if is_new:
            return accepted.then(cancelling.cancel, "interrupted by a message", now=now, then=AfterRun.NEXT_RUN)
        case _, OnBusy.ROLLBACK if is_new:
            return accepted.then(cancelling.cancel, "rolled back by a message", now=now, then=AfterRun.ROLL_BACK)
        case _:
            return accepted


def _on_late_fact(thread: Thread, fact: SignalFact | LateChildFact, *, now: int) -> Advance:
    """A fact after the end: the thread keeps messages and mail for the execution that wakes it."""
    match fact:
        case DecisionsReceived():
            return decisions.on_decisions_received(thread, fact, now=now)
        case MessagesSubmitted():
            return submissions.accept_late(thread, fact, "the run has ended", now=now).then(ending.list_unread)
        case WithdrawalRequested() | EditRequested() | RevocationRequested():
            return changes.on_change_requested(thread, fact, now=now)
        case CancelRequested(close=close, run_id=run_id):
            reason = outcomes.run_problem(thread, run_id) or "the run has ended"
            return refuse(thread, SIGNAL_CLOSE if close else SIGNAL_CANCEL, reason, now=now)
        case SignalMalformed(signal=signal, reason=reason):
            return refuse(thread, signal, reason, now=now)
        case MailReceived(mail=AgentMessage() as message):
            if child_events.keeps_late_mail(thread, message):
                return child_events.on_mail_received(thread, message, now=now).then(ending.list_unread)
            return child_events.return_message(thread, message)
        case BudgetRequested(request=request):
            return Advance(thread, (ledger.refuse_request(request),))
        case MailReceived(mail=event):
            return child_events.on_mail_received(thread, event, now=now)
        case MailReturned(message=message, error=error):
            return Advance(child_events.on_mail_returned(thread, message, error, now=now).thread)
        case ChildSettled(result=result):
            return Advance(child_events.on_child_settled(thread, result, now=now).thread)
        case ChildClosed(id=id, reason=reason):
            return Advance(child_events.on_child_closed(thread, id, reason, now=now).thread)
        case LoopFailed():
            return _refuse_lost(thread, fact, now=now)
        case UndeliveredRequested() | BudgetGranted() | TimerFired():
            return Advance(thread)
        case _:
            assert_never(fact)
