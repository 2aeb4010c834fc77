"""Between two steps: bind the run to its agent, hand it off, or start the next step with a call of the model."""

from wakeful.contract import ids
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.base import replace
from wakeful.contract.events import Handoff, StepStart
from wakeful.contract.hooks import Phase
from wakeful.contract.runs import Blocked, StopDetail, Stopped
from wakeful.contract.tools import RuntimeTool, ToolResult
from wakeful.loop.calls.batch import Startable
from wakeful.loop.calls.commit import finish_call
from wakeful.loop.machine import revisions
from wakeful.loop.machine.commands import Infer, ResolveAgent
from wakeful.loop.machine.events import next_message_id
from wakeful.loop.machine.stages import BetweenSteps, HandingOff, Inferring
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.step import hooks
from wakeful.loop.subagents import budgets, ledger
from wakeful.loop.thread.ending import finish
from wakeful.loop.thread.submissions import read_messages, readable
from wakeful.permissions.authority import binding_on, handing_on, narrowing

INFERENCE_PHASES = (
    Phase.STEP_START,
    Phase.BEFORE_INFERENCE,
    Phase.AFTER_INFERENCE,
    Phase.TOOL_GATE,
    Phase.AFTER_TOOL_EXECUTE,
)


def next_step(thread: Thread, *, now: int, continuing: bool = False) -> Advance:
    """Start a step and call the model, unless the run has to end, wait for budget, or be handed off first.

    Limits are checked before the model is called, so that no answer is paid for only to be discarded.
    """
    run = thread.current
    if (end := run.requested_end) is not None:
        return hooks.give_answer(thread.with_run(replace(run, requested_end=None))).then(finish, end, now=now)
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
        return hooks.run_at_handoff(thread) or resolve_handoff(thread, thread.requested_agent)
    return _infer(thread, now=now, continuing=continuing)


def _infer(thread: Thread, *, now: int, continuing: bool) -> Advance:
    steering = readable(thread.steering)
    reading = read_messages(replace(thread, steering=thread.steering[len(steering) :]), steering)
    thread = reading.thread
    run = thread.current
    counters = thread.counters.model_copy(update={"steps": thread.counters.steps + 1})
    number, messages = run.step.number + 1, thread.context.messages
    stage = Inferring(
        id=ids.work_id(ids.Infer(counters.steps)),
        message_id=next_message_id(thread),
        since=now,
        new_entries=len(thread.transcript.unsent),
        # By the step's number in the thread: a run counts its own from 1, and its cooldowns would never pass.
        context=messages.due(counters.steps),
        continuing=continuing,
        ended_step=run.step.number if run.agent.plugins and hooks.pending_step_end(run) else 0,
        changes=run.next_request,
    )
    if run.next_request is not None:
        thread = thread.with_run(replace(run, next_request=None))
    step = replace(run.step, number=number, is_open=True, hooks_ran=run.step.number, refused_calls=False)
    thread = thread.counting(counters).with_step(step).entering(stage)
    command = infer_command(thread, stage)
    thread = replace(
        thread,
        transcript=thread.transcript.sent(),
        context=replace(thread.context, messages=messages.after(counters.steps)),
    )
    return Advance(thread, (command,), (*reading.events, StepStart(message_id=stage.message_id)))


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
        frontend_tools=thread.offered_frontend_tools,
        compaction=compaction.source if compaction else None,
        token_factor=thread.context.token_factor if run.agent.context else None,
        context=stage.context,
        overrides=run.settings.overrides,
        continuing=stage.continuing,
        permissions=thread.rules,
        questions=thread.questions,
        state=thread.agent_state.view if has_hooks else None,
        ended_step=stage.ended_step,
        changes=stage.changes,
        lineage=thread.counters.lineage,
        live=run.settings.live,
        metadata=run.metadata,
    )


def bind_agent(thread: Thread, agent: ResolvedAgent, *, now: int) -> Thread:
    """The run with its agent, that agent's context messages, and its budget."""
    context = thread.context.for_agent(agent.agent_id)
    context = replace(context, messages=context.messages.declaring(agent.context_messages))
    run = thread.current
    limit = ledger.tightest(run.budget.limit, agent.budget)
    run = replace(
        run,
        resolved=agent,
        started_at=run.started_at if run.step.number else now,
        budget=replace(run.budget, limit=limit, deadline=ledger.deadline(limit, run.budget.deadline, now)),
    )
    return replace(thread, run=run, context=context)


def request_handoff(thread: Thread, call: Startable, tool: RuntimeTool) -> Advance:
    """The model hands the run off; of several handoffs in one step the last one counts."""
    agent_id = tool.agent_id or ""
    result = ToolResult.success(call.call.name, {"handoff": agent_id}, f"{agent_id} takes over from here")
    return finish_call(replace(thread, requested_agent=agent_id), call, result)


def resolve_handoff(thread: Thread, agent_id: str) -> Advance:
    """Look up the agent that takes over."""
    counters = thread.counters.model_copy(update={"handoffs": thread.counters.handoffs + 1})
    stage = HandingOff(id=ids.work_id(ids.ResolveHandoff(counters.handoffs)), agent_id=agent_id)
    thread = replace(thread, counters=counters, requested_agent=None).entering(stage)
    return Advance(thread, (handoff_command(thread, stage),))


def handoff_command(thread: Thread, stage: HandingOff) -> ResolveAgent:
    in_task, metadata = thread.identity.task is not None, thread.current.metadata
    return ResolveAgent(stage.id, stage.agent_id, in_task=in_task, metadata=metadata)


def on_handoff_resolved(thread: Thread, agent: ResolvedAgent, *, now: int) -> Advance:
    """The run with its new agent, which answers on the thread from now on."""
    before, run = thread.agent.agent_id, thread.current
    if run.revision >= revisions.AUTHORITY_NARROWS:
        thread = replace(thread, handed_over=handing_on(thread.handed_over, thread.agent))
        run = replace(run, authority=narrowing(thread.authority, binding_on(agent.agent_id, thread.handed_over)))
    # The steps so far were another agent's: the new one's `step_end` hooks do not run for them.
    step = replace(run.step, hooks_ran=run.step.number)
    run = replace(run, step=step, has_deactivated=False, next_request=None)
    thread = replace(thread.with_run(run).entering(BetweenSteps()), active_agent=agent.agent_id)
    bound = bind_agent(thread, agent, now=now)
    return Advance(bound, events=(Handoff(from_agent=before, to_agent=agent.agent_id),))


def on_handoff_failed(thread: Thread, why: str, *, now: int) -> Advance:
    termination = Blocked(value=f"handoff resolve failed: {why}", code="handoff")
    return finish(thread.entering(BetweenSteps()), termination, now=now)
