"""The agents of a registry as a list for people and programs: where each is from, and what it can do."""

from dataclasses import dataclass

from wakeful.authoring.agent import Agent
from wakeful.contract.capabilities import CapabilityProfile, profile_of
from wakeful.contract.names import LOCAL_SOURCE
from wakeful.registry.registry import Registry


@dataclass(frozen=True)
class ListedAgent:
    id: str
    source: str
    """The name of the source that it was discovered at, or `local`."""
    description: str
    tools: tuple[str, ...]
    capabilities: CapabilityProfile


def list_agents(registry: Registry) -> tuple[ListedAgent, ...]:
    """All agents, sorted by id: the local ones first, then those of the sources."""
    local = [(LOCAL_SOURCE, registry.agents[id]) for id in sorted(registry.agents)]
    remote = [(id.partition("/")[0], registry.discovered[id]) for id in sorted(registry.discovered)]
    return tuple(_listed(registry, source, agent) for source, agent in (*local, *remote))


def _listed(registry: Registry, source: str, agent: Agent) -> ListedAgent:
    return ListedAgent(
        id=agent.id,
        source=source,
        description=agent.description or agent.written_instructions,
        tools=tuple(tool.id for tool in registry.resolve(agent.id).tools),
        capabilities=profile_of(agent.endpoint),
    )
