"""Messages that clients submit: start a run with them, queue them, steer with them, or interrupt the run for them."""

from collections.abc import Iterable, Mapping
from functools import reduce
from itertools import takewhile
from typing import assert_never

from pydantic import JsonValue

from wakeful.contract import ids
from wakeful.contract.base import json_bytes, replace
from wakeful.contract.budgets import Budget
from wakeful.contract.events import MessageReceived, MessagesRead
from wakeful.contract.files import files_of
from wakeful.contract.inference import Source
from wakeful.contract.messages import Message
from wakeful.contract.outcomes import OutcomeStatus, remembered_id
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import NO_USAGE, Adapter, OnBusy, Origin, RunMode, ThreadMode
from wakeful.contract.settings import RunSettings, part_of
from wakeful.contract.users import Users
from wakeful.loop.machine.commands import ResolveAgent
from wakeful.loop.machine.events import run_start
from wakeful.loop.machine.facts import MessagesSubmitted, Submitted
from wakeful.loop.machine.stages import AwaitingTasks, Done, Idle, Resolving
from wakeful.loop.machine.state import Advance, AgentCount, Ledger, Run, Thread
from wakeful.loop.subagents import ledger
from wakeful.loop.thread.outcomes import count_repeats, is_accepted, record_messages, refuse_messages, tenant_problem
from wakeful.loop.thread.waiting import no_room_for
from wakeful.permissions.authority import binding_on, narrowing

INLINE_BYTES = 2_000
"""Bytes of a message that inference inputs spell out, so that their worker need not read history for it."""

INLINE_GROUP_BYTES = 100_000
"""Bytes of the messages of one `submit` signal that are spelled out."""

INLINE_READ_BYTES = 300_000
"""Bytes of waiting messages that a step reads, as far as they are spelled out; the next steps read the rest."""


OTHER_USER = (
    "the run under way acts for another user, or has other metadata, and in run mode no run follows it: send the "
    "message when the run has ended, or with on_busy interrupt"
)


def count_submission(thread: Thread) -> Thread:
    """Every `submit` signal is numbered, also one that is rejected: readers of history count them as well."""
    counters = thread.counters
    return thread.counting(counters.model_copy(update={"submissions": counters.submissions + 1}))


def submitted_messages(thread: Thread, fact: MessagesSubmitted) -> tuple[Message, ...]:
    """The messages of the newest `submit` signal; one without an id has one that is made of its number."""
    number = thread.counters.submissions
    return tuple(
        written.as_message(ids.submitted_message_id(number, index)) for index, written in enumerate(fact.messages)
    )


def refuse_submitted(thread: Thread, fact: MessagesSubmitted, reason: str, *, now: int) -> Advance:
    """Refuse the messages of the newest `submit` signal."""
    return refuse_messages(thread, (message.id for message in submitted_messages(thread, fact)), reason, now=now)


def accept(thread: Thread, fact: MessagesSubmitted, *, now: int) -> Advance:
    """Accept the messages of the newest `submit` signal, unless their sender belongs to another tenant."""
    if (reason := tenant_problem(thread, fact.caller.tenant, "message")) is not None:
        return refuse_submitted(thread, fact, reason, now=now)
    number, submitted, room = thread.counters.submissions, [], INLINE_GROUP_BYTES
    own = dict(fact.caller) | {"tenant": None} | dict(fact.settings)  # the tenant is the thread's
    for index, message in enumerate(submitted_messages(thread, fact)):
        source = source_of(message, ids.FromSubmit(number, index), room=room)
        room -= _inline_bytes(source)
        submitted.append(
            Submitted(
                message=message,
                source=source,
                group=str(number),
                agent_id=fact.agent_id,
                run_mode=fact.run_mode,
                late=thread.takes_late,
                **own,
            )
        )
    return accept_submitted(thread, tuple(submitted), fact.on_busy, now=now)


def accept_late(thread: Thread, fact: MessagesSubmitted, reason: str, *, now: int) -> Advance:
    """Keep messages for the execution that wakes the thread, which is closing or has ended."""
    if fact.on_busy is OnBusy.REJECT:
        return refuse_submitted(thread, fact, reason, now=now)
    return accept(thread, replace(fact, on_busy=OnBusy.ENQUEUE), now=now)


def source_of(message: Message, location: ids.Location, *, room: int = INLINE_BYTES) -> Source:
    """Where an inference input finds a message: spelled out if it is short and there is room, else in history."""
    return message if json_bytes(message) <= min(INLINE_BYTES, room) else ids.source(location)


def _inline_bytes(source: Source) -> int:
    return json_bytes(source) if isinstance(source, Message) else 0


