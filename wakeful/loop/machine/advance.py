"""The agent loop: `begin` makes a thread's first state, `advance` makes each next one. Pure.

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
from wakeful.contract.carryover import Carryover
from wakeful.contract.mail import AgentMessage
from wakeful.contract.names import SIGNAL_CANCEL, SIGNAL_CLOSE, SIGNAL_DECIDE, SIGNAL_SUBMIT
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import Errored, ForkedFrom, OnBusy, RunIdentity, TaskRef
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
    Fact,
    HistoryReset,
    HooksReturned,
    InferenceReturned,
    LateChildFact,
    LoopFailed,
    MailReceived,
    MailReturned,
    MessagesSubmitted,
    SignalFact,
    SignalMalformed,
    Submitted,
    TimerFired,
    ToolReturned,
    UndeliveredRequested,
    WorkCancelled,
    WorkFact,
    WorkFailed,
)
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
from wakeful.loop.machine.state import REVISION, Advance, Children, Mail, Thread
from wakeful.loop.step import context, hooks, inference, steps
from wakeful.loop.step.agent_state import AgentState
from wakeful.loop.step.steps import next_step
from wakeful.loop.subagents import budgets, child_events, ledger, mail
from wakeful.loop.thread import cancelling, ending, submissions
from wakeful.loop.thread.transcript import Transcript


def begin(
    request: RunRequest,
    *,
    thread_id: str,
    run_id: str,
    transcript: Transcript | None = None,
    carryover: Carryover | None = None,
) -> Advance:
    """A thread with its input accepted and, if there is any, its first run started.

    A thread that was closed continues its old `transcript` with its `carryover`; a fork continues another thread's,
    even without a message.
    """
    thread = opened(request, thread_id=thread_id, run_id=run_id, transcript=transcript, carryover=carryover)
    messages = tuple(
        Submitted(
            written.as_message(ids.message_id(run_id, index + 1)),
            ids.source(ids.FromInput(index)),
            overrides=request.overrides,
            permissions=request.permissions,
            budget=request.budget,
        )
        for index, written in enumerate(request.messages)
    )
    accepted = submissions.accept_submitted(thread, messages, OnBusy.ENQUEUE, now=0)
    if accepted.thread.queued:
        return accepted.then(submissions.start_next_run)
    return accepted.then(submissions.start_run, (), request) if request.fork else accepted


def opened(
    request: RunRequest,
    *,
    thread_id: str,
    run_id: str,
    transcript: Transcript | None = None,
    carryover: Carryover | None = None,
) -> Thread:
    """A thread before its first message."""
    transcript, kept = transcript or Transcript(), carryover or Carryover()
    return Thread(
        identity=_identity(request, kept, thread_id=thread_id, run_id=run_id),
        seed=run_id,
        stage=Idle(),
        transcript=transcript,
        parent=request.subagent,
        mode=request.mode,
        counters=kept.counters,
        frontend_tools=tuple(tool.descriptor() for tool in request.frontend_tools),
        agent_state=AgentState(thread=kept.state, run=kept.run_state),
        permissions=kept.permissions,
        inherited_permissions=kept.run_permissions,
        active_agent=kept.agent_id,
        steering=tuple(Submitted(message, message, internal=True, passive=True) for message in kept.mail),
        seen_messages=tuple(message.id for message in (*transcript.messages, *kept.mail)),
        children=Children(kept.tasks),
        mail=Mail(undelivered=kept.undelivered),
    )


def _identity(request: RunRequest, kept: Carryover, *, thread_id: str, run_id: str) -> RunIdentity:
    """A sub-agent or a fork that was closed and is woken still knows where it came from."""
    parent, before = request.subagent, kept.identity
    task = parent.within if parent else before.task if before else None
    if parent is not None and parent.task_id is not None and request.parent_thread_id is not None:
        task = TaskRef(
            task_id=parent.task_id,
            thread_id=thread_id,
            owner_thread_id=request.parent_thread_id,
            name=parent.name,
        )
    forked_from = before.forked_from if before else None
    if request.fork is not None:
        forked_from = ForkedFrom(thread_id=request.fork.thread_id, step=request.fork.step)
    return RunIdentity(
        thread_id=thread_id,
        run_id=run_id,
        agent_id=request.agent_id,
        parent_thread_id=request.parent_thread_id or (before.parent_thread_id if before else None),
        parent_run_id=request.parent_run_id or (before.parent_run_id if before else None),
        parent_tool_call_id=request.parent_tool_call_id,
        session_id=request.session_id,
        transport_request_id=request.transport_request_id,
        origin=request.origin,
        path=parent.path if parent else before.path if before else (),
        task=task,
        forked_from=forked_from,
    )


def advance(thread: Thread, fact: Fact, *, now: int) -> Advance:
    """What `fact` makes of `thread`. A fact that comes too late changes nothing, except for a recorded refusal."""
    if isinstance(fact, MessagesSubmitted) or (isinstance(fact, SignalMalformed) and fact.signal == SIGNAL_SUBMIT):
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
            moved = _on_work_ended(thread, fact, now=now)
        case HistoryReset(lineage=lineage):
            return Advance(thread.counting(thread.counters.model_copy(update={"lineage": lineage})))
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
            moved = Advance(mail.keep_undelivered(thread, message, error, now=now))
        case UndeliveredRequested(action=action):
            moved = mail.resend_undelivered(thread) if action == "replay" else mail.clear_undelivered(thread)
        case BudgetRequested(request=request):
            moved = budgets.on_budget_requested(thread, request, now=now)
        case BudgetGranted(grant=grant):
            moved = budgets.on_budget_granted(thread, grant, now=now).then(_continue_after_grant, now=now)
        case DecisionsReceived(decisions=batch):
            moved = decisions.on_decisions_received(thread, batch, now=now)
        case MessagesSubmitted():
            moved = _on_messages_submitted(thread, fact, now=now)
        case CancelRequested(reason=reason, close=close):
            then = AfterRun.CLOSE if close else AfterRun.END
            moved = cancelling.cancel(thread, reason, now=now, then=then)
        case SignalMalformed(signal=signal, reason=reason):
            moved = refuse(thread, signal, reason, now=now)
        case TimerFired():
            moved = deadlines.on_timer_fired(thread, now=now)
        case LoopFailed() if isinstance(thread.stage, Idle):
            moved = Advance(thread)  # there is no run to end, and the thread still accepts messages
        case LoopFailed(error=error):
            moved = ending.finish(thread, Errored(value=error), now=now, is_failure=True)
        case _:
            assert_never(fact)
    # A decision may come before the call it names has suspended, so the held ones are judged after every fact.
    is_holding = moved.thread.run is not None and moved.thread.run.held
    return moved.then(decisions.judge_held, now=now) if is_holding else moved


def _on_work_ended(thread: Thread, fact: WorkFact, *, now: int) -> Advance:
    """A command ended: one that the stage waits for, or mail and budget signals that are sent besides."""
    if fact.id in thread.in_flight:
        return _on_stage_work_ended(thread, fact, now=now)
    match ids.parse_work(fact.id):
        case ids.ResendMessage(message_id=message_id):
            return mail.on_message_resent(thread, message_id, fact, now=now)
        case ids.ReturnMessage(message_id=message_id):
            return Advance(child_events.on_message_returned(thread, message_id, fact, now=now))
        case ids.RequestBudget() if not isinstance(fact, Delivered):
            return budgets.on_parent_unreachable(thread, now=now).then(_continue_after_grant, now=now)
        case ids.Task() if isinstance(fact, WorkCancelled) and thread.children.find(fact.id) is not None:
            return child_events.on_task_never_started(thread, fact.id, now=now)
        case _:
            return Advance(thread)


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
            return tool_calls.on_tool_lost(thread, fact.id, _why(fact), now=now)
        case Inferring() as stage, InferenceReturned(response=response):
            return inference.on_inference_returned(thread.entering(BetweenSteps()), stage, response, now=now)
        case Resolving(), AgentResolved(agent=agent, revision=revision):
            pinned = thread.with_run(replace(thread.current, revision=min(revision, REVISION)))
            bound = steps.bind_agent(pinned, agent, now=now)
            started = hooks.run_at_start(bound) if agent.plugins else None
            return started or next_step(bound, now=now)
        case RunningHooks() as stage, _:
            return _on_hooks_returned(thread, stage, fact, now=now)
        case HandingOff(), AgentResolved(agent=agent):
            return steps.on_handoff_resolved(thread, agent, now=now).then(_take_over, now=now)
        case HandingOff(), _:
            return steps.on_handoff_failed(thread, _why(fact), now=now)
        case _:
            return ending.finish(thread.entering(BetweenSteps()), Errored(value=_why(fact)), now=now)


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
        return refuse(thread, SIGNAL_SUBMIT, "the thread is being closed", now=now)
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
    """A fact after the end: no event follows, but the thread keeps mail for the execution that wakes it."""
    match fact:
        case DecisionsReceived():
            return refuse(thread, SIGNAL_DECIDE, "the run has ended", now=now)
        case MessagesSubmitted():
            return refuse(thread, SIGNAL_SUBMIT, "the run has ended", now=now)
        case CancelRequested(close=close):
            return refuse(thread, SIGNAL_CLOSE if close else SIGNAL_CANCEL, "the run has ended", now=now)
        case SignalMalformed(signal=signal, reason=reason):
            return refuse(thread, signal, reason, now=now)
        case MailReceived(mail=AgentMessage() as message):
            return child_events.return_message(thread, message)
        case BudgetRequested(request=request):
            return Advance(thread, (ledger.refuse_request(request),))
        case MailReceived(mail=event):
            return Advance(child_events.on_mail_received(thread, event, now=now).thread)
        case MailReturned(message=message, error=error):
            return Advance(mail.keep_undelivered(thread, message, error, now=now))
        case ChildSettled(result=result):
            return Advance(child_events.on_child_settled(thread, result, now=now).thread)
        case ChildClosed(id=id, reason=reason):
            return Advance(child_events.on_child_closed(thread, id, reason, now=now).thread)
        case UndeliveredRequested() | BudgetGranted() | TimerFired() | LoopFailed():
            return Advance(thread)
        case _:
            assert_never(fact)
