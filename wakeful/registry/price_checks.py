"""Check that a cost budget can be kept: a model without a price costs nothing, so that it would never be spent."""

from collections.abc import Iterator

from wakeful.authoring.agent import Agent
from wakeful.registry.agent_files import location_of
from wakeful.registry.content import RegistryContent
from wakeful.registry.located_files import Problem


def price_problems(agent: Agent, known: RegistryContent) -> Iterator[Problem]:
    """The models without a price that count towards the agent's cost budget: its own, and those of its sub-agents."""
    if agent.budget is None or agent.budget.cost is None:
        return
    for payer in known.with_descendants(agent):
        for model in _unpriced(payer, known):
            whose = "" if payer is agent else f" of agent {payer.id!r}, which shares the budget,"
            remedy = f"set Registry(prices={{{model!r}: Price(input=…, output=…)}}), or limit tokens instead"
            message = f"agent {agent.id!r} has a cost budget, and model {model!r}{whose} has no price: {remedy}"
            yield Problem(message, location_of(agent, "budget", "cost"))


def _unpriced(agent: Agent, known: RegistryContent) -> list[str]:
    """The agent's models without a price; what another service charges for its agent is not known."""
    if agent.endpoint is not None:
        return []
    summary = agent.context.summary_model if agent.context else None
    models = dict.fromkeys(model for model in (agent.model, *agent.fallbacks, summary) if model in known.models)
    return [model for model in models if model is not None and known.price(known.binding(model)) is None]
