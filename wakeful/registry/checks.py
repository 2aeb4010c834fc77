"""Check that the parts of a registry go together. All problems are listed at once, with their locations."""

import glob
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from operator import itemgetter
from typing import Any, TypeVar

from pydantic import JsonValue
from pydantic.errors import PydanticUserError

from wakeful.authoring.a2a_source import A2aSource
from wakeful.authoring.agent import Agent
from wakeful.authoring.gate import Gate
from wakeful.authoring.json_schemas import schema_problem
from wakeful.authoring.lifespan import Lifespan, type_name
from wakeful.authoring.mcp_server import McpServer
from wakeful.authoring.plugin import AnyPlugin, Plugin, tools_of
from wakeful.authoring.profiles import ProfileKey
from wakeful.authoring.tool import Tool
from wakeful.contract.ids import mcp_tools_prefix
from wakeful.contract.names import LOCAL_SOURCE, RESERVED_TOOL_NAMES
from wakeful.contract.schema_patterns import unusable_patterns
from wakeful.contract.state import StateScope
from wakeful.contract.stopping import MaxRounds
from wakeful.contract.suggestions import registered
from wakeful.loop.step.stopping import stop_problems
from wakeful.registry.agent_files import location_of, read_agents
from wakeful.registry.content import (
    BUILT_IN_PROVIDERS,
    DiscoveredSource,
    RegistryContent,
    RegistryParts,
    matches,
    output_spec,
)
from wakeful.registry.located_files import Problem, SourceLocation
from wakeful.registry.permission_checks import permission_problems
from wakeful.registry.plugin_bindings import declared_keys, plugin_problems, usage_problems
from wakeful.registry.price_checks import price_problems
from wakeful.registry.remote_agents import remote_problems
from wakeful.registry.runtime_tools import subagent_problems

SUBAGENT_FIELDS = ("delegates", "spawns", "handoffs")
"""The fields of an agent that name other agents."""

T = TypeVar("T")


def collect(parts: RegistryParts, discovery: Sequence[DiscoveredSource] = ()) -> tuple[RegistryContent, list[Problem]]:
    """The registry's content from its parts, by name, and all problems with it.

    Args:
        discovery: what is known of the sources; of the others, agents may be named that are not known yet.
    """
    files = read_agents(parts.get("agent_files", ()))
    agents = [*parts.get("agents", ()), *files.agents]
    sources = [*((source, None) for source in parts.get("sources", ())), *files.sources]
    plugins = [
        *(("Registry(plugins=[…])", plugin) for plugin in parts.get("plugins", ())),
        *((f"agent {agent.id!r}", p) for agent in agents for p in agent.plugins if isinstance(p, Plugin)),
    ]
    plugins_by_id = _first_by_name((plugin.id, plugin) for _, plugin in plugins)
    tools = [
        *parts.get("tools", ()),
        *(tool for agent in agents for tool in agent.tools if isinstance(tool, Tool)),
        *tools_of(plugins_by_id.values()),
    ]
    gates = [*parts.get("gates", ()), *(g for agent in agents for g in agent.gates if isinstance(g, Gate))]
    servers = [
        *parts.get("mcp_servers", ()),
        *files.mcp_servers,
        *(server for agent in agents for server in agent.mcp if isinstance(server, McpServer)),
    ]
    content = RegistryContent(
        agents={agent.id: agent for agent in agents},
        tools=_first_by_name((tool.name, tool) for tool in tools),
        gates=_first_by_name((gate.name, gate) for gate in gates),
        plugins=plugins_by_id,
        mcp_servers=_first_by_name((server.name, server) for server in servers),
        models=dict(parts.get("models", {})),
        providers=dict(parts.get("providers", {})),
        prices=dict(parts.get("prices", {})),
        inference_queues=dict(parts.get("inference_queues", {})),
        profile_keys=_first_by_name((key.key, key) for key in parts.get("profile_keys", ())),
        files_read=files.files_read,
        sources=tuple(_first_by_name((source.name, source) for source, _ in sources).values()),
    ).discovering(discovery)
    problems = [
        *files.problems,
        *_agent_problems(agents),
        *_source_problems(sources, agents),
        *_tool_problems(tools, content.tools),
        *_gate_problems(gates, content.gates),
        *_plugin_problems(plugins, content.plugins),
        *_mcp_problems(servers, content),
        *_usage_problems(agents, content, all_are_known=files.is_complete),
        *_scope_problems(agents, content),
        *_model_problems(content),
        *_profile_problems(parts.get("profile_keys", ()), content.profile_keys),
        *_lifespan_problems(parts.get("lifespan"), content),
    ]
    return content, problems


