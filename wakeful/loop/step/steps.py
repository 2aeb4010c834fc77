"""Start a step: one call of the model, and later the tool calls it asks for."""

from wakeful.contract import ids
from wakeful.contract.events import StepStart
from wakeful.contract.hooks import Phase
from wakeful.contract.runs import StopDetail, Stopped
from wakeful.loop.machine.commands import Infer
from wakeful.loop.machine.events import next_message_id
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.stages import Inferring
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.step import handoff, hooks
from wakeful.loop.subagents import budgets, ledger
from wakeful.loop.thread.ending import finish
from wakeful.loop.thread.submissions import read

INFERENCE_PHASES = (Phase.STEP_START, Phase.BEFORE_INFERENCE, Phase.AFTER_INFERENCE, Phase.TOOL_GATE)


def next_step(thread: Thread, *, now: int, continuing: bool = False) -> Advance:
    """Start a step and call the model, unless the run has to end, wait for budget, or be handed off first.

    Limits are checked before the model is called, so that no answer is paid for only to be discarded.
    """
    run = thread.current
    if run.requested_end is not None:
        return finish(thread.with_run(replace(run, requested_end=None)), run.requested_end, now=now)
    limit = run.agent.max_rounds
    if limit and run.step.rounds >= limit:
        detail = StopDetail(code="max_rounds", detail=f"{limit} rounds of tool calls were made")
        return finish(thread, Stopped(value=detail), now=now)
    if ledger.has_limits(run):
        if (stopped := budgets.before_step(thread, now=now)) is not None:
            return stopped
        if run.step.refused_calls and ledger.calls_left(run) == 0:
            return budgets.stop_for(thread, ledger.TOOL_CALLS, now=now)
    if thread.requested_agent not in (None, run.agent.agent_id):
        return hooks.run_at_handoff(thread) or handoff.resolve_handoff(thread, thread.requested_agent)
    return _infer(thread, now=now, continuing=continuing)


def _infer(thread: Thread, *, now: int, continuing: bool) -> Advance:
    thread = replace(read(thread, thread.steering), steering=())
    run = thread.current
    counters = thread.counters.model_copy(update={"steps": thread.counters.steps + 1})
    number, messages = run.step.number + 1, thread.context.messages
    stage = Inferring(
        id=ids.work_id(ids.Infer(counters.steps)),
        message_id=next_message_id(thread),
        since=now,
        new_entries=len(thread.transcript.unsent),
        context=messages.due(number),
        continuing=continuing,
        ended_step=run.step.number if run.agent.plugins and hooks.pending_step_end(run) else 0,
    )
    step = replace(run.step, number=number, is_open=True, hooks_ran=run.step.number, refused_calls=False)
    thread = thread.counting(counters).with_step(step).entering(stage)
    command = infer_command(thread, stage)
    thread = replace(
        thread,
        transcript=thread.transcript.sent(),
        context=replace(thread.context, messages=messages.after(number)),
    )
    return Advance(thread, (command,), (StepStart(message_id=stage.message_id),))


def infer_command(thread: Thread, stage: Inferring) -> Infer:
    """Call the model with the transcript as it is."""
    run, compaction = thread.current, thread.context.compaction
    has_hooks = stage.ended_step or run.agent.has_hooks(*INFERENCE_PHASES)
    return Infer(
        id=stage.id,
        agent=run.agent,
        step=run.step.number,
        transcript=thread.transcript.ref,
        appended=thread.transcript.unsent,
        frontend_tools=thread.frontend_tools,
        compaction=compaction.source if compaction else None,
        token_factor=thread.context.token_factor if run.agent.context else None,
        context=stage.context,
        overrides=run.overrides,
        continuing=stage.continuing,
        permissions=thread.rules,
        state=thread.agent_state.view if has_hooks else None,
        ended_step=stage.ended_step,
    )
