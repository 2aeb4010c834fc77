"""Where every fact enters: `begin` makes a run's first state, `advance` makes each next one."""

from typing import assert_never

from wakeful.contract.mail import Letter
from wakeful.contract.names import SIGNAL_CANCEL, SIGNAL_DECIDE, SIGNAL_SUBMIT
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import Errored, ForkedFrom, OnBusy, RunIdentity, TaskRef
from wakeful.contract.subagents import Keeps
from wakeful.loop.calls import deadlines, decisions, tool_calls
from wakeful.loop.calls.commit import running_call
from wakeful.loop.machine.events import refuse
from wakeful.loop.machine.facts import (
    AgentResolved,
    CancelRequested,
    ChildGone,
    ChildNamed,
    ChildSettled,
    CompactionReturned,
    DecisionsReceived,
    Fact,
    Granted,
    HooksReturned,
    InferenceReturned,
    LateFamilyFact,
    LetterReturned,
    LettersWanted,
    LoanAsked,
    LoopBroken,
    MailReceived,
    MessagesSubmitted,
    SignalFact,
    SignalNotUnderstood,
    Submitted,
    TimePassed,
    Told,
    ToolReturned,
    WorkFact,
    WorkFailed,
    WorkStopped,
)
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.stages import (
    Afterwards,
    AwaitingTasks,
    BetweenSteps,
    CallingTools,
    Cancelling,
    Done,
    HandingOver,
    Hooking,
    Idle,
    Inferring,
    Resolving,
)
from wakeful.loop.machine.state import REVISION, Advance, RunState, letter_id
from wakeful.loop.step import context, handoff, hooks, inference
from wakeful.loop.step.agent_state import Values
from wakeful.loop.step.handoff import binding
from wakeful.loop.step.steps import next_step
from wakeful.loop.subagents import budgets, child_events, ledger, mail
from wakeful.loop.thread import ending, submissions
from wakeful.loop.thread.transcript import Transcript


def begin(
    request: RunRequest,
    *,
    thread_id: str,
    run_id: str,
    transcript: Transcript | None = None,
    keeps: Keeps | None = None,
) -> Advance:
    """A thread's first run: its input in the transcript, and the wish to know its agent.

    A thread that was closed goes on from its old `transcript` and with what it `keeps`; a fork goes on from another's,
    even if nobody says anything more.
    """
    state = opened(request, thread_id=thread_id, run_id=run_id, transcript=transcript, keeps=keeps)
    messages = tuple(
        Submitted(
            written.as_message(f"{run_id}:{index + 1}"),
            f"input:{index}",
            overrides=request.overrides,
            permissions=request.permissions,
            budget=request.budget,
        )
        for index, written in enumerate(request.messages)
    )
    given = submissions.accept(state, MessagesSubmitted(messages), now=0)
    if given.state.queued:
        return given.then(submissions.begin_next_run)
    return given.then(submissions.begin_run, (), request) if request.fork else given


def opened(
    request: RunRequest,
    *,
    thread_id: str,
    run_id: str,
    transcript: Transcript | None = None,
    keeps: Keeps | None = None,
) -> RunState:
    """A thread that nobody has said anything to."""
    transcript, keeps, family = transcript or Transcript(), keeps or Keeps(), request.family
    identity = _identity(request, keeps, thread_id=thread_id, run_id=run_id)
    return RunState(
        identity=identity,
        stage=Idle(),
        transcript=transcript,
        mode=request.mode,
        began=transcript.mark,
        runs=0,
        frontend_tools=tuple(tool.descriptor() for tool in request.frontend_tools),
        seen_messages=tuple(message.id for message in (*transcript.messages, *keeps.mail)),
        steering=tuple(Submitted(mail, mail, internal=True, passive=True) for mail in keeps.mail),
        work_id=family.work_id if family else None,
        allowance=family.allowance if family else None,
        deadline=family.deadline if family else None,
        tasks=keeps.tasks,
        spawned=keeps.spawned,
        letters=keeps.letters,
        permissions=keeps.permissions,
        run_permissions=keeps.run_permissions,
        values=Values(thread=keeps.state, run=keeps.run_state),
        active_agent=keeps.agent_id,
    )


