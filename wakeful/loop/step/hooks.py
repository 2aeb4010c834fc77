"""Hooks that need an activity of their own: when a run begins, when a step has ended, when a run ends."""

from wakeful.contract.events import AgentEvent, HookFailed, PluginEvent, StateConflict
from wakeful.contract.hooks import HookEffects, Moment
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import Blocked, Errored, Stopped, Termination
from wakeful.loop.machine.commands import RunHooks
from wakeful.loop.machine.facts import HooksReturned, WorkFact
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.stages import BetweenSteps, Ending, Hooking
from wakeful.loop.machine.state import KEPT_RULES, Advance, RunState


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


CONTEXT_LIMIT = 200_000
"""Characters of everything that the model is told besides the conversation."""


def fold(state: RunState, effects: HookEffects | None, *, source: str) -> Advance:
    """The state with everything that was asked for. An end that was asked for comes with the next step."""
    if effects is None:
        return Advance(state)
    events: list[AgentEvent] = [
        PluginEvent(plugin=event.plugin, name=event.name, payload=event.payload) for event in effects.events
    ]
    events += [HookFailed(plugin=report.plugin, phase=report.phase, error=report.error) for report in effects.reports]
    values = state.values
    if effects.state:
        written = values.writing(state.agent.state_keys, effects.state, base=effects.base, source=source)
        if isinstance(written, StateConflict):
            events.append(written)
        else:
            values = written
    messages = state.context.messages
    for key in effects.forget:
        messages = messages.removing(key)
    for message in effects.context:
        more = messages.upserting(message)
        if sum(len(each.model_dump_json()) for each in more.messages) <= CONTEXT_LIMIT:
            messages = more
        else:
            error = (
                f"context message {message.key!r} is not told: all of them have at most {CONTEXT_LIMIT:,} characters"
            )
            events.append(HookFailed(plugin="*", phase=source, error=error))
    folded = replace(
        state,
        values=values,
        context=replace(state.context, messages=messages),
        run_permissions=_permitting(state.run_permissions, effects.permissions),
        requested_agent=effects.handoff or state.requested_agent,
        wanted_end=state.wanted_end or end_of(effects),
    )
    return Advance(folded, events=tuple(events))


def end_of(effects: HookEffects) -> Termination | None:
    """How the run is to end, if it is to: what failed goes before what is forbidden, and that before what is enough."""
    if effects.fail is not None:
        return Errored(value=effects.fail)
    if effects.block is not None:
        return Blocked(value=effects.block)
    return Stopped(value=effects.stop) if effects.stop is not None else None


def _permitting(rules: tuple[Rule, ...], new: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return tuple({rule.tool: rule for rule in (*rules, *new)}.values())[-KEPT_RULES:]
