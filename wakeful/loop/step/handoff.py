"""Which agent answers: bind a run to its agent when it starts, and hand it off to another from its next step."""

from wakeful.contract import ids
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.events import Handoff
from wakeful.contract.runs import Blocked
from wakeful.contract.tools import RuntimeTool, ToolResult
from wakeful.loop.calls.batch import Startable
from wakeful.loop.calls.commit import finish_call
from wakeful.loop.machine.commands import ResolveAgent
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.stages import BetweenSteps, HandingOff
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.subagents import ledger
from wakeful.loop.thread import ending


def bind_agent(thread: Thread, agent: ResolvedAgent, *, now: int) -> Thread:
    """The run with its agent, that agent's context messages, and its budget."""
    messages = thread.context.messages
    for message in agent.context_messages:
        messages = messages.upserting(message)
    run = thread.current
    limit = ledger.tightest(run.budget.limit, agent.budget)
    run = replace(
        run,
        resolved=agent,
        started_at=run.started_at if run.step.number else now,
        budget=replace(run.budget, limit=limit, deadline=ledger.deadline(limit, run.budget.deadline, now)),
    )
    return replace(thread, run=run, context=replace(thread.context, messages=messages))


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
    return ResolveAgent(stage.id, stage.agent_id, in_task=thread.identity.task is not None)


def on_handoff_resolved(thread: Thread, agent: ResolvedAgent, *, now: int) -> Advance:
    """The run with its new agent, which answers on the thread from now on."""
    before, run = thread.agent.agent_id, thread.current
    # The steps so far were another agent's: the new one's `step_end` hooks do not run for them.
    run = replace(run, step=replace(run.step, hooks_ran=run.step.number), has_deactivated=False)
    thread = replace(thread.with_run(run).entering(BetweenSteps()), active_agent=agent.agent_id)
    bound = bind_agent(thread, agent, now=now)
    return Advance(bound, events=(Handoff(from_agent=before, to_agent=agent.agent_id),))


def on_handoff_failed(thread: Thread, why: str, *, now: int) -> Advance:
    termination = Blocked(value=f"handoff resolve failed: {why}")
    return ending.finish(thread.entering(BetweenSteps()), termination, now=now)