def readable(messages: tuple[Submitted, ...]) -> tuple[Submitted, ...]:
    """Of messages that wait, as many of the first as one step can read."""
    room = INLINE_READ_BYTES
    for count, submitted in enumerate(messages):
        room -= _inline_bytes(submitted.source)
        if room < 0:
            return messages[: count or 1]
    return messages


def accept_submitted(thread: Thread, messages: tuple[Submitted, ...], on_busy: OnBusy, *, now: int) -> Advance:
    """Queue what is new; a message whose id was seen before is a repeat, and a no-op."""
    sent = [submitted.message.id for submitted in messages]
    if on_busy is OnBusy.REJECT and not isinstance(thread.stage, Idle | AwaitingTasks):
        return refuse_messages(thread, sent, "the thread is busy, and on_busy is reject", now=now)
    if (given := _settings_of_a_run(messages)) and not _start_a_run(thread, on_busy):
        reason = f"{', '.join(given)} apply to the run that messages start, but the run under way reads these"
        return refuse_messages(thread, sent, reason, now=now)
    if _would_act_for_another(thread, messages, on_busy):
        if thread.mode is ThreadMode.RUN:
            return refuse_messages(thread, sent, OTHER_USER, now=now)
        on_busy = OnBusy.ENQUEUE
    seen, new = set[str](), []
    for submitted in messages:
        if (id := remembered_id(submitted.message.id)) not in seen and not is_accepted(thread, id):
            new.append(submitted)
        seen.add(id)
    if not _is_idle(thread) and (problem := no_room_for(thread, new)) is not None:
        return refuse_messages(thread, sent, problem, now=now)
    status = OutcomeStatus.STEERING if on_busy is OnBusy.STEER else OutcomeStatus.QUEUED
    thread = _knowing_users(record_messages(count_repeats(thread, sent), new, status), new)
    return Advance(thread, events=tuple(map(_received, new))).then(_queue, tuple(new), on_busy)


def _received(submitted: Submitted) -> MessageReceived:
    adapter = None if submitted.adapter is Adapter.INTERNAL else submitted.adapter
    return MessageReceived(message=submitted.message, adapter=adapter)


def _knowing_users(thread: Thread, new: Iterable[Submitted]) -> Thread:
    """The thread with those who sent it these messages among its users."""
    return replace(thread, users=reduce(Users.adding, (submitted.user for submitted in new), thread.users))


def _settings_of_a_run(messages: Iterable[Submitted]) -> list[str]:
    """What these messages set for the run that they start: a run that is under way has its own."""
    given = {name for submitted in messages for name in part_of(submitted, RunSettings).given}
    return [_PLURALS.get(name, name) for name in RunSettings.model_fields if name in given]


_PLURALS = {"budget": "budgets", "frontend_tools": "frontend tools"}


def _queue(thread: Thread, new: tuple[Submitted, ...], on_busy: OnBusy) -> Advance:
    match on_busy:
        case _ if not new:
            return Advance(thread)
        case OnBusy.ENQUEUE | OnBusy.REJECT:
            return Advance(replace(thread, queued=(*thread.queued, *new)))
        case OnBusy.STEER:
            return Advance(replace(thread, steering=(*thread.steering, *new)))
        case OnBusy.INTERRUPT | OnBusy.ROLLBACK:
            return Advance(replace(thread, queued=(*new, *thread.queued)))
        case _:
            assert_never(on_busy)


def _is_idle(thread: Thread) -> bool:
    """Whether messages that arrive now start a run at once, and do not wait."""
    return isinstance(thread.stage, Idle) and not thread.stage.closing


def _start_a_run(thread: Thread, on_busy: OnBusy) -> bool:
    """Whether messages that arrive now start a run, rather than being read by the one under way."""
    if isinstance(thread.stage, Idle | Done) or on_busy in (OnBusy.INTERRUPT, OnBusy.ROLLBACK):
        return True
    return on_busy is OnBusy.ENQUEUE and thread.mode is ThreadMode.THREAD


def _would_act_for_another(thread: Thread, messages: tuple[Submitted, ...], on_busy: OnBusy) -> bool:
    """Whether the run under way would read messages whose user or metadata it does not have."""
    if isinstance(thread.stage, Idle | Done) or on_busy in (OnBusy.INTERRUPT, OnBusy.ROLLBACK):
        return False
    return not all(_is_for_run(thread, submitted) for submitted in messages)


def _is_for_run(thread: Thread, later: Submitted) -> bool:
    return _is_for(later, thread.identity.user, thread.current.metadata)


