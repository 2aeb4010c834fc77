"""Fold what hooks and tools ask for: writes, what the model is told, permissions, events, another agent, an end."""

from wakeful.contract.events import AgentEvent, HookFailed, PluginEvent, StateConflict
from wakeful.contract.hooks import HookEffects
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import Blocked, Errored, Stopped, Termination
from wakeful.loop.state import KEPT_RULES, Advance, RunState
from wakeful.loop.values import replace

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
