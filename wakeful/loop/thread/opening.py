"""Open a thread: a new one, one that was closed and is woken, or a fork."""

from wakeful.contract import ids
from wakeful.contract.carryover import Carryover, UnreadMessage
from wakeful.contract.context import Compaction
from wakeful.contract.messages import Role
from wakeful.contract.outcomes import Outcome, OutcomeStatus, remembered_id
from wakeful.contract.remembered_outcomes import newest
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import ForkedFrom, OnBusy, RunIdentity, TaskRef
from wakeful.contract.users import Users
from wakeful.loop.machine.events import mail_arrived
from wakeful.loop.machine.facts import Submitted
from wakeful.loop.machine.stages import Idle
from wakeful.loop.machine.state import Advance, Children, ContextState, Mail, Thread
from wakeful.loop.step import context
from wakeful.loop.step.agent_state import AgentState
from wakeful.loop.thread import submissions
from wakeful.loop.thread.transcript import Transcript
from wakeful.permissions.authority import narrowing


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
    own = dict(request.caller) | {"tenant": None} | dict(request.settings)  # the tenant is the thread's
    messages = tuple(
        Submitted(
            message=written.as_message(ids.message_id(run_id, index + 1)),
            source=ids.source(ids.FromInput(index)),
            run_mode=request.run_mode,
            **own,
        )
        for index, written in enumerate(request.messages)
    )
    # A watcher may not have seen mail that arrived after the end of the closed execution.
    unread = tuple(mail_arrived(later.message) for later in thread.steering)
    accepted = Advance(thread, events=unread).then(submissions.accept_submitted, messages, OnBusy.ENQUEUE, now=0)
    if accepted.thread.queued or any(not later.passive for later in accepted.thread.steering):
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
    # Of what woke the thread, messages come first: their run reads the mail, too.
    is_read_later = bool(kept.unread) or not kept.late_mail
    return Thread(
        identity=_identity(request, kept, thread_id=thread_id, run_id=run_id),
        seed=run_id,
        stage=Idle(),
        transcript=transcript,
        parent=request.subagent,
        mode=request.mode,
        on_error=request.on_error,
        counters=kept.counters,
        context=ContextState(others=kept.context, compaction=_kept_compaction(transcript, kept)),
        frontend_tools=tuple(tool.descriptor() for tool in request.frontend_tools) or kept.frontend_tools,
        agent_state=AgentState(kept.state_revision, thread=kept.state, run=kept.run_state, emitted=kept.state_revision),
        permissions=kept.permissions,
        authority=narrowing(kept.authority, request.permissions if request.subagent else ()),
        handed_over=kept.handed_over,
        inherited_permissions=kept.run_permissions,
        inherited_requested=kept.run_requested,
        inherited_metadata=kept.run_metadata,
        restored_revision=kept.revision,
        inherited_agents=kept.agents,
        expire_after=request.expire_after or kept.expire_after,
        users=_users(request, carryover).adding(request.user),
        own_priority=request.priority or kept.priority,
        active_agent=kept.agent_id,
        queued=tuple(map(_unread, kept.unread)),
        steering=_kept_mail(kept, passive=is_read_later),
        outcomes=_known_outcomes(transcript, kept),
        children=Children(kept.tasks, kept.task_starters),
        mail=Mail(undelivered=kept.undelivered),
    )


def _kept_mail(kept: Carryover, *, passive: bool) -> tuple[Submitted, ...]:
    mail = (Submitted(message=message, source=message, internal=True, passive=passive) for message in kept.mail)
    bound = {id: starter.on_mail for starter in kept.mail_starters for id in starter.message_ids}
    return tuple(later.model_copy(update=bound.get(later.message.id, {})) for later in mail)


def _users(request: RunRequest, carryover: Carryover | None) -> Users:
    """The users of what the thread continues: they are not known while it is restored, nor from an older release."""
    if carryover is not None and carryover.users is not None:
        return carryover.users
    is_new = carryover is None and request.fork is None and request.restore_from is None
    return Users(more=not is_new)


def _unread(unread: UnreadMessage) -> Submitted:
    """A message that no run had read: the woken thread starts a run with it."""
    source = submissions.source_of(unread.message, ids.FromSnapshot(unread.message.id))
    return Submitted(source=source, **dict(unread))


def _kept_compaction(transcript: Transcript, kept: Carryover) -> Compaction | None:
    fits = kept.compaction is not None and context.fits(kept.compaction.mark, transcript)
    return kept.compaction if fits else None


def _known_outcomes(transcript: Transcript, kept: Carryover) -> tuple[Outcome, ...]:
    """What is carried over, after the messages of the conversation and mail that it does not mention."""
    queued = {remembered_id(unread.message.id) for unread in kept.unread}
    carried = tuple(
        outcome.model_copy(update={"status": OutcomeStatus.QUEUED}) if outcome.id in queued else outcome
        for outcome in kept.outcomes
    )
    known = {outcome.id for outcome in carried if outcome.is_message}
    read = (message for message in transcript.messages if message.role is Role.USER)
    unread = (waiting.message for waiting in kept.unread)
    statuses = ((OutcomeStatus.READ, read), (OutcomeStatus.STEERING, kept.mail), (OutcomeStatus.QUEUED, unread))
    found = {remembered_id(message.id): status for status, messages in statuses for message in messages}
    others = (Outcome(id=id, status=status) for id, status in found.items() if id not in known)
    return newest((*others, *carried))


def other_tenant(tenant: str | None, kept: Carryover) -> str | None:
    """Why a request that names this tenant cannot continue a thread; None if it can."""
    if tenant is None or tenant == kept.tenant:
        return None
    owner = "no tenant" if kept.tenant is None else f"another tenant than {tenant!r}"
    return f"it belongs to {owner}: leave the tenant out, or start a new thread"


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
        tenant=kept.tenant or request.tenant,
        user=request.user or kept.run_user,
    )
