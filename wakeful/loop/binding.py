"""Bind a run to its agent: what it always tells the model, and what it may spend."""

from wakeful.contract.agents import ResolvedAgent
from wakeful.loop import spending
from wakeful.loop.state import RunState
from wakeful.loop.values import replace


def binding(state: RunState, agent: ResolvedAgent, *, now: int) -> RunState:
    """The run with its agent, with what that agent always tells the model, and within its budget."""
    messages = state.context.messages
    for message in agent.context_messages:
        messages = messages.upserting(message)
    budget = spending.tightest(state.budget, agent.budget)
    return replace(
        state,
        resolved=agent,
        began_at=state.began_at if state.steps else now,
        context=replace(state.context, messages=messages),
        budget=budget,
        deadline=spending.deadline(budget, state.deadline, now),
    )
