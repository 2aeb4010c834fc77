"""`Registry`: the agents, tools, gates, plugins, MCP servers, models and providers of a worker, checked as a whole.

Its content can be replaced while runs are asleep: new runs use the new content, and a run keeps the agent that it was
bound to when it started.
"""

import inspect
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic_core import to_json

from wakeful.authoring.a2a_source import A2aSource
from wakeful.authoring.agent import Agent
from wakeful.authoring.gate import Gate
from wakeful.authoring.instructions import InstructionsFunction
from wakeful.authoring.lifespan import Lifespan
from wakeful.authoring.mcp_server import McpServer
from wakeful.authoring.plugin import AnyPlugin
from wakeful.authoring.profiles import ProfileKey
from wakeful.authoring.provider import AnyProvider, ProviderFactory
from wakeful.authoring.scripted import ScriptedModel, say
from wakeful.authoring.tool import Tool
from wakeful.contract.agents import ModelBinding, ResolvedAgent, RetryPolicy
from wakeful.contract.budgets import Budget, Price
from wakeful.contract.errors import ConfigurationError, DiscoveryFailed, validation_problems
from wakeful.contract.field_problems import shown
from wakeful.contract.model_settings import ModelSettings
from wakeful.contract.names import LOCAL_SOURCE
from wakeful.contract.suggestions import registered
from wakeful.registry.checks import collect, name_problems, sorted_problems
from wakeful.registry.content import (
    DiscoveredSource,
    ModelSource,
    RegistryContent,
    RegistryParts,
    Retired,
    frozen,
    has_tool,
    output_spec,
)
from wakeful.registry.located_files import Problem
from wakeful.registry.part_checks import part_problems
from wakeful.registry.permission_checks import idle_rules, open_subagents, unmatched_rules
from wakeful.registry.plugin_bindings import bindings, state_specs

_logger = logging.getLogger("wakeful")

DEFAULT_OPENAI_MODEL = "gpt-5-mini"
DEFAULT_ANTHROPIC_MODEL = "claude-sonnet-4-5"


@dataclass(frozen=True)
class RegistrySnapshot:
    """The ids that a registry has in force."""

    version: int
    agents: tuple[str, ...]
    tools: tuple[str, ...]
    gates: tuple[str, ...]
    plugins: tuple[str, ...]
    models: tuple[str, ...]
    providers: tuple[str, ...]


@dataclass(frozen=True)
class _InForce:
    """Everything that `replace` changes, as one value, so that no reader sees half a replacement."""

    version: int
    parts: RegistryParts
    content: RegistryContent
    retired: Retired


