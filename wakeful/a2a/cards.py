"""The agent cards: what clients discover of the agents that are served. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)
from a2a.utils.constants import PROTOCOL_VERSION_1_0, TransportProtocol

from wakeful.authoring.agent import Agent
from wakeful.authoring.tool import Tool
from wakeful.contract.errors import ConfigurationError
from wakeful.registry.registry import Registry

INPUT_MODES = ("text/plain", "application/json", "image/*", "audio/*", "video/*", "application/pdf")
OUTPUT_MODES = ("text/plain", "application/json")
BINDINGS = (TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON)
VERSION = "1"
"""Of an agent: Wakeful does not number them."""


@dataclass(frozen=True)
class ServedTool:
    """A tool of an agent, for the extended card."""

    name: str
    description: str


@dataclass(frozen=True)
class ServedAgent:
    """An agent that clients can address."""

    id: str
    description: str
    tools: tuple[ServedTool, ...] = ()


def served_agents(
    agents: Registry | Mapping[str, str], *, only: Collection[str] | None = None
) -> tuple[ServedAgent, ...]:
    """The agents of a registry, or those that are described by id; `only` those with these ids.

    Raises:
        ConfigurationError: there is none, `only` names an unknown one, or the id of one cannot be a part of a path.
    """
    if isinstance(agents, Registry):
        known = {id: _served_agent(agent) for id, agent in agents.agents.items()}
    else:
        known = {id: ServedAgent(id, description) for id, description in agents.items()}
    names = ", ".join(known) or "none"
    problems = [f"agent {id!r} is unknown; known: {names}" for id in only or () if id not in known]
    served = tuple(agent for id, agent in known.items() if only is None or id in only)
    problems += [
        f"agent {agent.id!r} cannot be served: a path cannot have its id" for agent in served if "/" in agent.id
    ]
    if problems or not served:
        raise ConfigurationError(problems or ["there is no agent to serve: name one"])
    return served


def _served_agent(agent: Agent) -> ServedAgent:
    return ServedAgent(agent.id, agent.description, tuple(_served_tool(tool) for tool in agent.tools))


def _served_tool(tool: Tool | str) -> ServedTool:
    return ServedTool(tool, "") if isinstance(tool, str) else ServedTool(tool.name, tool.descriptor.description)


def card(agents: Sequence[ServedAgent], *, url: str, has_token: bool, extended: bool = False) -> AgentCard:
    """The card of one agent, or of several: each has interfaces of its own, by its id as their tenant.

    Args:
        extended: with the tools of each agent, for clients that have signed in.
    """
    first = agents[0]
    is_one = len(agents) == 1
    # Of several interfaces, some clients take the first and others the last (a2a-js 1.3): both are the first agent's.
    addressed = agents if is_one else (*agents, first)
    made = AgentCard(
        name=first.id if is_one else "wakeful",
        description=_description(first) if is_one else f"{len(agents)} agents: {', '.join(it.id for it in agents)}",
        version=VERSION,
        supported_interfaces=[_interface(agent, url, binding) for agent in addressed for binding in BINDINGS],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=has_token),
        default_input_modes=INPUT_MODES,
        default_output_modes=OUTPUT_MODES,
        skills=[skill for agent in agents for skill in _skills(agent, extended=extended)],
    )
    if has_token:
        scheme = HTTPAuthSecurityScheme(scheme="bearer", description="The token of this server.")
        made.security_schemes["bearer"].CopyFrom(SecurityScheme(http_auth_security_scheme=scheme))
        made.security_requirements.append(SecurityRequirement(schemes={"bearer": StringList()}))
    return made


def _interface(agent: ServedAgent, url: str, binding: TransportProtocol) -> AgentInterface:
    return AgentInterface(
        url=url, protocol_binding=binding.value, protocol_version=PROTOCOL_VERSION_1_0, tenant=agent.id
    )


def _skills(agent: ServedAgent, *, extended: bool) -> list[AgentSkill]:
    own = AgentSkill(id=agent.id, name=agent.id, description=_description(agent), tags=["agent"])
    tools = [
        AgentSkill(
            id=f"{agent.id}.{tool.name}",
            name=tool.name,
            description=tool.description or f"The tool {tool.name!r}.",
            tags=["tool", agent.id],
        )
        for tool in agent.tools
    ]
    return [own, *(tools if extended else ())]


def _description(agent: ServedAgent) -> str:
    return agent.description or f"The agent {agent.id!r}."
