"""A thread as queries show it: its status, its conversation, and what it carries over to a later execution."""

from itertools import takewhile
from typing import assert_never

from pydantic import JsonValue
from pydantic_core import to_json

from wakeful.contract import ids
from wakeful.contract.base import json_bytes
from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.carryover import Carryover, UnreadMessage
from wakeful.contract.decisions import Suspension, SuspensionTicket
from wakeful.contract.limits import cut
from wakeful.contract.mail import UndeliveredMessage
from wakeful.contract.messages import Message, MessageMetadata
from wakeful.contract.outcomes import OutcomeStatus
from wakeful.contract.runs import Usage
from wakeful.contract.settings import part_of
from wakeful.contract.tasks import MailStarter, TaskStarter
from wakeful.contract.transcript import assistant_message, tool_message
from wakeful.contract.views import (
    ASKING_PARENT,
    CALLING,
    CALLING_REMOTE,
    HELD_OPEN,
    DecidedCall,
    PendingView,
    PermissionsView,
    QueuedMessage,
    RuleScope,
    ScopedRule,
    StatusView,
    ToolCallView,
    WaitingFor,
)
from wakeful.loop.calls.batch import Call, FinishedCall, RunningCall, SuspendedCall
from wakeful.loop.machine.stages import (
    AwaitingBudget,
    AwaitingDecisions,
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
from wakeful.loop.machine.state import Thread
from wakeful.loop.step.steps import infer_command
from wakeful.loop.subagents import ledger, tree
from wakeful.permissions.rules import idle_rules, overlaid

CONTENT_LENGTH = 500
"""Characters of an undelivered message that a status shows: many clients query it, often."""

TICKETS_BYTES = 600_000
"""Bytes of the tickets that a status shows whole."""

SHOWN_DECISIONS = 20
"""Decisions that a status shows."""

LISTED_BYTES = 8_000
LISTED_CALL_BYTES = 2_000
LISTED_LENGTH = 200
"""Of the calls that lists show: bytes of all, bytes of one that is not cut, characters of its text if it is cut."""


def status_view(thread: Thread) -> StatusView:
    run = thread.run
    limit = ledger.tightest(run.budget.limit, run.budget.allowance) if run else Budget()
    return StatusView(
        identity=thread.identity,
        status=thread.status,
        doing=doing(thread),
        waiting_for=_waiting_for(thread),
        steps=run.step.number if run else 0,
        usage=run.usage if run else Usage(),
        calls=_call_views(thread.batch.calls if thread.batch else ()),
        decisions=_decisions(thread),
        queued=len(thread.queued) + len(thread.steering),
        runs=thread.counters.runs,
        refusals=thread.refusals,
        result=thread.result,
        active_agent=thread.active_agent,
        tasks=thread.children.tasks,
        undelivered=tuple(map(_cut, thread.mail.undelivered)),
        spent=ledger.spent(run) if run else Spent(),
        budget=None if limit == Budget() else limit,
        metadata=dict(run.metadata) if run else {},
        no_more_agents=tree.refusal(thread),
        idle_rules=idle_rules(run.resolved.idle_rules, thread.offered_frontend_tools) if run and run.resolved else (),
        users=thread.users.names,
        more_users=thread.users.more,
    )


def _decisions(thread: Thread) -> tuple[DecidedCall, ...]:
    """Those about calls of the current step, and those that the messages of the run have, as far as it has them."""
    names: dict[str, str] = {}
    found: list[DecidedCall] = []
    of_run = takewhile(lambda message: _is_of_run(message, thread), reversed(thread.transcript.messages))
    for message in reversed(tuple(of_run)):
        names |= {call.id: call.name for call in message.tool_calls}
        id = message.tool_call_id or ""
        found += (DecidedCall(call_id=id, tool_name=names.get(id, ""), decision=each) for each in message.decisions)
    for call in thread.batch.calls if thread.batch else ():
        of_call = thread.batch.decisions_of(call.call.id) if thread.batch else ()
        found += (DecidedCall(call_id=call.call.id, tool_name=call.call.name, decision=each) for each in of_call)
    return tuple(sorted(found, key=lambda each: each.decision.at)[-SHOWN_DECISIONS:])


def _is_of_run(message: Message, thread: Thread) -> bool:
    """Whether it is a message of the newest run; what the run has read in between has no metadata."""
    return message.metadata is None or message.metadata.run_id == thread.identity.run_id


def _call_views(calls: tuple[Call, ...]) -> tuple[ToolCallView, ...]:
    """The calls, with tickets that stay readable together: the arguments of later ones are cut."""
    room, views = TICKETS_BYTES, []
    for call in calls:
        view = _call_view(call)
        if isinstance(call, SuspendedCall) and call.gated:
            view = view.model_copy(update={"gated": True})
        if view.ticket is not None:
            room -= json_bytes(view.ticket)
            view = view if room >= 0 else view.model_copy(update={"ticket": _cut_ticket(view.ticket)})
        views.append(view)
    return tuple(views)


def _cut_ticket(ticket: SuspensionTicket, length: int = CONTENT_LENGTH) -> SuspensionTicket:
    """The ticket without what can be long; its digest still is of the whole arguments."""
    suspension, pending = ticket.suspension, ticket.pending
    message = suspension.message and cut(suspension.message, length)
    shown: JsonValue = {"cut": cut(to_json(pending.arguments).decode(), length)}
    return ticket.model_copy(
        update={
            "suspension": Suspension(id=suspension.id, action=cut(suspension.action), message=message),
            "pending": pending.model_copy(update={"arguments": shown}),
        }
    )


def pending_view(thread: Thread) -> PendingView | None:
    """What lists show of the calls that wait for a decision, as far as it fits; None if none waits."""
    room, shown, is_cut = LISTED_BYTES, [], []
    for call in thread.batch.suspended if thread.batch else ():
        view = _call_view(call)
        if json_bytes(view) > min(room, LISTED_CALL_BYTES):
            view = view.model_copy(update={"ticket": _cut_ticket(call.ticket, LISTED_LENGTH)})
            is_cut.append(view.call_id)
        room -= json_bytes(view)
        if room < 0:  # a client that lists them reads the thread instead
            break
        shown.append(view)
    return PendingView(identity=thread.identity, calls=tuple(shown), cut=tuple(is_cut)) if shown else None


def _call_view(call: Call) -> ToolCallView:
    suspended = call if isinstance(call, SuspendedCall) else None
    child_thread_id = call.child_thread_id if isinstance(call, RunningCall) else None
    return ToolCallView(
        call_id=call.call.id,
        tool_name=call.call.name,
        status=call.status,
        ticket=suspended.ticket if suspended else None,
        since=suspended.since if suspended else None,
        child_thread_id=child_thread_id,
        work_id=call.id if isinstance(call, RunningCall) and child_thread_id else None,
    )


def _cut(undelivered: UndeliveredMessage) -> UndeliveredMessage:
    content = undelivered.message.content
    if len(content) <= CONTENT_LENGTH:
        return undelivered
    message = undelivered.message.model_copy(update={"content": content[:CONTENT_LENGTH]})
    return undelivered.model_copy(update={"message": message})


def _waiting_for(thread: Thread) -> WaitingFor | None:
    match thread.stage:
        case AwaitingDecisions():
            return WaitingFor.DECISIONS
        case AwaitingTasks():
            return WaitingFor.TASKS if thread.children.running else WaitingFor.PENDING_WORK
        case AwaitingBudget():
            return WaitingFor.BUDGET
        case _:
            return None


def carryover(thread: Thread) -> Carryover:
    """What the thread keeps besides its conversation, as far as it fits, for a later execution."""
    after = ledger.after_run(thread)
    resending = (UndeliveredMessage(message=message, error="it was being sent") for message in thread.mail.resending)
    return Carryover(
        counters=thread.counters,
        agent_id=thread.requested_agent or thread.active_agent,
        tasks=thread.children.tasks,
        task_starters=after.children.starters,
        undelivered=(*thread.mail.undelivered, *resending),
        mail=tuple(later.message for later in thread.steering if later.internal),
        mail_starters=_mail_starters(after),
        late_mail=any(later.internal and later.late for later in thread.steering),
        unread=tuple(
            part_of(later, UnreadMessage) for later in (*thread.steering, *thread.queued) if not later.internal
        ),
        permissions=thread.permissions,
        authority=thread.authority,
        handed_over=thread.handed_on,
        state=dict(thread.agent_state.thread),
        state_revision=thread.agent_state.for_next_run().revision,
        outcomes=thread.outcomes,
        identity=thread.identity,
        compaction=thread.context.compaction,
        frontend_tools=thread.frontend_tools,
        context=thread.context.by_agent,
        expire_after=thread.expire_after,
        priority=thread.own_priority,
        tenant=thread.identity.tenant,
        agents=thread.run.budget.agents.started if thread.run else thread.inherited_agents,
        users=thread.users,
    ).fitting()


def _mail_starters(thread: Thread) -> tuple[MailStarter, ...]:
    """For whom the runs acted that the mail of tasks is bound by."""
    found: dict[str, tuple[TaskStarter, list[str]]] = {}
    for later in thread.steering:
        if (starter := later.begins_for) is not None:
            found.setdefault(later.starter, (starter, []))[1].append(later.message.id)
    return tuple(MailStarter(**dict(starter), message_ids=tuple(ids)) for starter, ids in found.values())


def queued_messages(thread: Thread) -> tuple[QueuedMessage, ...]:
    """What no run has read, in the order in which it is read."""
    has_ended = isinstance(thread.stage, Done)
    queues = ((OutcomeStatus.STEERING, thread.steering), (OutcomeStatus.QUEUED, thread.queued))
    return tuple(
        QueuedMessage(
            message=later.message,
            status=OutcomeStatus.UNREAD if has_ended and not (later.internal or later.late) else status,
            agent_id=later.agent_id,
            mail=later.internal,
        )
        for status, queue in queues
        for later in queue
    )


def permissions_view(thread: Thread) -> PermissionsView:
    """The rules of the agent, as it was resolved last, of the thread and of the run."""
    run = thread.run
    policy = overlaid(run.resolved.permissions if run and run.resolved else None, ())
    of_run = thread.run_rules
    scopes = (
        (RuleScope.AGENT, policy.rules),
        (RuleScope.THREAD, of_run.thread),
        (RuleScope.RUN, of_run.requested),
        (RuleScope.HOOK, of_run.added),
        (RuleScope.ANCESTOR, of_run.ancestors),
    )
    rules = tuple(ScopedRule(rule=rule, scope=scope) for scope, rules in scopes for rule in rules)
    always = tuple(rule.tool for rule in of_run.answers)
    return PermissionsView(default_behavior=policy.default_behavior, rules=rules, always=always)


def doing(thread: Thread) -> str:
    """What the thread is doing, in a few words."""
    match thread.stage:
        case Resolving():
            return f"looking up agent {thread.identity.agent_id}"
        case Inferring() if thread.agent.endpoint is not None:
            return f"{CALLING_REMOTE} {thread.agent.agent_id} at {thread.agent.endpoint.service}"
        case Inferring() as stage:
            return f"{CALLING} {infer_command(thread, stage).model}"
        case CallingTools(batch=batch) if not batch.running and tree.is_asking(thread):
            return f"{ASKING_PARENT} for more agents"
        case CallingTools(batch=batch):
            return f"running {', '.join(call.call.name for call in batch.running or batch.startable)}"
        case AwaitingDecisions(batch=batch):
            return f"waiting for a decision on {', '.join(call.call.name for call in batch.suspended)}"
        case AwaitingTasks() if thread.children.running:
            return f"waiting for {', '.join(task.name or task.task_id for task in thread.children.running)}"
        case AwaitingTasks():
            return f"{HELD_OPEN} for {', '.join(hold.reason or hold.key for hold in thread.current.holds)}"
        case AwaitingBudget(field=field, asked_parent=True):
            return f"{ASKING_PARENT} for more {field}"
        case AwaitingBudget(field=field):
            return f"waiting for its tasks to release {field}"
        case RunningHooks(phases=phases):
            return f"running hooks ({', '.join(phase.value for phase in phases)})"
        case HandingOff(agent_id=agent_id):
            return f"handing off to {agent_id}"
        case BetweenSteps():
            return "between two steps"
        case Cancelling(reason=reason):
            return f"cancelling what is in flight{f': {reason}' if reason else ''}"
        case Idle():
            return "idle, waiting for a message"
        case Done(result=result):
            return f"ended: {result.status_reason}"
        case _:
            assert_never(thread.stage)


def visible_messages(thread: Thread) -> tuple[Message, ...]:
    """The transcript, and the part of the current step that cannot change: results up to the first missing one."""
    if thread.batch is None:
        return thread.transcript.messages
    run_id = thread.identity.run_id
    metadata = MessageMetadata(run_id=run_id, step_index=thread.current.step.number)
    staged = [assistant_message(thread.batch.response, id=thread.batch.message_id, metadata=metadata)]
    for call in takewhile(lambda call: isinstance(call, FinishedCall), thread.batch.calls):
        assert isinstance(call, FinishedCall)
        id = ids.message_id(run_id, thread.transcript.length + len(staged) + 1)
        decisions = thread.batch.decisions_of(call.call.id)
        staged.append(tool_message(call.call.id, call.result, id=id, metadata=metadata, decisions=decisions))
    return (*thread.transcript.messages, *staged)