class Registry:
    """Agents, tools, gates, plugins, models and providers, checked against each other.

    You need not list tools, gates and plugins that your agents contain. The model `default` always exists: an
    OpenAI-compatible one if `OPENAI_API_KEY` or `OPENAI_BASE_URL` is set, Anthropic's if `ANTHROPIC_API_KEY` is, else a
    scripted one that tells you to set a key.

    Args:
        agents: agents that are defined in code.
        agent_files: TOML and YAML files, or directories of them, with more agents.
        sources: services whose agents `initialize` discovers, as `source/agent`. A worker does that when it starts.
        tools: tools that agents refer to by name.
        models: by id, `"provider/name"`, a provider, or a function that makes one from the lifespan's value.
        providers: providers by the name that `models` uses, in addition to the built-in ones.
        gates: gates that agents refer to by name.
        plugins: plugins that agents refer to by id.
        mcp_servers: MCP servers that agents refer to by name.
        inference_queues: task queues for the calls of models, by the model's id in `models`, which workers serve alone
            (`WorkerSettings.inference_queue`). The calls of other models are on the task queue of their run.
        prices: what models cost, by their id in `models`; a budget's `cost` needs a price of every model that counts.
        profile_keys: the keys that tools and hooks use with `ctx.profiles`.
        lifespan: returns an async context manager, which a worker enters when it starts and exits when it has stopped.
            Tools, gates, hooks and dynamic instructions receive its value as `deps`.

    Raises:
        ConfigurationError: lists all problems, such as unknown, reserved or repeated names and invalid files, rules or
            settings; those in files with file and line.
    """

    def __init__(
        self,
        *,
        agents: Sequence[Agent] = (),
        agent_files: Sequence[Path | str] = (),
        sources: Sequence[A2aSource] = (),
        tools: Sequence[Tool] = (),
        models: Mapping[str, ModelSource] | None = None,
        providers: Mapping[str, AnyProvider | ProviderFactory] | None = None,
        gates: Sequence[Gate] = (),
        plugins: Sequence[AnyPlugin] = (),
        mcp_servers: Sequence[McpServer] = (),
        prices: Mapping[str, Price] | None = None,
        inference_queues: Mapping[str, str] | None = None,
        profile_keys: Sequence[ProfileKey[Any]] = (),
        lifespan: Lifespan | None = None,
    ) -> None:
        self._load(
            RegistryParts(
                agents=agents,
                agent_files=agent_files,
                sources=sources,
                tools=tools,
                gates=gates,
                plugins=plugins,
                mcp_servers=mcp_servers,
                models=models or {},
                providers=providers or {},
                prices=prices or {},
                inference_queues=inference_queues or {},
                profile_keys=profile_keys,
                lifespan=lifespan,
            )
        )

    def _load(self, given: RegistryParts, discovery: Sequence[DiscoveredSource] = ()) -> None:
        if problems := part_problems(given):
            raise ConfigurationError(problems)
        parts = frozen({**given, "models": {"default": default_model(), **given["models"]}})
        content, found = collect(parts, discovery)
        _raise(found)
        for warning in (*unmatched_rules(content), *open_subagents(content)):
            _logger.warning("%s", warning)
        self._now = _InForce(1, parts, content, Retired())

    @property
    def version(self) -> int:
        """Starts at 1 in every process; each replacement increments it."""
        return self._now.version

    @property
    def lifespan(self) -> Lifespan | None:
        """What every worker enters when it starts, if given."""
        return self._now.parts.get("lifespan")

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The agents of code and files, by their ids; `discovered` has those of the sources."""
        return self._now.content.agents

    @property
    def agent_ids(self) -> tuple[str, ...]:
        """The addresses of all agents, sorted, each with its source: `local/support`, `partner/weather`."""
        content = self._now.content
        return tuple(sorted([*(f"{LOCAL_SOURCE}/{id}" for id in content.agents), *content.discovered]))

    @property
    def discovered(self) -> Mapping[str, Agent]:
        """The agents of the sources, by their ids, in the order of the sources."""
        return self._now.content.discovered

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools that agents can list by name."""
        return self._now.content.tools

    @property
    def gates(self) -> Mapping[str, Gate]:
        """The gates that agents can list by name."""
        return self._now.content.gates

    @property
    def plugins(self) -> Mapping[str, AnyPlugin]:
        """The plugins that agents can list by id."""
        return self._now.content.plugins

    @property
    def mcp_servers(self) -> Mapping[str, McpServer]:
        """The MCP servers, by name."""
        return self._now.content.mcp_servers

    @property
    def models(self) -> Mapping[str, ModelSource]:
        """The models, by id."""
        return self._now.content.models

    @property
    def providers(self) -> Mapping[str, AnyProvider | ProviderFactory]:
        """The providers, by name."""
        return self._now.content.providers

    @property
    def inference_queues(self) -> Mapping[str, str]:
        """The task queue of each model that has one of its own."""
        return self._now.content.inference_queues

    @property
    def profile_keys(self) -> tuple[ProfileKey[Any], ...]:
        """Sorted by name, including those of older versions, which runs may be bound to."""
        keys = {**self._now.retired.profile_keys, **self._now.content.profile_keys}
        return tuple(keys[name] for name in sorted(keys))

    @property
    def agent_files(self) -> tuple[Path, ...]:
        """The files and directories to read agents from."""
        return tuple(Path(path) for path in self._now.parts["agent_files"])

    @property
    def files_read(self) -> tuple[Path, ...]:
        """Every file that was read for the current version."""
        return self._now.content.files_read

    @property
    def sources(self) -> tuple[A2aSource, ...]:
        """The services to discover agents of, from code and from files."""
        return self._now.content.sources

    @property
    def undiscovered(self) -> tuple[str, ...]:
        """The sources whose agents are not known yet."""
        return self._now.content.undiscovered

    def snapshot(self) -> RegistrySnapshot:
        """The ids of everything that the current version has."""
        now = self._now
        return RegistrySnapshot(
            version=now.version,
            agents=tuple(sorted([*now.content.agents, *now.content.discovered])),
            tools=tuple(sorted(now.content.tools)),
            gates=tuple(sorted(now.content.gates)),
            plugins=tuple(sorted(now.content.plugins)),
            models=tuple(sorted(now.content.models)),
            providers=tuple(sorted(now.content.providers)),
        )

    def copy(self, **parts: Unpack[RegistryParts]) -> "Registry":
        """A new registry with these parts, and this one's parts for the rest. Agent files are read again.

        It has the agents that this one has discovered, of sources whose settings are the same.

        Raises:
            ConfigurationError: the parts have problems.
        """
        fresh = Registry.__new__(Registry)
        fresh._load({**self._now.parts, **parts}, self._now.content.discovery)
        return fresh

    def replace(self, other: "Registry | None" = None, **parts: Unpack[RegistryParts]) -> int:
        """Replace the whole content atomically. Runs that start from now on use it.

        A run in flight keeps its agent. Its tools, gates, plugins and providers are looked up by name; those that the
        new content lacks stay available to it. A worker that has started keeps the lifespan that it entered.

        Args:
            other: the registry whose content to use; by default this one, with its agent files read again.
            parts: replace these parts of that registry.

        Returns:
            The new version.

        Raises:
            ConfigurationError: the parts have problems; the old content stays in force.
        """
        fresh = other.copy(**parts) if other is not None and parts else other or self.copy(**parts)
        old, new = self._now, fresh._now
        # What it has not discovered itself, this one may have.
        content = new.content.discovering([*old.content.discovery, *new.content.discovery])
        _raise(name_problems(content))
        retired = old.retired.adding(old.content, successor=content)
        self._now = _InForce(old.version + 1, new.parts, content, retired)
        return old.version + 1

    async def initialize(self) -> int:
        """Discover the agents of all sources, unless they are known already. A worker does it when it starts.

        Returns:
            The version, which is a new one if the agents have changed.

        Raises:
            DiscoveryFailed: a source cannot be read, or its agent card cannot be used.
            ConfigurationError: an agent names another one that no source has, or an extra is not installed.
        """
        return await self.refresh() if self.undiscovered else self._now.version

    async def refresh(self) -> int:
        """Discover the agents of all sources again. If one fails, all agents that were discovered stay in force.

        Returns:
            The version, which is a new one if the agents have changed.

        Raises:
            DiscoveryFailed: a source cannot be read, or its agent card cannot be used.
            ConfigurationError: an agent names another one that no source has, or an extra is not installed.
        """
        from wakeful.registry.discovery import discover  # it needs an HTTP client, which most registries do not

        discovery = await discover(self.sources)
        if discovery.failures:
            raise DiscoveryFailed(discovery.failures)
        return self.adopt(discovery.found)

    def adopt(self, discovery: Sequence[DiscoveredSource]) -> int:
        """Put the agents that were discovered in force, instead of all others that were.

        Raises:
            ConfigurationError: an agent names another one that no source has; the old ones stay in force.
        """
        old = self._now
        content = old.content.discovering(discovery)
        if content.discovery == old.content.discovery:
            return old.version
        _raise(name_problems(content))
        # Runs are bound to the endpoints of these agents, so none of the old ones has to be kept.
        self._now = replace(old, version=old.version + 1, content=content)
        return old.version + 1

    def resolve(self, agent_id: str, *, in_task: bool = False) -> ResolvedAgent:
        """The agent as a run is bound to it.

        Args:
            agent_id: `agent`, which searches the local ones first, `local/agent` or `source/agent`.
            in_task: the run is, or belongs to, a background task, which it may cancel.

        Raises:
            ConfigurationError: there is no such agent.
        """
        now = self._now
        agent = now.content.find(agent_id)
        if agent is None:
            known = registered(agent_id, [*now.content.agents, *now.content.discovered])
            missing = ", ".join(map(repr, now.content.undiscovered))
            hint = f"; sources that are not discovered yet: {missing}" if missing else ""
            raise ConfigurationError([f"agent not found: {agent_id!r}; {known}{hint}"])
        plugins = now.content.plugins_of(agent)
        return ResolvedAgent(
            agent_id=agent.id,
            instructions=agent.written_instructions,
            model=now.content.model_of(agent),
            tools=now.content.descriptors(agent, in_task=in_task),
            max_rounds=agent.round_limit,
            max_parallel_calls=agent.max_parallel_calls,
            tool_mode=agent.tool_mode,
            context=agent.context,
            context_messages=tuple(agent.context_messages),
            inference_timeout_seconds=agent.inference_timeout,
            inference_heartbeat_seconds=agent.inference_heartbeat_timeout,
            registry_version=now.version,
            settings=agent.settings if agent.settings != ModelSettings() else None,
            retry=agent.retry if agent.retry != RetryPolicy() else None,
            fallbacks=tuple(now.content.binding(model) for model in agent.fallbacks),
            summary_model=now.content.summary_binding(agent),
            output=output_spec(agent),
            max_continuations=agent.max_continuations,
            permissions=agent.permissions,
            gates=agent.gate_names,
            budget=agent.budget if agent.budget != Budget() else None,
            max_depth=agent.max_depth,
            delegate_timeout_seconds=agent.delegate_timeout,
            expire_after_seconds=agent.expire_after,
            priority=agent.priority,
            plugins=bindings(now.content.active_plugins_of(agent), agent.plugin_settings),
            state_keys=state_specs(agent.state, plugins),
            stop_conditions=tuple(agent.stop_conditions),
            replaceable_tools=tuple(agent.replaceable_tools),
            endpoint=agent.endpoint,
        )

    def idle_rules(self, agent: ResolvedAgent) -> tuple[str, ...]:
        """The agent's permission rules that match no tool of it, with those of MCP servers, or of its sub-agents."""
        content = self._now.content
        written = content.find(agent.agent_id)
        return () if written is None else idle_rules(written, agent.tools, content)

    def instructions(self, agent_id: str) -> InstructionsFunction | None:
        """The function that writes the agent's instructions, if they are dynamic."""
        agent = self._now.content.find(agent_id)
        return None if agent is None or isinstance(agent.instructions, str) else agent.instructions

    def asked_types(self) -> Iterator[tuple[str, object]]:
        """What takes the value of the lifespan, and of which type: `("tool 'refund'", Database)`."""
        return self._now.content.asked_types()

    def provider_factories(self) -> Iterator[tuple[str, ProviderFactory]]:
        """What makes a provider from the value of the lifespan, with the name of its model or provider."""
        return self._now.content.provider_factories()

    def tool(self, name: str) -> Tool | None:
        """The tool with this name, from the current version or else from an older one."""
        now = self._now
        return now.content.tools.get(name) or now.retired.tools.get(name)

    def gate(self, name: str) -> Gate | None:
        """The gate with this name, from the current version or else from an older one."""
        now = self._now
        return now.content.gates.get(name) or now.retired.gates.get(name)

    def plugin(self, id: str) -> AnyPlugin | None:
        """The plugin with this id, from the current version or else from an older one."""
        now = self._now
        return now.content.plugins.get(id) or now.retired.plugins.get(id)

    def mcp_server(self, name: str) -> McpServer | None:
        """The MCP server with this name, from the current version or else from an older one."""
        now = self._now
        return now.content.mcp_servers.get(name) or now.retired.mcp_servers.get(name)

    def mcp_servers_of(self, agent_id: str) -> tuple[McpServer, ...]:
        """The MCP servers whose tools a new run of the agent has."""
        now = self._now
        agent = now.content.agents.get(agent_id)
        return () if agent is None else now.content.mcp_servers_of(agent)

    def allows_tool(self, agent_id: str, tool: str) -> bool:
        """Whether `allowed_tools` and `excluded_tools` of the agent allow a tool."""
        agent = self._now.content.agents.get(agent_id)
        return agent is not None and has_tool(agent, tool)

    def binding(self, model_id: str) -> ModelBinding:
        """The provider and the name of a model of `models`."""
        return self._now.content.binding(model_id)

    def provider(self, binding: ModelBinding) -> AnyProvider | ProviderFactory | None:
        """The provider that a run's model is bound to, or what makes it; None if it is built in or was removed."""
        now = self._now
        return now.content.provider(binding) or now.retired.provider(binding)

    def price(self, binding: ModelBinding) -> Price | None:
        """The model's own price, or else that of the id that it is used under.

        A run can override its model with another one of the same provider. If that were free, no budget would limit it.
        """
        content, retired = self._now.content, self._now.retired
        own = content.price(binding) or retired.price(binding)
        return own or content.prices.get(binding.id) or retired.price_of_id(binding.id)

    def unpriced(self, agent: ResolvedAgent) -> tuple[str, ...]:
        """The models without a price that a run of the agent may call; what another service charges is not known."""
        if agent.endpoint is not None:
            return ()
        models = [agent.model, *agent.fallbacks, *([agent.summary_model] if agent.summary_model else [])]
        return tuple(dict.fromkeys(model.id for model in models if self.price(model) is None))

    def output_check(self, resolved: ResolvedAgent) -> Callable[[JsonValue], str | None] | None:
        """A check of answers against the agent's output type, beyond its JSON schema, if it still has that type."""
        now = self._now
        for agents in (now.content.agents, now.retired.agents):
            agent = agents.get(resolved.agent_id)
            if agent is not None and agent.output is not None and output_spec(agent) == resolved.output:
                return None if isinstance(agent.output, dict) else partial(_type_problem, agent.output)
        return None


