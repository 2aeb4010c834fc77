"""Whether what a registry is given fits together: everything that is wrong, at once, and where it is written."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeVar

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic.errors import PydanticUserError

from wakeful.authoring.agent import Agent
from wakeful.authoring.gate import Gate
from wakeful.authoring.plugin import AnyPlugin, Plugin, plugin_problems, tools_of, usage_problems
from wakeful.authoring.profiles import ProfileKey
from wakeful.authoring.tool import Tool
from wakeful.contract.names import RESERVED_TOOL_NAMES
from wakeful.loop.step.stopping import stop_problems
from wakeful.permissions.rules import rule_problems
from wakeful.registry.agent_files import place_of, read_agents
from wakeful.registry.content import BUILT_IN_PROVIDERS, Parts, Registered, matches, output_spec
from wakeful.registry.located_files import Fault
from wakeful.registry.runtime_tools import family_problems, runtime_tools

FAMILY = ("delegates", "spawns", "handoffs")
"""Fields of an agent that name other agents."""

T = TypeVar("T")


def gather(parts: Parts) -> tuple[Registered, list[Fault]]:
    """Everything of the parts, by name, and everything that is wrong with it."""
    files = read_agents(parts.get("agent_files", ()))
    agents = [*parts.get("agents", ()), *files.agents]
    plugins = [
        *(("Registry(plugins=[…])", plugin) for plugin in parts.get("plugins", ())),
        *((f"agent {agent.id!r}", p) for agent in agents for p in agent.plugins if isinstance(p, Plugin)),
    ]
    brought = _first_by_name((plugin.id, plugin) for _, plugin in plugins)
    tools = [
        *parts.get("tools", ()),
        *(tool for agent in agents for tool in agent.tools if isinstance(tool, Tool)),
        *tools_of(brought.values()),
    ]
    gates = [*parts.get("gates", ()), *(g for agent in agents for g in agent.gates if isinstance(g, Gate))]
    registered = Registered(
        agents={agent.id: agent for agent in agents},
        tools=_first_by_name((tool.name, tool) for tool in tools),
        gates=_first_by_name((gate.name, gate) for gate in gates),
        plugins=brought,
        models=dict(parts.get("models", {})),
        providers=dict(parts.get("providers", {})),
        prices=dict(parts.get("prices", {})),
        profile_keys=_first_by_name((key.key, key) for key in parts.get("profile_keys", ())),
        sources=files.sources,
    )
    faults = [
        *files.faults,
        *_agent_faults(agents),
        *_tool_faults(tools, registered.tools),
        *_gate_faults(gates, registered.gates),
        *_plugin_faults(plugins, registered.plugins),
        *_check_agents(agents, registered, all_are_known=files.is_whole),
        *_check_models(registered),
        *_profile_faults(parts.get("profile_keys", ()), registered.profile_keys),
    ]
    return registered, faults


def in_order(faults: Sequence[Fault]) -> list[Fault]:
    """As a person goes through them: file by file from top to bottom, and then what is in code."""
    in_files = [(fault.place, fault) for fault in faults if fault.place is not None]
    return [*(fault for _, fault in sorted(in_files, key=itemgetter(0))), *(f for f in faults if f.place is None)]


def _first_by_name(named: Iterable[tuple[str, T]]) -> dict[str, T]:
    first: dict[str, T] = {}
    for name, thing in named:
        first.setdefault(name, thing)
    return first


def _agent_faults(agents: Sequence[Agent]) -> Iterator[Fault]:
    first: dict[str, Agent] = {}
    for agent in agents:
        if agent.id in first:
            here, there = place_of(agent, "id"), place_of(first[agent.id], "id")
            also = f": here and {f'at {there}' if there else 'in code'}" if here else ""
            yield Fault(f"agent {agent.id!r} is registered twice{also}", here)
        first.setdefault(agent.id, agent)


def _tool_faults(tools: Sequence[Tool], known: Mapping[str, Tool]) -> Iterator[Fault]:
    for tool in tools:
        if known[tool.name] is not tool:
            yield Fault(f"tool {tool.name!r} is registered twice, as two different functions")
        if tool.name in RESERVED_TOOL_NAMES:
            reserved = ", ".join(sorted(RESERVED_TOOL_NAMES))
            yield Fault(f"tool {tool.name!r} takes a reserved name; rename it (reserved: {reserved})")


def _gate_faults(gates: Sequence[Gate], known: Mapping[str, Gate]) -> Iterator[Fault]:
    for gate in gates:
        if known[gate.name] is not gate:
            yield Fault(f"gate {gate.name!r} is registered twice, as two different functions")


def _plugin_faults(plugins: Sequence[tuple[str, AnyPlugin]], known: Mapping[str, AnyPlugin]) -> Iterator[Fault]:
    """What is wrong with plugins, each given with who lists it."""
    first = _first_by_name((plugin.id, who) for who, plugin in plugins)
    remedy = "share one instance, or name it by its id and list it in Registry(plugins=[…])"
    for who, plugin in plugins:
        if known[plugin.id] is not plugin:
            twice = f"plugin {plugin.id!r} is registered twice, as two different objects"
            yield Fault(f"{twice}, by {first[plugin.id]} and {who}: {remedy}")
    for plugin in known.values():
        for problem in plugin_problems(plugin):
            yield Fault(problem)


def _profile_faults(keys: Sequence[ProfileKey[Any]], known: Mapping[str, ProfileKey[Any]]) -> Iterator[Fault]:
    for key in keys:
        if known[key.key] is not key:
            yield Fault(f"profile key {key.key!r} is registered twice, as two different keys")


def _check_agents(agents: Sequence[Agent], known: Registered, *, all_are_known: bool) -> Iterator[Fault]:
    for agent in agents:
        yield from _name_faults(agent, known)
        yield from _family_faults(agent, known, all_are_known=all_are_known)
        yield from _permission_faults(agent)
        yield from _output_faults(agent)
        yield from _plugin_use_faults(agent, known)
        yield from _choice_faults(agent, known)
        yield from _stop_faults(agent)


def _name_faults(agent: Agent, known: Registered) -> Iterator[Fault]:
    for index, name in enumerate(agent.tool_names):
        if name not in known.tools:
            message = f"agent {agent.id!r} names unknown tool {name!r}; registered: {_names(known.tools)}"
            yield Fault(message, place_of(agent, "tools", index))
    if repeated := _twice(agent.tool_names):
        yield Fault(f"agent {agent.id!r} lists tools twice: {', '.join(repeated)}", place_of(agent, "tools"))
    for key, model in [(("model",), agent.model), *((("fallbacks", i), m) for i, m in enumerate(agent.fallbacks))]:
        if model not in known.models:
            hint = f"register it as models={{'main': {model!r}}}; " if "/" in model else ""
            message = f"agent {agent.id!r} names unknown model {model!r}; {hint}registered: {_names(known.models)}"
            yield Fault(message, place_of(agent, *key))
    for index, name in enumerate(agent.gate_names):
        if name not in known.gates:
            message = f"agent {agent.id!r} names unknown gate {name!r}; registered: {_names(known.gates)}"
            yield Fault(message, place_of(agent, "gates", index))
    if repeated := _twice(agent.gate_names):
        yield Fault(f"agent {agent.id!r} lists gates twice: {', '.join(repeated)}", place_of(agent, "gates"))


def _family_faults(agent: Agent, known: Registered, *, all_are_known: bool) -> Iterator[Fault]:
    for named in FAMILY:
        alone = agent.model_copy(update={other: () for other in FAMILY if other != named})
        ids = known.agents if all_are_known else {*known.agents, *getattr(agent, named)}
        for problem in family_problems(alone, ids):
            yield Fault(problem, place_of(agent, named))


def _permission_faults(agent: Agent) -> Iterator[Fault]:
    rules = agent.permissions.rules if agent.permissions else ()
    for index, rule in enumerate(rules):
        for problem in rule_problems([rule]):
            yield Fault(f"agent {agent.id!r}: {problem}", place_of(agent, "permissions", "rules", index))
    for repeated in _twice([rule.tool for rule in rules]):
        place = place_of(agent, "permissions", "rules")
        yield Fault(f"agent {agent.id!r} has two permission rules for {repeated!r}", place)


def _output_faults(agent: Agent) -> Iterator[Fault]:
    try:
        spec = output_spec(agent)
        if spec is not None:
            Draft202012Validator.check_schema(spec.json_schema)
    except (PydanticUserError, SchemaError) as error:
        message = f"agent {agent.id!r}: its output type has no JSON schema that can be checked: {error}"
        yield Fault(message, place_of(agent, "output"))


def _plugin_use_faults(agent: Agent, known: Registered) -> Iterator[Fault]:
    plugins = known.plugins_of(agent)
    for index, id in enumerate(agent.plugin_ids):
        if id not in known.plugins:
            message = f"agent {agent.id!r} names unknown plugin {id!r}; registered: {_names(known.plugins)}"
            yield Fault(message, place_of(agent, "plugins", index))
    if repeated := _twice(agent.plugin_ids):
        yield Fault(f"agent {agent.id!r} lists plugins twice: {', '.join(repeated)}", place_of(agent, "plugins"))
    unknown = {id for id in agent.plugin_ids if id not in known.plugins}
    settings = {id: given for id, given in agent.plugin_settings.items() if id not in unknown}
    said = set()
    for plugin in plugins:  # one by one: each is shown where its own settings are
        its_own = {id: given for id, given in settings.items() if id == plugin.id}
        for problem in usage_problems(agent.id, [plugin], its_own, ()):
            said.add(problem)
            yield Fault(problem, place_of(agent, "plugin_settings" if its_own else "plugins", plugin.id))
    for problem in usage_problems(agent.id, plugins, settings, agent.state):
        if problem not in said:
            yield Fault(problem, place_of(agent, "plugin_settings"))


def _choice_faults(agent: Agent, known: Registered) -> Iterator[Fault]:
    """Patterns over tools that no tool fits: most likely misspelt, and then too much would be allowed."""
    named = {id: "" for field in FAMILY for id in getattr(agent, field)}
    own = [*agent.tool_names, *(tool.name for tool in tools_of(known.plugins_of(agent)))]
    has_background = any(known.tools[name].descriptor.background for name in own if name in known.tools)
    given = runtime_tools(agent, named, has_background=has_background, in_task=True)
    tools = [*own, *(tool.id for tool in given)]
    has = ", ".join(sorted(set(tools))) or "none"
    for choice, patterns in (("allowed_tools", agent.allowed_tools), ("excluded_tools", agent.excluded_tools)):
        for index, pattern in enumerate(patterns or ()):
            if not any(matches(tool, [pattern]) for tool in tools):
                message = f"agent {agent.id!r}: {pattern!r} in {choice} matches no tool of the agent; it has: {has}"
                yield Fault(message, place_of(agent, choice, index))


def _stop_faults(agent: Agent) -> Iterator[Fault]:
    for index, condition in enumerate(agent.stop_conditions):
        for problem in stop_problems([condition]):
            yield Fault(f"agent {agent.id!r}: {problem}", place_of(agent, "stop_conditions", index))


def _check_models(registered: Registered) -> Iterator[Fault]:
    known = {*registered.providers, *BUILT_IN_PROVIDERS}
    for id, source in registered.models.items():
        if not isinstance(source, str):
            continue
        provider, slash, name = source.partition("/")
        if not (provider and slash and name):
            yield Fault(f"model {id!r} is {source!r}; write it as 'provider/name'")
        elif provider not in known:
            names = ", ".join(sorted(known))
            yield Fault(f"model {id!r} names unknown provider {provider!r}; known: {names}")
    for id in registered.prices:
        if id not in registered.models:
            yield Fault(f"a price is given for unknown model {id!r}; registered: {_names(registered.models)}")


def _twice(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _names(known: Mapping[str, object]) -> str:
    return ", ".join(sorted(known)) or "none"