def _identity(request: RunRequest, keeps: Keeps, *, thread_id: str, run_id: str) -> RunIdentity:
    """Who the run is; a sub-agent or a fork that was closed and is woken still knows where it came from."""
    family, before = request.family, keeps.identity
    task = family.within if family else before.task if before else None
    if family is not None and family.task_id is not None and request.parent_thread_id is not None:
        task = TaskRef(
            task_id=family.task_id,
            thread_id=thread_id,
            owner_thread_id=request.parent_thread_id,
            name=family.name,
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
        path=family.path if family else before.path if before else (),
        task=task,
        forked_from=forked_from,
    )


def advance(state: RunState, fact: Fact, *, now: int) -> Advance:
    """What `fact` makes of `state`. A fact that comes too late changes nothing but the list of refusals."""
    match fact:
        case (
            AgentResolved()
            | InferenceReturned()
            | ToolReturned()
            | CompactionReturned()
            | HooksReturned()
            | Told()
            | WorkFailed()
            | WorkStopped()
        ):
            if fact.id == state.context.compacting:
                return context.ended(state, fact)
            moved = _on_any_work(state, fact, now=now)
        case ChildNamed(id=id, thread_id=thread_id):
            moved = child_events.named(state, id, thread_id, now=now)
        case _ if isinstance(state.stage, Done):
            moved = _too_late(state, fact, now=now)
        case ChildSettled(settled=settled):
            moved = child_events.settled(state, settled, now=now)
        case ChildGone(id=id, reason=reason):
            moved = child_events.gone(state, id, reason, now=now)
        case MailReceived(mail=received):
            moved = child_events.received(state, received, now=now)
        case LetterReturned(letter=letter, error=error):
            moved = Advance(mail.burying(state, letter, error, now=now))
        case LettersWanted(action=action):
            moved = mail.replay(state) if action == "replay" else mail.clear(state)
        case LoanAsked(loan=loan):
            moved = budgets.asked(state, loan, now=now)
        case Granted(grant=grant):
            moved = budgets.granted(state, grant, now=now).then(_go_on_after_grant, now=now)
        case DecisionsReceived(decisions=batch):
            moved = Advance(replace(state, held=(*state.held, batch)))
        case MessagesSubmitted():
            moved = _on_messages(state, fact, now=now)
        case CancelRequested(reason=reason, close=close):
            then = Afterwards.CLOSE if close else Afterwards.END
            moved = ending.cancel(state, reason, now=now, then=then)
        case SignalNotUnderstood(signal=signal, reason=reason):
            moved = refuse(state, signal, reason, now=now)
        case TimePassed():
            moved = deadlines.pass_time(state, now=now)
        case LoopBroken() if isinstance(state.stage, Idle):
            moved = Advance(state)  # there is no run to end, and a thread that waits hangs nobody
        case LoopBroken(error=error):
            moved = ending.finish(state, Errored(value=error), now=now, is_broken=True)
        case _:
            assert_never(fact)
    # A decision may come before the call it names has suspended, so the held ones are looked at after every fact.
    return moved.then(decisions.reconsider_held, now=now)


def _on_any_work(state: RunState, fact: WorkFact, *, now: int) -> Advance:
    """Work of the run itself, or what it does beside: letters that are sent again, budgets that are asked for."""
    if state.outbox and fact.id == letter_id(state.outbox[0]):
        return mail.replayed(state, fact, now=now)
    if fact.id.startswith(child_events.RETURNED_ID):
        return Advance(child_events.sent_back(state, fact, now=now))
    if fact.id.startswith(budgets.LEND_ID) and not isinstance(fact, Told):
        return budgets.lend_failed(state, now=now).then(_go_on_after_grant, now=now)
    if isinstance(fact, WorkStopped) and any(task.task_id == fact.id for task in state.running_tasks):
        return child_events.never_started(state, fact.id, now=now)
    return _on_work(state, fact, now=now) if fact.id in state.in_flight else Advance(state)


def _go_on_after_grant(state: RunState, *, now: int) -> Advance:
    return next_step(state, now=now) if isinstance(state.stage, BetweenSteps) else Advance(state)


