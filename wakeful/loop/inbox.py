"""Messages that come to a thread: begin a run with them, keep them for later, steer with them, or make way for them."""

from typing import assert_never

from wakeful.contract.names import SIGNAL_SUBMIT
from wakeful.contract.runs import OnBusy, ThreadMode, Usage
from wakeful.loop.commands import RESOLVE_ID, ResolveAgent
from wakeful.loop.facts import MessagesSubmitted, Submitted
from wakeful.loop.reports import refuse, run_start
from wakeful.loop.stages import Idle, Resolving
from wakeful.loop.state import REMEMBERED, Advance, RunState
from wakeful.loop.values import replace


def accept(state: RunState, fact: MessagesSubmitted, *, now: int) -> Advance:
    """Take what is new; a message whose id was seen before is a repeat and changes nothing."""
    if fact.on_busy is OnBusy.REJECT and not isinstance(state.stage, Idle):
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
    if state.steering and not interrupted:
        taken, left = state.steering, replace(state, steering=())
    else:
        group = state.queued[0].group
        count = next((n for n, later in enumerate(state.queued) if later.group != group), len(state.queued))
        taken, left = state.queued[:count], replace(state, queued=state.queued[count:])
    runs = state.runs + 1
    agent_id = taken[0].agent_id or state.identity.agent_id
    seed = state.identity.run_id.partition(".")[0]
    run_id, resolve_id = (seed, RESOLVE_ID) if runs == 1 else (f"{seed}.{runs}", f"{RESOLVE_ID}-{runs}")
    fresh = replace(
        left,
        identity=state.identity.model_copy(update={"run_id": run_id, "agent_id": agent_id}),
        stage=Resolving(id=resolve_id),
        began=state.transcript.mark,
        runs=runs,
        resolved=None,
        steps=0,
        rounds=0,
        continuations=0,
        repairs=0,
        overrides=taken[0].overrides,
        run_permissions=taken[0].permissions,
        usage=Usage(),
        response="",
        output=None,
        applied=frozenset(),
    )
    fresh = read(fresh, taken)
    return Advance(fresh, (ResolveAgent(agent_id=agent_id, id=resolve_id),), (run_start(fresh),))


def read(state: RunState, messages: tuple[Submitted, ...]) -> RunState:
    """Write messages into the transcript: the model reads them with its next step."""
    transcript = state.transcript
    for submitted in messages:
        transcript = transcript.appending(submitted.message, submitted.source)
    return replace(state, transcript=transcript)
