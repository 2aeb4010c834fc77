"""The one place a worker learns agents, tools, gates, plugins, models and providers. All that is wrong is said at once.

A registry can be replaced while runs are asleep: whoever holds it sees the newest content, and a run keeps the agent it
was bound to when it began.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic_core import to_json

from wakeful.authoring.agent import Agent
from wakeful.authoring.gate import Gate
from wakeful.authoring.plugin import AnyPlugin, bindings, state_specs
from wakeful.authoring.profiles import ProfileKey
from wakeful.authoring.provider import AnyProvider
from wakeful.authoring.scripted import ScriptedModel, say
from wakeful.authoring.tool import Tool
from wakeful.contract.agents import ModelBinding, ResolvedAgent, RetryPolicy
from wakeful.contract.budgets import Budget, Price
from wakeful.contract.errors import ConfigurationError
from wakeful.contract.inference import ModelSettings
from wakeful.registry.checks import gather, in_order
from wakeful.registry.content import ModelSource, Parts, Registered, Retired, output_spec

DEFAULT_OPENAI_MODEL = "gpt-5-mini"
DEFAULT_ANTHROPIC_MODEL = "claude-sonnet-4-5"


@dataclass(frozen=True)
class RegistrySnapshot:
    """What a registry has in force at one moment, by id."""

    version: int
    agents: tuple[str, ...]
    tools: tuple[str, ...]
    gates: tuple[str, ...]
    plugins: tuple[str, ...]
    models: tuple[str, ...]
    providers: tuple[str, ...]


@dataclass(frozen=True)
class _InForce:
    """Everything that a replacement changes: one value, so that nobody ever sees half of one."""

    version: int
    parts: Parts
    content: Registered
    retired: Retired


class Registry:
    """Agents, tools, gates, plugins, models and providers, checked against each other.

    Tools, gates and plugins that agents bring along need not be listed again. A model called `default` is there without
    being named: an OpenAI-compatible one when `OPENAI_API_KEY` or `OPENAI_BASE_URL` is set, Anthropic's when
    `ANTHROPIC_API_KEY` is, else a scripted one that says so.

    Args:
        agent_files: TOML and YAML files, or directories of them, with more agents.
        prices: what models cost, by their id in `models`; a budget's `cost` counts only what has a price.
        profile_keys: what tools and hooks read and write with `ctx.profiles`.

    Raises:
        ConfigurationError: names that are unknown, reserved or taken twice, files, rules and settings that cannot be
            read, all of them listed, with file and line where there is one.
    """

    def __init__(
        self,
        *,
        agents: Sequence[Agent] = (),
        agent_files: Sequence[Path | str] = (),
        tools: Sequence[Tool] = (),
        models: Mapping[str, ModelSource] | None = None,
        providers: Mapping[str, AnyProvider] | None = None,
        gates: Sequence[Gate] = (),
        plugins: Sequence[AnyPlugin] = (),
        prices: Mapping[str, Price] | None = None,
        profile_keys: Sequence[ProfileKey[Any]] = (),
    ) -> None:
        parts = Parts(
            agents=tuple(agents),
            agent_files=tuple(agent_files),
            tools=tuple(tools),
            gates=tuple(gates),
            plugins=tuple(plugins),
            models={"default": default_model(), **(models or {})},
            providers=dict(providers or {}),
            prices=dict(prices or {}),
            profile_keys=tuple(profile_keys),
        )
        content, faults = gather(parts)
        if faults:
            raise ConfigurationError([str(fault) for fault in in_order(faults)])
        self._now = _InForce(1, parts, content, Retired())

    @property
    def version(self) -> int:
        """1 at first, and one more with every replacement; a worker that starts again begins at 1 again."""
        return self._now.version

    @property
    def agents(self) -> Mapping[str, Agent]:
        return self._now.content.agents

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._now.content.tools

    @property
    def gates(self) -> Mapping[str, Gate]:
        return self._now.content.gates

    @property
    def plugins(self) -> Mapping[str, AnyPlugin]:
        return self._now.content.plugins

    @property
    def models(self) -> Mapping[str, ModelSource]:
        return self._now.content.models

    @property
    def providers(self) -> Mapping[str, AnyProvider]:
        return self._now.content.providers

    @property
    def profile_keys(self) -> tuple[ProfileKey[Any], ...]:
        """By name; also those that only older versions had, for the runs that are bound to these."""
        keys = {**self._now.retired.profile_keys, **self._now.content.profile_keys}
        return tuple(keys[name] for name in sorted(keys))

    @property
    def agent_files(self) -> tuple[Path, ...]:
        """The files and directories that agents are read from."""
        return tuple(Path(path) for path in self._now.parts["agent_files"])

    @property
    def sources(self) -> tuple[Path, ...]:
        """Every file that was read for the version in force."""
        return self._now.content.sources

    def snapshot(self) -> RegistrySnapshot:
        now = self._now
        return RegistrySnapshot(
            version=now.version,
            agents=tuple(sorted(now.content.agents)),
            tools=tuple(sorted(now.content.tools)),
            gates=tuple(sorted(now.content.gates)),
            plugins=tuple(sorted(now.content.plugins)),
            models=tuple(sorted(now.content.models)),
            providers=tuple(sorted(now.content.providers)),
        )

    def copy(self, **parts: Unpack[Parts]) -> "Registry":
        """A registry of these parts, and of this one's where none is given; agent files are read again.

        Raises:
            ConfigurationError: the parts do not fit together.
        """
        together: Parts = {**self._now.parts, **parts}
        return Registry(**together)

    def replace(self, other: "Registry | None" = None, **parts: Unpack[Parts]) -> int:
        """Put another content in force, at once and as a whole: for runs that begin from now on.

        A run in flight keeps its agent. The tools, gates, plugins and providers it is bound to are looked up here by
        name; those that the new content lacks stay within its reach.

        Args:
            other: what to take over; without it, this registry with `parts` in place of its own, and its agent files
                read again.

        Returns:
            The new version.

        Raises:
            ConfigurationError: the parts do not fit together; what was in force stays in force.
        """
        fresh = other.copy(**parts) if other is not None and parts else other or self.copy(**parts)
        old, new = self._now, fresh._now
        retired = old.retired.joined_by(old.content, successor=new.content)
        self._now = _InForce(old.version + 1, new.parts, new.content, retired)
        return old.version + 1

    def resolve(self, agent_id: str, *, in_task: bool = False) -> ResolvedAgent:
        """The agent as a run will see it.

        Args:
            in_task: the run is, or is a part of, a background task, and may cancel it.

        Raises:
            ConfigurationError: there is no such agent.
        """
        now = self._now
        agent = now.content.agents.get(agent_id)
        if agent is None:
            registered = ", ".join(sorted(now.content.agents)) or "none"
            raise ConfigurationError([f"agent not found: {agent_id!r}; registered: {registered}"])
        plugins = now.content.plugins_of(agent)
        return ResolvedAgent(
            agent_id=agent.id,
            instructions=agent.instructions,
            model=now.content.binding(agent.model),
            tools=now.content.descriptors(agent, in_task=in_task),
            max_rounds=agent.max_rounds,
            tool_mode=agent.tool_mode,
            context=agent.context,
            context_messages=tuple(agent.context_messages),
            inference_timeout_seconds=agent.inference_timeout,
            inference_heartbeat_seconds=agent.inference_heartbeat_timeout,
            registry_version=now.version,
            settings=agent.settings if agent.settings != ModelSettings() else None,
            retry=agent.retry if agent.retry != RetryPolicy() else None,
            fallbacks=tuple(now.content.binding(model) for model in agent.fallbacks),
            output=output_spec(agent),
            max_continuations=agent.max_continuations,
            permissions=agent.permissions,
            gates=agent.gate_names,
            budget=agent.budget if agent.budget != Budget() else None,
            max_depth=agent.max_depth,
            delegate_timeout_seconds=agent.delegate_timeout,
            plugins=bindings(plugins, agent.plugin_settings),
            state_keys=state_specs(agent.state, plugins),
            stop_conditions=tuple(agent.stop_conditions),
        )

    def tool(self, name: str) -> Tool | None:
        """The tool of this name, also for a run that is bound to an older version which had it."""
        now = self._now
        return now.content.tools.get(name) or now.retired.tools.get(name)

    def gate(self, name: str) -> Gate | None:
        """The gate of this name, of this version or else of an older one."""
        now = self._now
        return now.content.gates.get(name) or now.retired.gates.get(name)

    def plugin(self, id: str) -> AnyPlugin | None:
        """The plugin of this id, of this version or else of an older one."""
        now = self._now
        return now.content.plugins.get(id) or now.retired.plugins.get(id)

    def provider(self, binding: ModelBinding) -> AnyProvider | None:
        """The provider a run's model is bound to, or nothing if it is a built-in one or is gone."""
        now = self._now
        return now.content.provider(binding) or now.retired.provider(binding)

    def price(self, binding: ModelBinding) -> Price | None:
        """What the model costs, by its own price, or else by that of the id it is asked under.

        A run may ask for another model of the same provider; if that one cost nothing, no budget of money would hold.
        """
        content, retired = self._now.content, self._now.retired
        own = content.price(binding) or retired.price(binding)
        return own or content.prices.get(binding.id) or retired.price_of_id(binding.id)

    def output_check(self, resolved: ResolvedAgent) -> Callable[[JsonValue], str | None] | None:
        """What the agent's own output type says of a value beyond its JSON schema, if it still has that type."""
        now = self._now
        for agents in (now.content.agents, now.retired.agents):
            agent = agents.get(resolved.agent_id)
            if agent is not None and agent.output is not None and output_spec(agent) == resolved.output:
                return None if isinstance(agent.output, dict) else partial(_type_problem, agent.output)
        return None


def default_model(*, offline: AnyProvider | None = None, environ: Mapping[str, str] | None = None) -> ModelSource:
    """The model that the environment has a key for (named by `OPENAI_MODEL` or `ANTHROPIC_MODEL`), or `offline`."""
    environ = os.environ if environ is None else environ
    if environ.get("OPENAI_API_KEY") or environ.get("OPENAI_BASE_URL"):
        return f"openai/{environ.get('OPENAI_MODEL') or DEFAULT_OPENAI_MODEL}"
    if environ.get("ANTHROPIC_API_KEY"):
        return f"anthropic/{environ.get('ANTHROPIC_MODEL') or DEFAULT_ANTHROPIC_MODEL}"
    return offline or ScriptedModel([say(_OFFLINE)])


_OFFLINE = (
    "I am the scripted offline model and only repeat what you said: {input}\n"
    "Set OPENAI_API_KEY or ANTHROPIC_API_KEY (or OPENAI_BASE_URL for a local server) and restart the worker to talk "
    "to a real one."
)


def _type_problem(type: Any, value: JsonValue) -> str | None:
    try:
        TypeAdapter(type).validate_json(to_json(value))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        return f"at {'.'.join(map(str, first['loc'])) or 'the top'}: {first['msg']}"
    return None