def name_problems(content: RegistryContent) -> list[Problem]:
    """Agents that other agents name, and that no source has: to check again what a discovery has found."""
    return [problem for agent in content.agents.values() for problem in _subagent_problems(agent, content)]


def sorted_problems(problems: Sequence[Problem]) -> list[Problem]:
    """In files first, file by file from top to bottom, then in code."""
    in_files = [(problem.location, problem) for problem in problems if problem.location is not None]
    in_code = [problem for problem in problems if problem.location is None]
    return [*(problem for _, problem in sorted(in_files, key=itemgetter(0))), *in_code]


def _first_by_name(named: Iterable[tuple[str, T]]) -> dict[str, T]:
    first: dict[str, T] = {}
    for name, thing in named:
        first.setdefault(name, thing)
    return first


def _agent_problems(agents: Sequence[Agent]) -> Iterator[Problem]:
    first: dict[str, Agent] = {}
    for agent in agents:
        if agent.id in first:
            here, there = location_of(agent, "id"), location_of(first[agent.id], "id")
            also = f": here and {f'at {there}' if there else 'in code'}" if here else ""
            yield Problem(f"agent {agent.id!r} is registered twice{also}", here)
        first.setdefault(agent.id, agent)


def _source_problems(
    sources: Sequence[tuple[A2aSource, SourceLocation | None]], agents: Sequence[Agent]
) -> Iterator[Problem]:
    names: dict[str, SourceLocation | None] = {}
    for source, location in sources:
        if source.name in names:
            there = names[source.name]
            also = f": here and {f'at {there}' if there else 'in code'}" if location else ""
            yield Problem(f"source {source.name!r} is registered twice{also}", location)
        names.setdefault(source.name, location)
    for agent in agents:
        name, slash, _ = agent.id.partition("/")
        if slash and name in (LOCAL_SOURCE, *names):
            message = f"agent {agent.id!r} has an id like those of the agents of source {name!r}: rename it"
            yield Problem(message, location_of(agent, "id"))


def _tool_problems(tools: Sequence[Tool], known: Mapping[str, Tool]) -> Iterator[Problem]:
    for tool in tools:
        if known[tool.name] != tool:  # not identity: a method is bound anew whenever it is read from its instance
            yield Problem(f"tool {tool.name!r} is registered twice, as two different functions")
        if tool.problem is not None:
            yield Problem(tool.problem)
        yield from _pattern_problems(tool)
        if tool.name in RESERVED_TOOL_NAMES:
            reserved = ", ".join(sorted(RESERVED_TOOL_NAMES))
            yield Problem(f"tool {tool.name!r} has a reserved name; rename it (reserved: {reserved})")


def _pattern_problems(tool: Tool) -> Iterator[Problem]:
    parameters, named = tool.descriptor.parameters, tool.descriptor.parameters.get("properties")
    schemas = [(f"parameter {name!r}", below) for name, below in named.items()] if isinstance(named, dict) else []
    others: JsonValue = {name: below for name, below in parameters.items() if name != "properties"}
    for where, schema in (*schemas, ("a type of its parameters", others)):
        for problem in unusable_patterns(schema):
            yield Problem(
                f"tool {tool.name!r}: {where} has a pattern that is not supported: {problem}; write it without "
                "look-around and backreferences, or check the value in the tool"
            )


