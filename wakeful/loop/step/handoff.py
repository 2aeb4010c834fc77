"""Hand a run over: another agent goes on with it from its next step, with the whole conversation."""

from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.events import Handoff
from wakeful.contract.runs import Blocked
from wakeful.contract.tools import RuntimeTool, ToolResult
from wakeful.loop.calls.batch import NewCall, ResumingCall
from wakeful.loop.calls.commit import answer
from wakeful.loop.machine.commands import ResolveAgent
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.stages import BetweenSteps, HandingOver
from wakeful.loop.machine.state import Advance, RunState
from wakeful.loop.subagents import ledger
from wakeful.loop.thread import ending


def request(state: RunState, call: NewCall | ResumingCall, tool: RuntimeTool) -> Advance:
    """The model asks for another agent; of several in one step the last one counts."""
    agent_id = tool.agent_id or ""
    result = ToolResult.success(call.call.name, {"handoff": agent_id}, f"{agent_id} goes on from here")
    return answer(replace(state, requested_agent=agent_id), call, result)


def look_up(state: RunState, agent_id: str) -> Advance:
    """Ask for the agent that is to go on."""
    number = state.handoffs + 1
    handing = HandingOver(id=f"handoff-{state.runs}-{number}", agent_id=agent_id)
    state = replace(state, handoffs=number, requested_agent=None).entering(handing)
    return Advance(state, (look_up_command(state, handing),))


def look_up_command(state: RunState, handing: HandingOver) -> ResolveAgent:
    return ResolveAgent(handing.agent_id, id=handing.id, in_task=state.identity.task is not None)


def taken_over(state: RunState, agent: ResolvedAgent, *, now: int) -> Advance:
    """The run with its new agent, who answers on the thread from now on."""
    before = state.agent.agent_id
    # The steps so far were not the new agent's: its hooks do not hear of their ends.
    begun = replace(state.entering(BetweenSteps()), active_agent=agent.agent_id, hooked=state.steps, has_left=False)
    bound = binding(begun, agent, now=now)
    return Advance(bound, events=(Handoff(from_agent=before, to_agent=agent.agent_id),))


def failed(state: RunState, why: str, *, now: int) -> Advance:
    return ending.finish(state.entering(BetweenSteps()), Blocked(value=f"handoff resolve failed: {why}"), now=now)


def binding(state: RunState, agent: ResolvedAgent, *, now: int) -> RunState:
    """The run with its agent, with what that agent always tells the model, and within its budget."""
    messages = state.context.messages
    for message in agent.context_messages:
        messages = messages.upserting(message)
    budget = ledger.tightest(state.budget, agent.budget)
    return replace(
        state,
        resolved=agent,
        began_at=state.began_at if state.steps else now,
        context=replace(state.context, messages=messages),
        budget=budget,
        deadline=ledger.deadline(budget, state.deadline, now),
    )
