"""Hooks in the loop: when lifecycle hooks run in an activity of their own, and how hooks' requests are applied."""

from itertools import chain

from wakeful.contract import ids
from wakeful.contract.base import json_bytes, replace
from wakeful.contract.events import AgentEvent, AnswerGiven, HookFailed, PluginEvent, StateConflict
from wakeful.contract.hooks import FinalAnswer, Hold, HookEffects, LifecyclePhase, RequestChanges
from wakeful.contract.limits import NAME_LENGTH, cut
from wakeful.contract.messages import Message, MessageMetadata, Role, TextBlock
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.runs import INVALID_OUTPUT, BehaviorRequested, Blocked, Errored, Stopped, Termination
from wakeful.contract.schemas import mismatch
from wakeful.loop.machine import revisions
from wakeful.loop.machine.commands import RunHooks
from wakeful.loop.machine.events import next_message_id, record_fork_point
from wakeful.loop.machine.facts import HooksReturned, WorkFact
from wakeful.loop.machine.stages import BetweenSteps, PendingEnd, RunningHooks
from wakeful.loop.machine.state import KEPT_HOLDS, KEPT_RULES, Advance, Run, Thread
from wakeful.permissions.rules import merged

CONTEXT_LIMIT = 200_000
"""Bytes of all context messages together."""


def run_at_start(thread: Thread) -> Advance | None:
    """The hooks of a run that starts; None if there are none."""
    phases = thread.agent.hooks_at(LifecyclePhase.ACTIVATE, LifecyclePhase.RUN_START)
    return _run(thread.entering(BetweenSteps()), phases) if phases else None


def run_at_handoff(thread: Thread) -> Advance | None:
    """The hooks of an agent that hands the run off; they run once."""
    run = thread.current
    phases = () if run.has_deactivated else (*pending_step_end(run), *run.agent.hooks_at(LifecyclePhase.DEACTIVATE))
    if not phases:
        return None
    return _run(thread.with_run(replace(run, has_deactivated=True)).entering(BetweenSteps()), phases)


def run_at_takeover(thread: Thread) -> Advance | None:
    """The hooks of an agent that takes the run over."""
    phases = thread.agent.hooks_at(LifecyclePhase.ACTIVATE)
    return _run(thread, phases) if phases else None


def run_at_end(thread: Thread, phases: tuple[LifecyclePhase, ...], ending: PendingEnd) -> Advance:
    """The hooks of a run that ends."""
    return _run(thread.entering(BetweenSteps()), phases, ending)


def pending_step_end(run: Run) -> tuple[LifecyclePhase, ...]:
    """The `step_end` hooks that are still to run. They run with the next inference, or at the end of the run."""
    is_due = run.resolved is not None and run.step.number > run.step.hooks_ran
    return run.agent.hooks_at(LifecyclePhase.STEP_END) if is_due else ()


def _run(thread: Thread, phases: tuple[LifecyclePhase, ...], ending: PendingEnd | None = None) -> Advance:
    if LifecyclePhase.STEP_END in phases:
        step = thread.current.step
        thread = thread.with_step(replace(step, hooks_ran=step.number))
    counters = thread.counters.model_copy(update={"hooks": thread.counters.hooks + 1})
    stage = RunningHooks(ids.work_id(ids.Hooks(counters.hooks)), phases, ending)
    thread = thread.counting(counters).entering(stage)
    return Advance(thread, (hooks_command(thread, stage),))


def hooks_command(thread: Thread, stage: RunningHooks) -> RunHooks:
    run = thread.current
    return RunHooks(
        id=stage.id,
        agent=run.agent,
        phases=stage.phases,
        step=run.step.number,
        state=thread.agent_state.view,
        response=run.response,
        result=stage.ending.result if stage.ending else None,
        metadata=run.metadata,
    )


def on_hooks_returned(thread: Thread, stage: RunningHooks, fact: WorkFact, why: str) -> Advance:
    """The hooks have run, and the run is between two steps. Hooks that could not run are skipped, or fail the run."""
    thread = thread.entering(BetweenSteps())
    source = "+".join(phase.value for phase in stage.phases)
    if isinstance(fact, HooksReturned):
        return apply_effects(thread, fact.effects, source=source)
    run = thread.current
    failing = [plugin.id for plugin in run.agent.plugins if plugin.on_error and {*plugin.lifecycle} & {*stage.phases}]
    if failing:
        failure = Errored(value=f"plugin {failing[0]!r} failed at {source}: {why}", code=_PLUGIN)
        thread = thread.with_run(replace(run, requested_end=run.requested_end or failure))
    return Advance(thread, events=(HookFailed(plugin="*", phase=source, error=why),))


def apply_effects(thread: Thread, effects: HookEffects | None, *, source: str) -> Advance:
    """Apply everything that hooks or a tool requested. An end that they requested comes before the next step."""
    if effects is None:
        return Advance(thread)
    events: list[AgentEvent] = [
        PluginEvent(plugin=event.plugin, name=event.name, payload=event.payload) for event in effects.events
    ]
    events += [
        HookFailed(plugin=failure.plugin, phase=failure.phase, error=failure.error) for failure in effects.failures
    ]
    thread = _write_state(thread, effects, events, source=source)
    thread = _update_context(thread, effects, events, source=source)
    run = thread.current
    run = replace(run, permissions=_with_rules(run.permissions, effects.permissions))
    if run.requested_end is None and (end := requested_end(effects)) is not None:
        end = _mismatch(run, effects.finish) or end if isinstance(end, BehaviorRequested) else end
        run = replace(run, requested_end=end, answer=effects.finish if isinstance(end, BehaviorRequested) else None)
    if effects.hold or effects.release:
        run = replace(run, holds=_with_holds(run.holds, effects))
    if effects.next_request is not None:
        run = replace(run, next_request=_with_changes(thread, run.next_request, effects.next_request))
    thread = replace(thread, run=run, requested_agent=effects.handoff or thread.requested_agent)
    return Advance(thread, events=tuple(events))