def _gate_problems(gates: Sequence[Gate], known: Mapping[str, Gate]) -> Iterator[Problem]:
    for gate in gates:
        if known[gate.name] != gate:
            yield Problem(f"gate {gate.name!r} is registered twice, as two different functions")
        if gate.problem is not None:
            yield Problem(gate.problem)


def _plugin_problems(plugins: Sequence[tuple[str, AnyPlugin]], known: Mapping[str, AnyPlugin]) -> Iterator[Problem]:
    """Problems of plugins, each of which comes with who lists it."""
    first = _first_by_name((plugin.id, who) for who, plugin in plugins)
    remedy = "share one instance, or list it in Registry(plugins=[…]) and refer to it by its id"
    for who, plugin in plugins:
        if known[plugin.id] is not plugin:
            twice = f"plugin {plugin.id!r} is registered twice, as two different objects"
            yield Problem(f"{twice}, by {first[plugin.id]} and {who}: {remedy}")
    for plugin in known.values():
        for problem in plugin_problems(plugin):
            yield Problem(problem)


def _mcp_problems(servers: Sequence[McpServer], known: RegistryContent) -> Iterator[Problem]:
    for server in servers:
        if known.mcp_servers[server.name] != server:
            yield Problem(
                f"MCP server {server.name!r} is registered twice, with different settings: rename one of them"
            )
    prefixes: dict[str, str] = {}
    for name in known.mcp_servers:
        prefix = mcp_tools_prefix(name)
        other = prefixes.setdefault(prefix, name)
        if other != name:
            yield Problem(f"the tools of MCP servers {other!r} and {name!r} would both be called {prefix}…: rename one")
        for tool in known.tools:
            if tool.startswith(prefix):
                yield Problem(f"tool {tool!r} has a name of the tools of MCP server {name!r}; rename it")


def _profile_problems(keys: Sequence[ProfileKey[Any]], known: Mapping[str, ProfileKey[Any]]) -> Iterator[Problem]:
    for key in keys:
        if known[key.key] is not key:
            yield Problem(f"profile key {key.key!r} is registered twice, as two different keys")


def _lifespan_problems(lifespan: Lifespan | None, content: RegistryContent) -> Iterator[Problem]:
    if lifespan is not None:
        if inspect.isasyncgenfunction(lifespan) or inspect.isgeneratorfunction(lifespan):
            remedy = "decorate it with @contextlib.asynccontextmanager"
            yield Problem(f"the lifespan {lifespan.__name__!r} is a plain generator function: {remedy}")
        elif isinstance(lifespan, AbstractAsyncContextManager) or not callable(lifespan):
            remedy = "pass the function that returns the async context manager, without calling it"
            yield Problem(f"the lifespan is a {type(lifespan).__name__}: {remedy}")
        return
    for what, asked in content.asked_types():
        remedy = f"pass one that yields a {type_name(asked)}, as Registry(lifespan=…)"
        yield Problem(f"{what} takes a {type_name(asked)}, and the registry has no lifespan: {remedy}")
    for name, _ in content.provider_factories():
        yield Problem(f"the provider of {name!r} is a factory, and the registry has no lifespan: pass a provider")


def _usage_problems(agents: Sequence[Agent], known: RegistryContent, *, all_are_known: bool) -> Iterator[Problem]:
    for agent in agents:
        if agent.endpoint is not None:
            yield from remote_problems(agent)
            continue
        yield from _name_problems(agent, known)
        yield from _subagent_problems(agent, known, all_are_known=all_are_known)
        yield from permission_problems(agent, known)
        yield from _output_problems(agent)
        yield from _plugin_usage_problems(agent, known)
        yield from _tool_choice_problems(agent, known)
        yield from _stop_problems(agent)
        yield from price_problems(agent, known)