def check_registry(given: object, taker: str) -> None:
    """Raise a `ConfigurationError` if this is no registry; `taker` is what takes it."""
    if isinstance(given, Registry):
        return
    found = getattr(given, "__name__", "") if inspect.isroutine(given) else shown(given)
    remedy = ": write Registry(agents=[…])" if isinstance(given, Agent) else ""
    raise ConfigurationError([f"{taker} takes a wakeful.Registry, and was given {found}{remedy}"])


def default_model(*, offline: AnyProvider | None = None, environ: Mapping[str, str] | None = None) -> str | AnyProvider:
    """The model for which the environment has a key, or `offline`. `OPENAI_MODEL` and `ANTHROPIC_MODEL` choose it."""
    environ = os.environ if environ is None else environ
    if environ.get("OPENAI_API_KEY") or environ.get("OPENAI_BASE_URL"):
        return f"openai/{environ.get('OPENAI_MODEL') or DEFAULT_OPENAI_MODEL}"
    if environ.get("ANTHROPIC_API_KEY"):
        return f"anthropic/{environ.get('ANTHROPIC_MODEL') or DEFAULT_ANTHROPIC_MODEL}"
    return offline or ScriptedModel([say(_OFFLINE)], strict=False)


_OFFLINE = (
    "I am a scripted offline model and can only repeat what you said: {input}\n"
    "To talk to a real model, set OPENAI_API_KEY or ANTHROPIC_API_KEY (or OPENAI_BASE_URL for a local server) and "
    "restart the worker."
)


def _raise(problems: Sequence[Problem]) -> None:
    if problems:
        raise ConfigurationError([str(problem) for problem in sorted_problems(problems)])


def _type_problem(type: Any, value: JsonValue) -> str | None:
    try:
        TypeAdapter(type).validate_json(to_json(value))
    except ValidationError as error:
        return validation_problems(error)[0]
    return None