def give_answer(thread: Thread) -> Advance:
    """Append the answer with which a hook or a tool ends the run, if one does; it is the run's response."""
    run = thread.current
    if (answer := run.answer) is None:
        return Advance(thread)
    thread = thread.with_run(replace(run, answer=None, response=answer.text, output=answer.output))
    if not answer.text:  # providers reject an empty message inside a conversation
        return Advance(thread)
    metadata = MessageMetadata(run_id=thread.identity.run_id, step_index=run.step.number)
    content = (TextBlock(text=answer.text),)
    message = Message(id=next_message_id(thread), role=Role.ASSISTANT, content=content, metadata=metadata)
    thread = replace(thread, transcript=thread.transcript.appending(message, message))
    return Advance(thread, events=(AnswerGiven(message_id=message.id, text=answer.text),)).then(record_fork_point)


def _mismatch(run: Run, answer: FinalAnswer | None) -> Errored | None:
    """The end of a run whose hook or tool ends it with a value of another type than the agent's; a text is none."""
    spec = run.agent.output
    if spec is None or answer is None or answer.output is None or run.revision < revisions.FINISH_IS_CHECKED:
        return None
    problem = mismatch(answer.output, spec.json_schema)
    return None if problem is None else invalid_output(f"{problem} (a hook or a tool has finished the run with it)")


def invalid_output(problem: str) -> Errored:
    """The end of a run whose answer does not match the agent's output type."""
    return Errored(value=f"the answer does not match the agent's output type: {problem}", code=INVALID_OUTPUT)


def _write_state(thread: Thread, effects: HookEffects, events: list[AgentEvent], *, source: str) -> Thread:
    if not effects.state:
        return thread
    written = thread.agent_state.writing(thread.agent.state_keys, effects.state, base=effects.base, source=source)
    if isinstance(written, StateConflict):
        events.append(written)
        return thread
    return replace(thread, agent_state=written)


def _update_context(thread: Thread, effects: HookEffects, events: list[AgentEvent], *, source: str) -> Thread:
    messages = thread.context.messages
    for key in effects.forget:
        messages = messages.removing(key)
    for prefix in effects.forget_prefixes:
        messages = messages.removing_prefix(prefix)
    for message in effects.context:
        more = messages.upserting(message)
        if sum(map(json_bytes, more.messages)) <= CONTEXT_LIMIT:
            messages = more
        else:
            error = (
                f"context message {message.key!r} is dropped: all of them together may have at most "
                f"{CONTEXT_LIMIT:,} bytes"
            )
            events.append(HookFailed(plugin="*", phase=source, error=error))
    return replace(thread, context=replace(thread.context, messages=messages))


def requested_end(effects: HookEffects) -> Termination | None:
    """How the run is to end, if it is: a failure outranks a block, a block a stop, and a stop an answer."""
    if effects.fail is not None:
        return Errored(value=effects.fail, code=_PLUGIN)
    if effects.block is not None:
        return Blocked(value=effects.block, code=_PLUGIN)
    if effects.stop is not None:
        return Stopped(value=effects.stop)
    return BehaviorRequested() if effects.finish is not None else None


def _with_changes(thread: Thread, before: RequestChanges | None, new: RequestChanges) -> RequestChanges:
    """Both changes of one request: of each setting the last counts, and tools are those that either includes.

    Only tools that the agent has are listed, so that what many calls of a step request stays small.
    """
    before, known = before or RequestChanges(), {tool.id for tool in (*thread.agent.tools, *thread.frontend_tools)}
    listed = [tools for tools in (before.included, new.included) if tools is not None]
    return RequestChanges(
        overrides=new.overrides.over(before.overrides or InferenceOverrides()) if new.overrides else before.overrides,
        excluded=tuple(sorted(known.intersection((*before.excluded, *new.excluded)))),
        included=tuple(sorted(known.intersection(chain(*listed)))) if listed else None,
    )


_PLUGIN = "plugin"
"""The reason code of a run that a plugin ends."""


def _with_holds(holds: tuple[Hold, ...], effects: HookEffects) -> tuple[Hold, ...]:
    new = [Hold(key=cut(hold.key, NAME_LENGTH), reason=cut(hold.reason)) for hold in effects.hold]
    replaced = {*(cut(key, NAME_LENGTH) for key in effects.release), *(hold.key for hold in new)}
    return (*(hold for hold in holds if hold.key not in replaced), *new)[-KEPT_HOLDS:]


def _with_rules(rules: tuple[Rule, ...], new: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """The rules with new ones. Of too many, the oldest that allow are dropped first, and then the oldest that ask."""
    together = merged((*rules, *new))
    excess = max(0, len(together) - KEPT_RULES)
    dropped = sorted(together, key=lambda rule: _DROPPED.index(rule.behavior))[:excess]
    return tuple(rule for rule in together if rule not in dropped)


_DROPPED = (Behavior.ALLOW, Behavior.ASK, Behavior.DENY)