def _name_problems(agent: Agent, known: RegistryContent) -> Iterator[Problem]:
    for index, name in enumerate(agent.tool_names):
        if name not in known.tools:
            message = f"agent {agent.id!r} names unknown tool {name!r}; {registered(name, known.tools)}"
            yield Problem(message, location_of(agent, "tools", index))
    if repeated := _repeated(agent.tool_names):
        yield Problem(f"agent {agent.id!r} lists tools twice: {', '.join(repeated)}", location_of(agent, "tools"))
    for key, model in _named_models(agent):
        if model not in known.models:
            hint = f"register it as models={{'main': {model!r}}}; " if "/" in model else ""
            message = f"agent {agent.id!r} names unknown model {model!r}; {hint}{registered(model, known.models)}"
            yield Problem(message, location_of(agent, *key))
    for index, name in enumerate(agent.gate_names):
        if name not in known.gates:
            message = f"agent {agent.id!r} names unknown gate {name!r}; {registered(name, known.gates)}"
            yield Problem(message, location_of(agent, "gates", index))
    for index, name in enumerate(agent.mcp_names):
        if name not in known.mcp_servers:
            message = f"agent {agent.id!r} names unknown MCP server {name!r}; {registered(name, known.mcp_servers)}"
            yield Problem(message, location_of(agent, "mcp", index))
    if repeated := _repeated(agent.mcp_names):
        yield Problem(f"agent {agent.id!r} lists MCP servers twice: {', '.join(repeated)}", location_of(agent, "mcp"))
    if repeated := _repeated(agent.gate_names):
        yield Problem(f"agent {agent.id!r} lists gates twice: {', '.join(repeated)}", location_of(agent, "gates"))