def _on_work(state: RunState, fact: WorkFact, *, now: int) -> Advance:
    """Work that was in flight came back; `advance` has made sure that the run was waiting for it."""
    match state.stage, fact:
        case Cancelling() as cancelling, _:
            return ending.wound_down(state, cancelling, fact, now=now)
        case CallingTools(), ToolReturned():
            return tool_calls.returned(state, fact, now=now)
        case CallingTools(), _ if (call := running_call(state, fact.id)).letter is not None:
            return tool_calls.sent(state, call, fact, now=now)
        case CallingTools(), _:
            return tool_calls.lost(state, fact.id, _why(fact), now=now)
        case Inferring() as inferring, InferenceReturned(response=response):
            return inference.returned(state.entering(BetweenSteps()), inferring, response, now=now)
        case Resolving(), AgentResolved(agent=agent):
            pinned = replace(state, revision=min(fact.revision, REVISION))
            bound = binding(pinned, agent, now=now)
            return hooks.at_beginning(bound) or next_step(bound, now=now)
        case Hooking() as hooking, _:
            return _hooked(state, hooking, fact, now=now)
        case HandingOver(), AgentResolved(agent=agent):
            return handoff.taken_over(state, agent, now=now).then(_activated, now=now)
        case HandingOver(), _:
            return handoff.failed(state, _why(fact), now=now)
        case _:
            return ending.finish(state.entering(BetweenSteps()), Errored(value=_why(fact)), now=now)


def _activated(state: RunState, *, now: int) -> Advance:
    return hooks.at_takeover(state) or next_step(state, now=now)


def _hooked(state: RunState, hooking: Hooking, fact: WorkFact, *, now: int) -> Advance:
    """Hooks have run: the run goes on, or ends as it was about to."""
    moved = hooks.folded(state, hooking, fact, _why(fact))
    if hooking.ending is not None:
        return moved.then(ending.end_after_hooks, hooking.ending, now=now)
    return moved.then(next_step, now=now)


def _why(fact: WorkFact) -> str:
    match fact:
        case WorkFailed(error=error):
            return error
        case WorkStopped():
            return "it was stopped from outside"
        case _:
            return f"{fact.id} ended as {type(fact).__name__}, which is not how it can end"


def _on_messages(state: RunState, fact: MessagesSubmitted, *, now: int) -> Advance:
    if isinstance(state.stage, Idle) and state.stage.closing:
        return refuse(state, SIGNAL_SUBMIT, "the thread is being closed", now=now)
    accepted = submissions.accept(state, fact, now=now)
    waiting = accepted.state.queued or any(not later.passive for later in accepted.state.steering)
    match state.stage, fact.on_busy:
        case Idle(), _ if waiting:
            return accepted.then(submissions.begin_next_run)
        case AwaitingTasks(), OnBusy.ENQUEUE | OnBusy.STEER | OnBusy.REJECT:
            return accepted.then(child_events.go_on_with_messages, now=now)
        case _, OnBusy.INTERRUPT if accepted.state.queued != state.queued:
            return accepted.then(ending.cancel, "interrupted by a message", now=now, then=Afterwards.NEXT_RUN)
        case _, OnBusy.ROLLBACK if accepted.state.queued != state.queued:
            return accepted.then(ending.cancel, "rolled back by a message", now=now, then=Afterwards.ROLL_BACK)
        case _:
            return accepted


def _too_late(state: RunState, fact: SignalFact | LateFamilyFact, *, now: int) -> Advance:
    match fact:
        case DecisionsReceived():
            return refuse(state, SIGNAL_DECIDE, "the run has ended", now=now)
        case MessagesSubmitted():
            return refuse(state, SIGNAL_SUBMIT, "the run has ended", now=now)
        case CancelRequested():
            return refuse(state, SIGNAL_CANCEL, "the run has ended", now=now)
        case SignalNotUnderstood(signal=signal, reason=reason):
            return refuse(state, signal, reason, now=now)
        case MailReceived(mail=Letter() as letter):
            return child_events.send_back(state, letter)
        case LoanAsked(loan=loan):
            return Advance(state, (ledger.refusing(loan, "its parent has ended"),))
        case MailReceived(mail=received):
            return Advance(child_events.received(state, received, now=now).state)
        case LetterReturned(letter=letter, error=error):
            return Advance(mail.burying(state, letter, error, now=now))
        # No event follows the end, but the thread keeps what came too late: whoever wakes it reads that.
        case ChildSettled(settled=settled):
            return Advance(child_events.settled(state, settled, now=now).state)
        case ChildGone(id=id, reason=reason):
            return Advance(child_events.gone(state, id, reason, now=now).state)
        case LettersWanted() | Granted() | TimePassed() | LoopBroken():
            return Advance(state)
        case _:
            assert_never(fact)