def _is_for(later: Submitted, user: str | None, metadata: Mapping[str, JsonValue]) -> bool:
    """Whether a run with this user and metadata may read the message: what it asks for is done for that user."""
    return later.internal or (later.user in (None, user) and later.metadata in ({}, metadata))


def start_next_run(thread: Thread, *, interrupted: bool = False) -> Advance:
    """Start a run with the messages that steer, or else with the first group of queued ones.

    A message that interrupted the last run comes first; those that steer are then read with the run's first step.
    """
    thread = ledger.after_run(thread)
    if any(not later.passive for later in thread.steering) and not interrupted:
        first = _first_to_steer(thread)
        taken = readable(tuple(later for later in thread.steering if _is_for(later, first.user, first.metadata)))
        read = set(map(id, taken))
        left = replace(thread, steering=tuple(later for later in thread.steering if id(later) not in read))
        return start_run(left, taken, first)
    first = thread.queued[0]
    taken = readable(tuple(takewhile(lambda later: _start_together(first, later), thread.queued)))
    return start_run(replace(thread, queued=thread.queued[len(taken) :]), taken, first)


def _first_to_steer(thread: Thread) -> Submitted:
    """The message whose run it is: a client's, or else mail.

    The ends of tasks that several runs started begin a run that may do what all of these runs may do. If they acted for
    several users, it acts for none.
    """
    steering = tuple(later for later in thread.steering if not later.passive)
    first = next((later for later in steering if not later.internal), steering[0])
    if not first.internal or len(steering) == 1:
        return first
    budgets = [later.budget for later in steering if later.budget is not None]
    together: dict[str, object] = {
        "permissions": narrowing(*(later.permissions for later in steering)),
        "budget": ledger.tightest(*budgets) if budgets else None,
        "deadline": min((later.deadline for later in steering if later.deadline is not None), default=None),
        "funds": tuple(dict.fromkeys(fund for later in steering for fund in later.funds)),
    }
    if any((later.user, later.metadata) != (first.user, first.metadata) for later in steering):
        together |= {"user": None, "metadata": {}}
    return first.model_copy(update=together)


def _start_together(first: Submitted, later: Submitted) -> bool:
    return (first.group, first.user, first.metadata) == (later.group, later.user, later.metadata)


def start_run(thread: Thread, taken: tuple[Submitted, ...], first: Submitted | RunRequest) -> Advance:
    """Start a run that reads `taken`; `first` has its agent, settings, user and metadata."""
    counters = thread.counters.model_copy(update={"runs": thread.counters.runs + 1})
    number, is_first = counters.runs, thread.run is None
    agent_id = first.agent_id or thread.requested_agent or thread.active_agent or thread.identity.agent_id
    origin = _origin(thread, taken)
    # The first run of a fork continues a run of its origin: with its permissions and state, and, unless the request has
    # its own, with its user and metadata. Mail has no user, also if the thread was started for one.
    user: str | None = first.user
    metadata: Mapping[str, JsonValue] = first.metadata
    if is_first and user is None and not metadata and origin is not Origin.INTERNAL:
        user, metadata = thread.identity.user, thread.inherited_metadata
    thread = _queue_others(thread, user, metadata)
    identity = thread.identity.model_copy(
        update={
            "run_id": ids.run_id(thread.seed, number),
            "agent_id": agent_id,
            "origin": origin,
            "user": user,
            "run_mode": first.run_mode or (RunMode.INTERNAL_WAKE if origin is Origin.INTERNAL else RunMode.FOREGROUND),
            "adapter": first.adapter or Adapter.INTERNAL,
        }
    )
    inherited, requested = (thread.inherited_permissions, thread.inherited_requested) if is_first else ((), ())
    answering = thread.active_agent or thread.identity.agent_id
    # A caller who names another agent hands nothing off.
    handed_over = thread.handed_on if first.agent_id in (None, answering) else ()
    parent = thread.parent if is_first else None
    run = Run(
        number=number,
        started_at_position=thread.transcript.position,
        before=thread.before_run,
        settings=part_of(first, RunSettings).model_copy(update=_KEPT_ELSEWHERE),
        permissions=(*inherited, *first.permissions),
        requested=(*requested, *first.permissions),
        authority=narrowing(thread.authority, binding_on(agent_id, handed_over)),
        usage=thread.context.unpaid,
        budget=Ledger(
            limit=first.budget or Budget(),
            allowance=parent.allowance if parent else None,
            deadline=parent.deadline if parent else first.deadline if isinstance(first, Submitted) else None,
            continues=first.funds if isinstance(first, Submitted) else (),
            agents=AgentCount(started=_agents_before(thread) if origin is Origin.INTERNAL else 0),
        ),
        metadata=metadata,
    )
    resolve_id = ids.work_id(ids.Resolve(number))
    started = replace(
        thread,
        identity=identity,
        run=run,
        counters=counters,
        active_agent=agent_id if agent_id != thread.identity.agent_id or thread.active_agent else None,
        requested_agent=None,
        handed_over=handed_over,
        context=replace(thread.context, unpaid=NO_USAGE),
        agent_state=thread.agent_state if is_first else thread.agent_state.for_next_run(),
        frontend_tools=tuple(tool.descriptor() for tool in first.frontend_tools) or thread.frontend_tools,
    ).entering(Resolving(id=resolve_id))
    started = _appending(started, taken)
    return Advance(
        started,
        (resolve_command(started, resolve_id),),
        (run_start(started, *(submitted.message.id for submitted in taken)),),
    )


