"""The content of one version of a registry: agents, tools, gates, models and the rest, by name.

It is immutable: `registry.py` replaces it as a whole, after `checks.py` has checked it. The content of older versions
stays available to the runs that are bound to it (`Retired`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, TypedDict, cast

from pydantic import TypeAdapter

from wakeful.authoring.a2a_source import A2aSource
from wakeful.authoring.agent import Agent
from wakeful.authoring.gate import Gate
from wakeful.authoring.instructions import InstructionsContext
from wakeful.authoring.lifespan import Lifespan, asked_type, first_parameter
from wakeful.authoring.mcp_server import McpServer
from wakeful.authoring.plugin import AnyPlugin, tools_of
from wakeful.authoring.profiles import ProfileKey
from wakeful.authoring.provider import AnyProvider, ProviderFactory, is_factory
from wakeful.authoring.tool import Tool
from wakeful.contract.agents import ModelBinding
from wakeful.contract.budgets import Price
from wakeful.contract.inference import OutputSpec
from wakeful.contract.tools import ToolDescriptor
from wakeful.registry.addressing import find_agent, may_have
from wakeful.registry.remote_agents import remote_tools
from wakeful.registry.runtime_tools import NamedAgent, about, runtime_tools

BUILT_IN_PROVIDERS: Mapping[str, str] = {
    "anthropic": "wakeful_activities.providers.anthropic.provider:AnthropicMessages",
    "azure": "wakeful_activities.providers.azure.provider:AzureOpenAIChat",
    "azure-responses": "wakeful_activities.providers.azure.provider:AzureOpenAIResponses",
    "openai": "wakeful_activities.providers.openai_chat.provider:OpenAIChat",
    "openai-responses": "wakeful_activities.providers.openai_responses.provider:OpenAIResponses",
    "pydantic-ai": "wakeful_activities.providers.pydantic_ai.provider:PydanticAIModels",
}
"""The providers that every worker has, by the name that models use. A new one needs a folder and a line here."""

ModelSource = str | AnyProvider | ProviderFactory
"""`"provider/name"` for a registered or built-in provider, or a provider for this model only, or what makes one."""


class RegistryParts(TypedDict, total=False):
    """The arguments of `Registry`."""

    agents: Sequence[Agent]
    agent_files: Sequence[Path | str]
    sources: Sequence[A2aSource]
    tools: Sequence[Tool]
    gates: Sequence[Gate]
    plugins: Sequence[AnyPlugin]
    mcp_servers: Sequence[McpServer]
    models: Mapping[str, ModelSource]
    providers: Mapping[str, AnyProvider | ProviderFactory]
    prices: Mapping[str, Price]
    inference_queues: Mapping[str, str]
    profile_keys: Sequence[ProfileKey[Any]]
    lifespan: Lifespan | None


def frozen(parts: RegistryParts) -> RegistryParts:
    """The same parts, which no one else can change."""
    copied = {name: dict(part) if isinstance(part, Mapping) else part for name, part in parts.items()}
    return cast(  # the keys are the same, and the values of the same types
        RegistryParts, {name: tuple(part) if isinstance(part, list) else part for name, part in copied.items()}
    )


@dataclass(frozen=True)
class DiscoveredSource:
    """A source, and the agents that were found there."""

    source: A2aSource
    agents: tuple[Agent, ...]


@dataclass(frozen=True)
class RegistryContent:
    agents: dict[str, Agent] = field(default_factory=dict)
    """The local ones: of code and files."""
    tools: dict[str, Tool] = field(default_factory=dict)
    gates: dict[str, Gate] = field(default_factory=dict)
    plugins: dict[str, AnyPlugin] = field(default_factory=dict)
    mcp_servers: dict[str, McpServer] = field(default_factory=dict)
    models: dict[str, ModelSource] = field(default_factory=dict)
    providers: dict[str, AnyProvider | ProviderFactory] = field(default_factory=dict)
    prices: dict[str, Price] = field(default_factory=dict)
    inference_queues: dict[str, str] = field(default_factory=dict)
    profile_keys: dict[str, ProfileKey[Any]] = field(default_factory=dict)
    files_read: tuple[Path, ...] = ()
    """The files that agents were read from, and their instructions."""
    sources: tuple[A2aSource, ...] = ()
    discovery: tuple[DiscoveredSource, ...] = ()
    """Those of the sources that were discovered, in their order."""

    @cached_property
    def discovered(self) -> Mapping[str, Agent]:
        """The agents of the sources, by their ids, in the order of the sources."""
        return {agent.id: agent for found in self.discovery for agent in found.agents}

    @property
    def undiscovered(self) -> tuple[str, ...]:
        """The names of the sources whose agents are not known yet."""
        discovered = {found.source.name for found in self.discovery}
        return tuple(source.name for source in self.sources if source.name not in discovered)

    def discovering(self, discovery: Sequence[DiscoveredSource]) -> "RegistryContent":
        """The content with what was discovered of its sources; what was found for other settings is left out."""
        known = {found.source.name: found for found in discovery if found.source in self.sources}
        return replace(self, discovery=tuple(known[each.name] for each in self.sources if each.name in known))

    def find(self, address: str) -> Agent | None:
        """The agent that an address names: `agent`, `local/agent` or `source/agent`."""
        return find_agent(address, self.agents, self.discovered)

    def is_known(self, address: str) -> bool:
        """Whether there is such an agent, or may be once all sources are discovered."""
        return self.find(address) is not None or may_have(address, self.undiscovered)

    def binding(self, model_id: str) -> ModelBinding:
        source = self.models[model_id]
        if isinstance(source, str):
            provider, _, name = source.partition("/")
        else:
            provider = name = model_id
        queue = self.inference_queues.get(model_id)
        return ModelBinding(id=model_id, provider=provider, name=name, task_queue=queue)

    def model_of(self, agent: Agent) -> ModelBinding:
        """The agent's model; of a remote agent, what stands for it in spans, summaries and budgets."""
        if agent.endpoint is None:
            return self.binding(agent.model)
        return ModelBinding(id=agent.id, provider=agent.endpoint.backend, name=agent.id)

    def summary_binding(self, agent: Agent) -> ModelBinding | None:
        """The model that summarises the agent's conversations, if that is not its own."""
        model_id = agent.context.summary_model if agent.context else None
        return None if model_id is None else self.binding(model_id)

    def provider(self, binding: ModelBinding) -> AnyProvider | ProviderFactory | None:
        source = self.models.get(binding.id)
        if binding.provider == binding.id and source is not None and not isinstance(source, str):
            return source
        return self.providers.get(binding.provider)

    def price(self, binding: ModelBinding) -> Price | None:
        """The price of the bound model, whatever id it has here."""
        bound = ((id, self.binding(id)) for id in (binding.id, *sorted(self.prices)) if id in self.prices)
        same = (id for id, known in bound if (known.provider, known.name) == (binding.provider, binding.name))
        return next((self.prices[id] for id in same), None)

    def asked_types(self) -> Iterator[tuple[str, object]]:
        """What takes the value of the lifespan, and of which type: `("tool 'refund'", Database)`."""
        tools = ((f"tool {name!r}", tool.deps_type) for name, tool in self.tools.items())
        gates = ((f"gate {name!r}", gate.deps_type) for name, gate in self.gates.items())
        plugins = ((f"plugin {id!r}", plugin.deps_type) for id, plugin in self.plugins.items())
        prompts = (
            (f"the instructions of agent {id!r}", asked_type(first_parameter(agent.instructions), InstructionsContext))
            for id, agent in self.agents.items()
            if not isinstance(agent.instructions, str)
        )
        return ((what, asked) for what, asked in chain(tools, gates, plugins, prompts) if asked is not None)

    def provider_factories(self) -> Iterator[tuple[str, ProviderFactory]]:
        """What makes a provider from the value of the lifespan, with the name of its model or provider."""
        sources: Mapping[str, ModelSource] = {**self.models, **self.providers}
        return ((name, made) for name, made in sources.items() if not isinstance(made, str) and is_factory(made))

    def plugins_of(self, agent: Agent) -> tuple[AnyPlugin, ...]:
        """The agent's plugins, in its order; unknown ids are left out."""
        return tuple(self.plugins[id] for id in agent.plugin_ids if id in self.plugins)

    def active_plugins_of(self, agent: Agent) -> tuple[AnyPlugin, ...]:
        """Those of the agent's plugins that contribute hooks and tools."""
        return tuple(plugin for plugin in self.plugins_of(agent) if agent.uses(plugin.id))

    def mcp_servers_of(self, agent: Agent) -> tuple[McpServer, ...]:
        """The MCP servers whose tools the agent has; unknown names are left out."""
        return tuple(self.mcp_servers[name] for name in agent.mcp_names if name in self.mcp_servers)

    def with_descendants(self, agent: Agent) -> list[Agent]:
        """The agent, and every agent that it or one of these may start or hand off to."""
        found, next = {agent.id: agent}, [agent]
        while next:
            named = (self.find(address) for address in named_agents(next.pop()))
            new = {other.id: other for other in named if other is not None and other.id not in found}
            found |= new
            next += new.values()
        return [*found.values()]

    def tool_names(self, agent: Agent) -> list[str]:
        """The tools that the agent's tool choice chooses from, also those of the runtime for background tasks."""
        named = {address: NamedAgent(address) for address in named_agents(agent)}
        own = [*agent.tool_names, *(tool.name for tool in tools_of(self.active_plugins_of(agent)))]
        has_background = any(self.tools[name].descriptor.background for name in own if name in self.tools)
        given = runtime_tools(agent, named, has_background=has_background, in_task=True)
        return [*own, *(tool.id for tool in given)]

    def descriptors(self, agent: Agent, *, in_task: bool) -> tuple[ToolDescriptor, ...]:
        """The agent's tools and the runtime's, sorted by id. An agent's own tool replaces one of the runtime's."""
        if agent.endpoint is not None:
            return remote_tools()
        names = (*agent.tool_names, *(tool.name for tool in tools_of(self.active_plugins_of(agent))))
        own = {name: self.tools[name].descriptor for name in names if name in self.tools and has_tool(agent, name)}
        named = {address: self._named(address) for address in named_agents(agent)}
        has_background = any(descriptor.background for descriptor in own.values())
        given = runtime_tools(agent, named, has_background=has_background, in_task=in_task)
        tools = {**{tool.id: tool for tool in given if has_tool(agent, tool.id)}, **own}
        return tuple(tools[id] for id in sorted(tools))

    def _named(self, address: str) -> NamedAgent:
        agent = self.find(address)
        return NamedAgent(address) if agent is None else NamedAgent(agent.id, about(agent))


