"""The one place a worker learns agents, tools, gates, models and providers. All that is wrong is said at once."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import to_json

from wakeful.agent import Agent
from wakeful.contract.agents import ModelBinding, ResolvedAgent, RetryPolicy
from wakeful.contract.budgets import Budget, Price
from wakeful.contract.errors import ConfigurationError
from wakeful.contract.inference import ModelSettings, OutputSpec
from wakeful.contract.names import RESERVED_TOOL_NAMES
from wakeful.contract.tools import ToolDescriptor
from wakeful.gate import Gate
from wakeful.permissions.rules import rule_problems
from wakeful.provider import AnyProvider
from wakeful.runtime_tools import family_problems, runtime_tools
from wakeful.scripted import ScriptedModel, say
from wakeful.tool import Tool

OPENAI = "openai"
OPENAI_RESPONSES = "openai-responses"
ANTHROPIC = "anthropic"
BUILT_IN_PROVIDERS = frozenset({OPENAI, OPENAI_RESPONSES, ANTHROPIC})
DEFAULT_OPENAI_MODEL = "gpt-5-mini"
DEFAULT_ANTHROPIC_MODEL = "claude-sonnet-4-5"

ModelSource = str | AnyProvider
"""`"provider/name"` for a registered or built-in provider, or a provider that is used for this model alone."""


class Registry:
    """Agents, tools, gates, models and providers, checked against each other.

    Tools and gates that agents bring along need not be listed again. A model called `default` is there without being
    named: an OpenAI-compatible one when `OPENAI_API_KEY` or `OPENAI_BASE_URL` is set, Anthropic's when
    `ANTHROPIC_API_KEY` is, else a scripted one that says so.

    Args:
        prices: what models cost, by their id in `models`; a budget's `cost` counts only what has a price.

    Raises:
        ConfigurationError: names that are unknown, reserved or taken twice, and rules that cannot be read, all of them
            listed.
    """

    def __init__(
        self,
        *,
        agents: Sequence[Agent],
        tools: Sequence[Tool] = (),
        models: Mapping[str, ModelSource] | None = None,
        providers: Mapping[str, AnyProvider] | None = None,
        gates: Sequence[Gate] = (),
        prices: Mapping[str, Price] | None = None,
    ) -> None:
        self.version = 1
        self.agents: dict[str, Agent] = {}
        self.tools: dict[str, Tool] = {}
        self.gates: dict[str, Gate] = {}
        self.models: dict[str, ModelSource] = {"default": default_model(), **(models or {})}
        self.providers: dict[str, AnyProvider] = dict(providers or {})
        self.prices: dict[str, Price] = dict(prices or {})
        problems = [
            *self._add_agents(agents),
            *self._add_tools([*tools, *(t for agent in agents for t in agent.tools if isinstance(t, Tool))]),
            *self._add_gates([*gates, *(g for agent in agents for g in agent.gates if isinstance(g, Gate))]),
            *self._check_agents(),
            *self._check_models(),
        ]
        if problems:
            raise ConfigurationError(problems)

    def resolve(self, agent_id: str, *, in_task: bool = False) -> ResolvedAgent:
        """The agent as a run will see it.

        Args:
            in_task: the run is, or is a part of, a background task, and may cancel it.

        Raises:
            ConfigurationError: there is no such agent.
        """
        agent = self.agents.get(agent_id)
        if agent is None:
            raise ConfigurationError([f"agent not found: {agent_id!r}; registered: {_names(self.agents)}"])
        return ResolvedAgent(
            agent_id=agent.id,
            instructions=agent.instructions,
            model=self._binding(agent.model),
            tools=self._descriptors(agent, in_task=in_task),
            max_rounds=agent.max_rounds,
            tool_mode=agent.tool_mode,
            context=agent.context,
            context_messages=tuple(agent.context_messages),
            inference_timeout_seconds=agent.inference_timeout,
            inference_heartbeat_seconds=agent.inference_heartbeat_timeout,
            registry_version=self.version,
            settings=agent.settings if agent.settings != ModelSettings() else None,
            retry=agent.retry if agent.retry != RetryPolicy() else None,
            fallbacks=tuple(self._binding(model) for model in agent.fallbacks),
            output=_output_spec(agent),
            max_continuations=agent.max_continuations,
            permissions=agent.permissions,
            gates=agent.gate_names,
            budget=agent.budget if agent.budget != Budget() else None,
            max_depth=agent.max_depth,
            delegate_timeout_seconds=agent.delegate_timeout,
        )

    def _descriptors(self, agent: Agent, *, in_task: bool) -> tuple[ToolDescriptor, ...]:
        """By id, the agent's tools and the runtime's own; a tool of the agent's takes the place of one of those."""
        own = {name: self.tools[name].descriptor for name in agent.tool_names}
        instructions = {id: other.instructions for id, other in self.agents.items()}
        has_background = any(descriptor.background for descriptor in own.values())
        given = runtime_tools(agent, instructions, has_background=has_background, in_task=in_task)
        tools = {**{descriptor.id: descriptor for descriptor in given}, **own}
        return tuple(tools[id] for id in sorted(tools))

    def price(self, binding: ModelBinding) -> Price | None:
        """What the model costs, by its own price, or else by that of the id it is asked under.

        A run may ask for another model of the same provider; if that one cost nothing, no budget of money would hold.
        """
        bound = {id: self._binding(id) for id in (binding.id, *sorted(self.prices)) if id in self.prices}
        for id, known in bound.items():
            if (known.provider, known.name) == (binding.provider, binding.name):
                return self.prices[id]
        return self.prices.get(binding.id)

    def output_check(self, resolved: ResolvedAgent) -> Callable[[JsonValue], str | None] | None:
        """What the agent's own output type says of a value beyond its JSON schema, if it still has that type."""
        agent = self.agents.get(resolved.agent_id)
        if agent is None or agent.output is None or isinstance(agent.output, dict):
            return None
        if _output_spec(agent) != resolved.output:
            return None
        return partial(_type_problem, agent.output)

    def _binding(self, model_id: str) -> ModelBinding:
        source = self.models[model_id]
        if isinstance(source, str):
            provider, _, name = source.partition("/")
            return ModelBinding(id=model_id, provider=provider, name=name)
        return ModelBinding(id=model_id, provider=model_id, name=model_id)

    def provider(self, binding: ModelBinding) -> AnyProvider | None:
        """The provider a run's model is bound to, or nothing if it is a built-in one or is gone."""
        source = self.models.get(binding.id)
        if binding.provider == binding.id and source is not None and not isinstance(source, str):
            return source
        return self.providers.get(binding.provider)

    def _add_agents(self, agents: Sequence[Agent]) -> list[str]:
        problems = []
        for agent in agents:
            if agent.id in self.agents:
                problems.append(f"agent {agent.id!r} is registered twice")
            self.agents[agent.id] = agent
        return problems

    def _add_tools(self, tools: Sequence[Tool]) -> list[str]:
        problems = []
        for tool in tools:
            known = self.tools.setdefault(tool.name, tool)
            if known is not tool:
                problems.append(f"tool {tool.name!r} is registered twice, as two different functions")
            if tool.name in RESERVED_TOOL_NAMES:
                reserved = ", ".join(sorted(RESERVED_TOOL_NAMES))
                problems.append(f"tool {tool.name!r} takes a reserved name; rename it (reserved: {reserved})")
        return problems

    def _add_gates(self, gates: Sequence[Gate]) -> list[str]:
        return [
            f"gate {gate.name!r} is registered twice, as two different functions"
            for gate in gates
            if self.gates.setdefault(gate.name, gate) is not gate
        ]

    def _check_agents(self) -> list[str]:
        problems = []
        for agent in self.agents.values():
            for name in agent.tool_names:
                if name not in self.tools:
                    problems.append(f"agent {agent.id!r} names unknown tool {name!r}; registered: {_names(self.tools)}")
            if repeated := _twice(agent.tool_names):
                problems.append(f"agent {agent.id!r} lists tools twice: {', '.join(repeated)}")
            problems += [
                f"agent {agent.id!r} names unknown model {model!r}; {_hint(model)}registered: {_names(self.models)}"
                for model in (agent.model, *agent.fallbacks)
                if model not in self.models
            ]
            problems += [
                f"agent {agent.id!r} names unknown gate {name!r}; registered: {_names(self.gates)}"
                for name in agent.gate_names
                if name not in self.gates
            ]
            if repeated := _twice(agent.gate_names):
                problems.append(f"agent {agent.id!r} lists gates twice: {', '.join(repeated)}")
            problems += family_problems(agent, self.agents)
            problems += _permission_problems(agent)
            problems += _output_problems(agent)
        return problems

    def _check_models(self) -> list[str]:
        problems = []
        known = {*self.providers, *BUILT_IN_PROVIDERS}
        for id, source in self.models.items():
            if not isinstance(source, str):
                continue
            provider, slash, name = source.partition("/")
            if not (provider and slash and name):
                problems.append(f"model {id!r} is {source!r}; write it as 'provider/name'")
            elif provider not in known:
                problems.append(f"model {id!r} names unknown provider {provider!r}; known: {', '.join(sorted(known))}")
        problems += [
            f"a price is given for unknown model {id!r}; registered: {_names(self.models)}"
            for id in self.prices
            if id not in self.models
        ]
        return problems