_KEPT_ELSEWHERE = {"permissions": (), "budget": None, "frontend_tools": ()}
"""Of a run's settings: hooks add to its rules, its ledger has the budget, and the tools are the thread's."""


def _agents_before(thread: Thread) -> int:
    """How many agents the tree of the last run has started. Tasks whose ends begin runs would else never be counted."""
    return thread.run.budget.agents.started if thread.run else thread.inherited_agents


def _queue_others(thread: Thread, user: str | None, metadata: Mapping[str, JsonValue]) -> Thread:
    """Messages that were to steer the last run, and are not for the one that starts, wait for runs of their own."""
    others = tuple(later for later in thread.steering if not _is_for(later, user, metadata))
    if not others:
        return thread
    steering = tuple(later for later in thread.steering if _is_for(later, user, metadata))
    waiting = replace(thread, steering=steering, queued=(*others, *thread.queued))
    return record_messages(waiting, others, OutcomeStatus.QUEUED)


def resolve_command(thread: Thread, id: str) -> ResolveAgent:
    """Look up the agent of a run that starts."""
    identity = thread.identity
    return ResolveAgent(id, identity.agent_id, in_task=identity.task is not None, metadata=thread.current.metadata)


def _origin(thread: Thread, taken: tuple[Submitted, ...]) -> Origin:
    """A run that only mail started is internal; one that a person starts afterwards is the user's again."""
    if taken and all(submitted.internal for submitted in taken):
        return Origin.INTERNAL
    return Origin.USER if thread.identity.origin is Origin.INTERNAL and thread.run else thread.identity.origin


def for_this_run(thread: Thread) -> tuple[Submitted, ...]:
    """Queued messages that the run under way can read: up to the first that needs a run of its own."""
    return tuple(takewhile(lambda later: not _needs_own_run(thread, later), thread.queued))


def _needs_own_run(thread: Thread, later: Submitted) -> bool:
    if not _is_for_run(thread, later):
        return True
    if thread.mode is ThreadMode.RUN:
        return False  # there will be no other run
    answers = thread.active_agent or thread.identity.agent_id
    if _settings_of_a_run((later,)) or later.agent_id not in (None, answers):
        return True
    # Gates may allow less in a scheduled run than in one that a person asked for.
    return later.run_mode not in (None, thread.identity.run_mode)


def read_queued(thread: Thread) -> Advance:
    """The run under way reads the queued messages that need no run of their own."""
    mine = readable(for_this_run(thread))
    return read_messages(replace(thread, queued=thread.queued[len(mine) :]), mine)


def read_messages(thread: Thread, messages: tuple[Submitted, ...]) -> Advance:
    """The run under way reads these messages."""
    if not messages:
        return Advance(thread)
    event = MessagesRead(message_ids=tuple(submitted.message.id for submitted in messages))
    return Advance(_appending(thread, messages), events=(event,))


def _appending(thread: Thread, messages: tuple[Submitted, ...]) -> Thread:
    """The thread with these messages in the transcript: the model reads them in its next step."""
    transcript, run = thread.transcript, thread.current
    for submitted in messages:
        transcript = transcript.appending(submitted.message, submitted.source)
    mail = tuple(submitted for submitted in messages if submitted.internal)
    run = replace(run, read_mail=(*run.read_mail, *(each.message.id for each in mail)))
    for each in mail:
        run = run.with_files(*each.files, *files_of(each.message, thread_id=thread.identity.thread_id))
    if any(submitted.live for submitted in messages):
        run = replace(run, settings=run.settings.model_copy(update={"live": True}))
    thread = replace(thread, transcript=transcript, run=run)
    return record_messages(thread, messages, OutcomeStatus.READ, run=run.number)