@dataclass(frozen=True)
class Retired:
    """The content of older versions, by name, the newest of each: a run in flight never loses what it is bound to."""

    agents: dict[str, Agent] = field(default_factory=dict)
    tools: dict[str, Tool] = field(default_factory=dict)
    gates: dict[str, Gate] = field(default_factory=dict)
    plugins: dict[str, AnyPlugin] = field(default_factory=dict)
    mcp_servers: dict[str, McpServer] = field(default_factory=dict)
    models: dict[str, AnyProvider | ProviderFactory] = field(default_factory=dict)
    """Only models with a provider of their own."""
    providers: dict[str, AnyProvider | ProviderFactory] = field(default_factory=dict)
    prices: dict[ModelBinding, Price] = field(default_factory=dict)
    profile_keys: dict[str, ProfileKey[Any]] = field(default_factory=dict)

    def adding(self, old: RegistryContent, *, successor: RegistryContent) -> "Retired":
        changed = {id: a for id, a in old.agents.items() if id not in successor.agents or a != successor.agents[id]}
        return Retired(
            agents={**self.agents, **changed},
            tools={**self.tools, **old.tools},
            gates={**self.gates, **old.gates},
            plugins={**self.plugins, **old.plugins},
            mcp_servers={**self.mcp_servers, **old.mcp_servers},
            models={**self.models, **{id: m for id, m in old.models.items() if not isinstance(m, str)}},
            providers={**self.providers, **old.providers},
            prices={**self.prices, **{old.binding(id): price for id, price in old.prices.items()}},
            profile_keys={**self.profile_keys, **old.profile_keys},
        )

    def provider(self, binding: ModelBinding) -> AnyProvider | ProviderFactory | None:
        alone = self.models.get(binding.id) if binding.provider == binding.id else None
        return alone or self.providers.get(binding.provider)

    def price(self, binding: ModelBinding) -> Price | None:
        """The price of the bound model, whatever id it had."""
        newest_first = reversed(self.prices.items())
        same = (p for known, p in newest_first if (known.provider, known.name) == (binding.provider, binding.name))
        return next(same, None)

    def price_of_id(self, id: str) -> Price | None:
        return next((price for known, price in reversed(self.prices.items()) if known.id == id), None)


def output_spec(agent: Agent) -> OutputSpec | None:
    if agent.output is None:
        return None
    schema = agent.output if isinstance(agent.output, dict) else TypeAdapter(agent.output).json_schema()
    name = schema.get("title") or "answer"
    return OutputSpec(
        name=re.sub(r"[^A-Za-z0-9_-]+", "_", str(name))[:64], json_schema=schema, max_repairs=agent.output_repairs
    )


def named_agents(agent: Agent) -> tuple[str, ...]:
    """The addresses of the agents that an agent names."""
    return (*agent.delegates, *agent.spawns, *agent.handoffs)


def matches(tool: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(tool, pattern) for pattern in patterns)


def has_tool(agent: Agent, tool: str) -> bool:
    """Whether the agent's tool choice includes the tool; exclusions win."""
    is_allowed = agent.allowed_tools is None or matches(tool, agent.allowed_tools)
    return is_allowed and not matches(tool, agent.excluded_tools)