def _named_models(agent: Agent) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The models that the agent names, with the keys under which a file names them."""
    yield ("model",), agent.model
    for index, fallback in enumerate(agent.fallbacks):
        yield ("fallbacks", index), fallback
    if agent.context is not None and agent.context.summary_model is not None:
        yield ("context", "summary_model"), agent.context.summary_model


def _subagent_problems(agent: Agent, known: RegistryContent, *, all_are_known: bool = True) -> Iterator[Problem]:
    for named in SUBAGENT_FIELDS:
        alone = agent.model_copy(update={other: () for other in SUBAGENT_FIELDS if other != named})
        ids = {*known.agents, *known.discovered}
        for problem in subagent_problems(alone, ids, known.is_known if all_are_known else lambda _: True):
            yield Problem(problem, location_of(agent, named))


def _output_problems(agent: Agent) -> Iterator[Problem]:
    try:
        spec = output_spec(agent)
        problem = None if spec is None else schema_problem(spec.json_schema)
    except PydanticUserError as error:
        problem = str(error)
    if problem is not None:
        message = f"agent {agent.id!r}: its output type has no valid JSON schema: {problem}"
        yield Problem(message, location_of(agent, "output"))


def _plugin_usage_problems(agent: Agent, known: RegistryContent) -> Iterator[Problem]:
    plugins = known.plugins_of(agent)
    for index, id in enumerate(agent.plugin_ids):
        if id not in known.plugins:
            message = f"agent {agent.id!r} names unknown plugin {id!r}; {registered(id, known.plugins)}"
            yield Problem(message, location_of(agent, "plugins", index))
    if repeated := _repeated(agent.plugin_ids):
        yield Problem(f"agent {agent.id!r} lists plugins twice: {', '.join(repeated)}", location_of(agent, "plugins"))
    for index, id in enumerate(agent.active_plugins or ()):
        if id not in agent.plugin_ids:
            message = f"agent {agent.id!r} has active_plugins with {id!r}, which it does not list in plugins"
            yield Problem(message, location_of(agent, "active_plugins", index))
    unknown = {id for id in agent.plugin_ids if id not in known.plugins}
    settings = {id: given for id, given in agent.plugin_settings.items() if id not in unknown}
    reported = set()
    for plugin in plugins:  # one by one, so that each problem has the location of its settings
        its_own = {id: given for id, given in settings.items() if id == plugin.id}
        for problem in usage_problems(agent.id, [plugin], its_own, ()):
            reported.add(problem)
            yield Problem(problem, location_of(agent, "plugin_settings" if its_own else "plugins", plugin.id))
    for problem in usage_problems(agent.id, plugins, settings, agent.state):
        if problem not in reported:
            yield Problem(problem, location_of(agent, "plugin_settings"))


def _scope_problems(agents: Sequence[Agent], known: RegistryContent) -> Iterator[Problem]:
    """State keys with two scopes: a thread that both agents work on would have two values of one key."""
    first: dict[str, tuple[str, StateScope]] = {}
    for agent in agents:
        for key in declared_keys(agent.state, known.plugins_of(agent)):
            other, scope = first.setdefault(key.key, (agent.id, key.spec.scope))
            if other != agent.id and scope is not key.spec.scope:
                scopes = f"scope {scope.value!r} in agent {other!r} and {key.spec.scope.value!r} in agent {agent.id!r}"
                message = f"state key {key.key!r} has {scopes}: declare it with one scope, or rename it"
                yield Problem(message, location_of(agent, "id"))


def _tool_choice_problems(agent: Agent, known: RegistryContent) -> Iterator[Problem]:
    """Tool patterns, and names, that match no tool: most likely misspelt, so that the agent would have wrong tools."""
    tools = known.tool_names(agent)
    has = ", ".join(sorted(set(tools))) or "none"
    listed_later = tuple(mcp_tools_prefix(server.name) for server in known.mcp_servers_of(agent))
    chosen = {"allowed_tools": agent.allowed_tools, "excluded_tools": agent.excluded_tools}
    for choice, patterns in {**chosen, "replaceable_tools": agent.replaceable_tools}.items():
        for index, pattern in enumerate(patterns or ()):
            if pattern.startswith(listed_later):  # an MCP server may have such a tool
                continue
            named = [pattern if choice in chosen else glob.escape(pattern)]
            if not any(matches(tool, named) for tool in tools):
                message = f"agent {agent.id!r}: {pattern!r} in {choice} matches no tool of the agent; it has: {has}"
                yield Problem(message, location_of(agent, choice, index))


def _stop_problems(agent: Agent) -> Iterator[Problem]:
    for index, condition in enumerate(agent.stop_conditions):
        for problem in stop_problems([condition]):
            yield Problem(f"agent {agent.id!r}: {problem}", location_of(agent, "stop_conditions", index))
        if isinstance(condition, MaxRounds) and "max_rounds" in agent.model_fields_set:
            message = (
                f"agent {agent.id!r} limits its rounds twice: max_rounds={agent.max_rounds} is short for the stop "
                f"condition {condition.type}, which says {condition.rounds}; remove one of them"
            )
            yield Problem(message, location_of(agent, "stop_conditions", index))


def _model_problems(content: RegistryContent) -> Iterator[Problem]:
    known = {*content.providers, *BUILT_IN_PROVIDERS}
    for id, source in content.models.items():
        if not isinstance(source, str):
            continue
        provider, slash, name = source.partition("/")
        if not (provider and slash and name):
            yield Problem(f"model {id!r} is {source!r}; write it as 'provider/name'")
        elif provider not in known:
            yield Problem(f"model {id!r} names unknown provider {provider!r}; {registered(provider, known)}")
    for part, ids in (("prices", content.prices), ("inference_queues", content.inference_queues)):
        for id in ids:
            if id not in content.models:
                yield Problem(f"{part} has the unknown model {id!r}; {registered(id, content.models)}")
    for id, queue in content.inference_queues.items():
        if not queue:
            yield Problem(f"the inference queue of model {id!r} has an empty name")


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})
