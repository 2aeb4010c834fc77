"""Open a step: one question to the model, and later the calls it asks for."""

from wakeful.contract.events import StepStart
from wakeful.contract.hooks import Phase
from wakeful.contract.runs import StopDetail, Stopped
from wakeful.loop.machine.commands import Infer
from wakeful.loop.machine.events import next_message_id
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.stages import Inferring
from wakeful.loop.machine.state import Advance, RunState
from wakeful.loop.step import handoff, hooks
from wakeful.loop.subagents import budgets, ledger
from wakeful.loop.thread.ending import finish
from wakeful.loop.thread.submissions import read

INFERENCE_PHASES = (Phase.STEP_START, Phase.BEFORE_INFERENCE, Phase.AFTER_INFERENCE, Phase.TOOL_GATE)


def next_step(state: RunState, *, now: int, continuing: bool = False) -> Advance:
    """Open a step and ask the model, unless the agent has used up its rounds or its budget, or hands over.

    The limit is checked before the model is asked, so that no answer is paid for only to be thrown away.
    """
    if state.wanted_end is not None:
        return finish(replace(state, wanted_end=None), state.wanted_end, now=now)
    limit = state.agent.max_rounds
    if limit and state.rounds >= limit:
        detail = StopDetail(code="max_rounds", detail=f"{limit} rounds of tool calls were made")
        return finish(state, Stopped(value=detail), now=now)
    if (stopped := budgets.before_step(state, now=now)) is not None:
        return stopped
    if state.refused_calls and ledger.calls_left(state) == 0:
        return budgets.stop_for(state, ledger.TOOL_CALLS, now=now)
    if state.requested_agent not in (None, state.agent.agent_id):
        return hooks.at_leaving(state) or handoff.look_up(state, state.requested_agent)
    state = replace(read(state, state.steering), steering=())
    step, number = state.steps + 1, state.inferences + 1
    inferring = Inferring(
        id=f"infer-{number}",
        message_id=next_message_id(state),
        since=now,
        told=len(state.transcript.unsent),
        context=state.context.messages.due(step),
        continuing=continuing,
        ended=state.steps if hooks.step_moments(state) else 0,
    )
    messages = state.context.messages.after(step)
    asked = replace(
        state, refused_calls=False, hooked=state.steps, steps=step, inferences=number, step_open=True
    ).entering(inferring)
    command = infer_command(asked, inferring)
    asked = replace(asked, transcript=asked.transcript.sent(), context=replace(asked.context, messages=messages))
    return Advance(asked, (command,), (StepStart(message_id=inferring.message_id),))


def infer_command(state: RunState, inferring: Inferring) -> Infer:
    """Ask the model about the transcript as it is."""
    compaction = state.context.compaction
    return Infer(
        id=inferring.id,
        agent=state.agent,
        step=state.steps,
        transcript=state.transcript.ref,
        appended=state.transcript.unsent,
        frontend_tools=state.frontend_tools,
        compaction=compaction.source if compaction else None,
        factor=state.context.factor if state.agent.context else None,
        context=inferring.context,
        overrides=state.overrides,
        continuing=inferring.continuing,
        permissions=state.rules,
        state=state.values.view if inferring.ended or state.agent.has_hooks(*INFERENCE_PHASES) else None,
        ended=inferring.ended,
    )