def default_model(*, offline: AnyProvider | None = None, environ: Mapping[str, str] | None = None) -> ModelSource:
    """The model that the environment has a key for (named by `OPENAI_MODEL` or `ANTHROPIC_MODEL`), or `offline`."""
    environ = os.environ if environ is None else environ
    if environ.get("OPENAI_API_KEY") or environ.get("OPENAI_BASE_URL"):
        return f"{OPENAI}/{environ.get('OPENAI_MODEL') or DEFAULT_OPENAI_MODEL}"
    if environ.get("ANTHROPIC_API_KEY"):
        return f"{ANTHROPIC}/{environ.get('ANTHROPIC_MODEL') or DEFAULT_ANTHROPIC_MODEL}"
    return offline or ScriptedModel([say(_OFFLINE)])


_OFFLINE = (
    "I am the scripted offline model and only repeat what you said: {input}\n"
    "Set OPENAI_API_KEY or ANTHROPIC_API_KEY (or OPENAI_BASE_URL for a local server) and restart the worker to talk "
    "to a real one."
)


def _permission_problems(agent: Agent) -> list[str]:
    rules = agent.permissions.rules if agent.permissions else ()
    return [
        *(f"agent {agent.id!r}: {problem}" for problem in rule_problems(rules)),
        *(f"agent {agent.id!r} has two permission rules for {t!r}" for t in _twice([rule.tool for rule in rules])),
    ]


def _hint(model: str) -> str:
    return f"register it as models={{'main': {model!r}}}; " if "/" in model else ""


def _output_spec(agent: Agent) -> OutputSpec | None:
    if agent.output is None:
        return None
    schema = agent.output if isinstance(agent.output, dict) else TypeAdapter(agent.output).json_schema()
    name = schema.get("title") or "answer"
    return OutputSpec(
        name=re.sub(r"[^A-Za-z0-9_-]+", "_", str(name))[:64], json_schema=schema, max_repairs=agent.output_repairs
    )


def _output_problems(agent: Agent) -> list[str]:
    try:
        spec = _output_spec(agent)
        if spec is not None:
            Draft202012Validator.check_schema(spec.json_schema)
    except (PydanticUserError, SchemaError) as error:
        return [f"agent {agent.id!r}: its output type has no JSON schema that can be checked: {error}"]
    return []


def _type_problem(type: Any, value: JsonValue) -> str | None:
    try:
        TypeAdapter(type).validate_json(to_json(value))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        return f"at {'.'.join(map(str, first['loc'])) or 'the top'}: {first['msg']}"
    return None


def _twice(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _names(known: Mapping[str, object]) -> str:
    return ", ".join(sorted(known)) or "none"
