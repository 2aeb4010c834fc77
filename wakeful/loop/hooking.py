"""Hooks that need an activity of their own: when a run begins, when a step has ended, when a run ends."""

from wakeful.contract.events import HookFailed
from wakeful.contract.hooks import Moment
from wakeful.contract.runs import Errored
from wakeful.loop.commands import RunHooks
from wakeful.loop.effects import fold
from wakeful.loop.facts import HooksReturned, WorkFact
from wakeful.loop.stages import BetweenSteps, Ending, Hooking
from wakeful.loop.state import Advance, RunState
from wakeful.loop.values import replace


def at_beginning(state: RunState) -> Advance | None:
    """The hooks of a run that begins; None if there are none."""
    moments = state.agent.hooks_at(Moment.ACTIVATE, Moment.RUN_START)
    return _running(state.entering(BetweenSteps()), Hooking(_id(state), moments)) if moments else None


def at_leaving(state: RunState) -> Advance | None:
    """The hooks of an agent that hands a run over, once."""
    moments = () if state.has_left else (*step_moments(state), *state.agent.hooks_at(Moment.DEACTIVATE))
    if not moments:
        return None
    leaving = replace(state, has_left=True).entering(BetweenSteps())
    return _running(leaving, Hooking(_id(state), moments))


def at_takeover(state: RunState) -> Advance | None:
    """The hooks of an agent that takes a run over."""
    moments = state.agent.hooks_at(Moment.ACTIVATE)
    return _running(state, Hooking(_id(state), moments)) if moments else None


def at_end(state: RunState, moments: tuple[Moment, ...], ending: Ending) -> Advance:
    """The hooks of a run that ends."""
    return _running(state.entering(BetweenSteps()), Hooking(_id(state), moments, ending=ending))


def step_moments(state: RunState) -> tuple[Moment, ...]:
    """Whether hooks are still to hear that a step has ended. The next inference tells them, or the end of the run."""
    is_due = state.resolved is not None and state.steps > state.hooked
    return state.agent.hooks_at(Moment.STEP_END) if is_due else ()


def _running(state: RunState, hooking: Hooking) -> Advance:
    is_step = Moment.STEP_END in hooking.moments
    state = replace(state, hookings=state.hookings + 1, hooked=state.steps if is_step else state.hooked)
    state = state.entering(hooking)
    return Advance(state, (hooks_command(state, hooking),))


def hooks_command(state: RunState, hooking: Hooking) -> RunHooks:
    return RunHooks(
        id=hooking.id,
        agent=state.agent,
        moments=hooking.moments,
        step=state.steps,
        state=state.values.view,
        response=state.response,
        result=hooking.ending.result if hooking.ending else None,
    )


def folded(state: RunState, hooking: Hooking, fact: WorkFact, why: str) -> Advance:
    """The run between two steps again, with what its hooks asked for. Hooks that could not be run are passed over."""
    state = state.entering(BetweenSteps())
    named = "+".join(moment.value for moment in hooking.moments)
    if isinstance(fact, HooksReturned):
        return fold(state, fact.effects, source=named)
    guards = [plugin.id for plugin in state.agent.plugins if plugin.on_error and {*plugin.moments} & {*hooking.moments}]
    if guards:
        broken = Errored(value=f"plugin {guards[0]!r} failed at {named}: {why}")
        state = replace(state, wanted_end=state.wanted_end or broken)
    return Advance(state, events=(HookFailed(plugin="*", phase=named, error=why),))


def _id(state: RunState) -> str:
    return f"hooks-{state.hookings + 1}"
