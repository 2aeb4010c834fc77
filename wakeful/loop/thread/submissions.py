"""Messages that come to a thread: begin a run with them, keep them for later, steer with them, or make way for them."""

from itertools import takewhile
from typing import assert_never

from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.names import SIGNAL_SUBMIT
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import OnBusy, Origin, ThreadMode, Usage
from wakeful.loop.machine.commands import RESOLVE_ID, ResolveAgent
from wakeful.loop.machine.events import refuse, run_start
from wakeful.loop.machine.facts import MessagesSubmitted, Submitted
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.stages import AwaitingTasks, Idle, Resolving
from wakeful.loop.machine.state import REMEMBERED, Advance, RunState


def accept(state: RunState, fact: MessagesSubmitted, *, now: int) -> Advance:
    """Take what is new; a message whose id was seen before is a repeat and changes nothing."""
    if fact.on_busy is OnBusy.REJECT and not isinstance(state.stage, Idle | AwaitingTasks):
        return refuse(state, SIGNAL_SUBMIT, "the thread is busy, and on_busy is reject", now=now)
    if any(submitted.overrides for submitted in fact.messages) and not _begins_a_run(state, fact.on_busy):
        reason = "overrides are for the run that messages begin, and these are read by the run under way"
        return refuse(state, SIGNAL_SUBMIT, reason, now=now)
    seen, new = dict.fromkeys(state.seen_messages), []
    for submitted in fact.messages:
        if submitted.message.id not in seen:
            seen[submitted.message.id] = None
            new.append(submitted)
    state = replace(state, seen_messages=tuple(seen)[-REMEMBERED:])
    match fact.on_busy:
        case _ if not new:
            return Advance(state)
        case OnBusy.ENQUEUE | OnBusy.REJECT:
            return Advance(replace(state, queued=(*state.queued, *new)))
        case OnBusy.STEER:
            return Advance(replace(state, steering=(*state.steering, *new)))
        case OnBusy.INTERRUPT | OnBusy.ROLLBACK:
            return Advance(replace(state, queued=(*new, *state.queued)))
        case _:
            assert_never(fact.on_busy)


def _begins_a_run(state: RunState, on_busy: OnBusy) -> bool:
    """Whether messages that come now are a run's first ones, and not read by one that was begun by others."""
    if isinstance(state.stage, Idle) or on_busy in (OnBusy.INTERRUPT, OnBusy.ROLLBACK):
        return True
    return on_busy is OnBusy.ENQUEUE and state.mode is ThreadMode.THREAD


def begin_next_run(state: RunState, *, interrupted: bool = False) -> Advance:
    """Begin a run with what waits longest: what was meant to steer, or else the first group of queued messages.

    Whoever interrupted is first of all; what was meant to steer is then read with the run's first step.
    """
    if any(not later.passive for later in state.steering) and not interrupted:
        taken, left = state.steering, replace(state, steering=())
    else:
        group = state.queued[0].group
        count = next((n for n, later in enumerate(state.queued) if later.group != group), len(state.queued))
        taken, left = state.queued[:count], replace(state, queued=state.queued[count:])
    return begin_run(left, taken, next(later for later in taken if not later.passive))


def begin_run(state: RunState, taken: tuple[Submitted, ...], first: Submitted | RunRequest) -> Advance:
    """Begin a run that reads `taken`, as `first` wants it.

    The first run of a fork goes on within a run of its origin, and with what was kept for that.
    """
    runs, is_later = state.runs + 1, state.runs > 0
    agent_id = first.agent_id or state.requested_agent or state.active_agent or state.identity.agent_id
    seed = state.identity.run_id.removesuffix(f".{state.runs}")
    run_id, resolve_id = (seed, RESOLVE_ID) if runs == 1 else (f"{seed}.{runs}", f"{RESOLVE_ID}-{runs}")
    fresh = replace(
        state,
        identity=state.identity.model_copy(
            update={"run_id": run_id, "agent_id": agent_id, "origin": _origin(state, taken)}
        ),
        stage=Resolving(id=resolve_id),
        began=state.transcript.mark,
        runs=runs,
        resolved=None,
        steps=0,
        rounds=0,
        continuations=0,
        repairs=0,
        overrides=first.overrides,
        run_permissions=first.permissions if is_later else (*state.run_permissions, *first.permissions),
        active_agent=agent_id if agent_id != state.identity.agent_id or state.active_agent else None,
        requested_agent=None,
        values=state.values.for_next_run() if is_later else state.values,
        wanted_end=None,
        hooked=0,
        has_left=False,
        failed_rounds=0,
        said=(),
        calls_made=0,
        refused_calls=False,
        budget=first.budget or Budget(),
        deadline=state.deadline if runs == 1 else None,
        lent=(),
        loans=(),
        below=Spent(),
        receipt=None,
        usage=Usage(),
        response="",
        output=None,
        applied=frozenset(),
    )
    fresh = read(fresh, taken)
    resolve = ResolveAgent(agent_id=agent_id, id=resolve_id, in_task=fresh.identity.task is not None)
    return Advance(fresh, (resolve,), (run_start(fresh),))


def _origin(state: RunState, taken: tuple[Submitted, ...]) -> Origin:
    """A run that a task or another agent woke is nobody's wish; one that a person begins afterwards is theirs again."""
    if taken and all(submitted.internal for submitted in taken):
        return Origin.INTERNAL
    return Origin.USER if state.identity.origin is Origin.INTERNAL and state.runs else state.identity.origin


def for_this_run(state: RunState) -> tuple[Submitted, ...]:
    """Queued messages that a run which is not over yet can read: up to the first that wants a run of its own."""
    return tuple(takewhile(lambda later: not _wants_its_own_run(state, later), state.queued))


def _wants_its_own_run(state: RunState, later: Submitted) -> bool:
    answers = state.active_agent or state.identity.agent_id
    if state.mode is ThreadMode.RUN:
        return False  # there will be no other
    return later.overrides is not None or later.agent_id not in (None, answers)


def reading_queued(state: RunState) -> RunState:
    """The run that reads now what was queued and needs no run of its own."""
    mine = for_this_run(state)
    return replace(read(state, mine), queued=state.queued[len(mine) :])


def read(state: RunState, messages: tuple[Submitted, ...]) -> RunState:
    """Write messages into the transcript: the model reads them with its next step."""
    transcript = state.transcript
    for submitted in messages:
        transcript = transcript.appending(submitted.message, submitted.source)
    return replace(state, transcript=transcript)
