"""Check that the permission rules of an agent have an effect: one without any is an approval that does not happen."""

from collections import Counter
from collections.abc import Iterator, Sequence

from wakeful.authoring.agent import Agent
from wakeful.contract.ids import mcp_tools_prefix
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.suggestions import nearest
from wakeful.contract.tools import ToolDescriptor
from wakeful.permissions.argument_paths import fit_problem
from wakeful.permissions.parsing import parse_pattern
from wakeful.permissions.rules import overruled, rule_problems, size_problem
from wakeful.permissions.text_matcher import Kind, TextMatcher
from wakeful.registry.agent_files import location_of
from wakeful.registry.content import RegistryContent
from wakeful.registry.located_files import Problem

_WILDCARDS = "*?["

_CLOSING = {Behavior.ASK: "ask about", Behavior.DENY: "deny"}
_LISTED = 5
"""Tools that a warning names."""


def permission_problems(agent: Agent, known: RegistryContent) -> Iterator[Problem]:
    """Rules of the policy that are too large, malformed, repeated or misspelt, or that another one always overrules."""
    rules = agent.permissions.rules if agent.permissions else ()
    if (too_large := size_problem(rules)) is not None:
        yield Problem(f"agent {agent.id!r}: {too_large}", location_of(agent, "permissions", "rules"))
        return
    for index, rule in enumerate(rules):
        problems = rule_problems([rule]) or _misspelt(agent, rule, known) or _without_arguments(agent, rule, known)
        for problem in problems:
            yield Problem(f"agent {agent.id!r}: {problem}", location_of(agent, "permissions", "rules", index))
    texts = Counter(rule.tool for rule in rules)
    for repeated in sorted(text for text, count in texts.items() if count > 1):
        location = location_of(agent, "permissions", "rules")
        yield Problem(f"agent {agent.id!r} has two permission rules for {repeated!r}", location)
    for asking, allowing in overruled([rule for rule in rules if not rule_problems([rule])]):
        if asking.tool != allowing.tool:  # reported as repeated
            never = f"permission rule 'ask {asking.tool}' never applies, because 'allow {allowing.tool}' wins over it"
            remedy = 'remove the rule that allows; default_behavior="allow" allows what no rule matches'
            location = location_of(agent, "permissions", "rules", rules.index(asking))
            yield Problem(f"agent {agent.id!r}: {never}: {remedy}", location)


def unmatched_rules(known: RegistryContent) -> list[str]:
    """A warning for each rule that matches no known tool, and that may be meant for a tool of a front end."""
    return [
        f"agent {agent.id!r}: permission rule {rule.tool!r} matches no tool of the agent or its sub-agents: unless a "
        f"front end brings such a tool, the rule has no effect{_unreached(agent, known)}"
        for agent in known.agents.values()
        if agent.endpoint is None and agent.permissions is not None
        for rule in agent.permissions.rules
        if not _may_match(agent, rule, known)
    ]


def open_subagents(known: RegistryContent) -> list[str]:
    """A warning for each agent with a default that asks or denies, and a sub-agent that may call what it may not."""
    return [
        f"agent {agent.id!r} has default_behavior={policy.default_behavior.value!r}, which does not hold for agent "
        f"{other.id!r}, one of its {field}: that may call {_listed(tools)}. Give agent {other.id!r} permissions of its "
        f"own, or agent {agent.id!r} rules that {_CLOSING[policy.default_behavior]} these tools: rules hold for both"
        for agent in known.agents.values()
        if agent.endpoint is None
        and (policy := agent.permissions) is not None
        and policy.default_behavior is not Behavior.ALLOW
        for field, other in _starts(agent, known)
        if (tools := _open_tools(other, policy.rules, known))
    ]


def _starts(agent: Agent, known: RegistryContent) -> list[tuple[str, Agent]]:
    """The other agents that it names, each with the first field that names it."""
    first: dict[str, tuple[str, Agent]] = {}
    for field, names in (("delegates", agent.delegates), ("spawns", agent.spawns), ("handoffs", agent.handoffs)):
        for other in filter(None, map(known.find, names)):
            first.setdefault(other.id, (field, other))
    return [named for id, named in first.items() if id != agent.id]


def _open_tools(agent: Agent, inherited: Sequence[Rule], known: RegistryContent) -> list[str]:
    """The tools that the agent's own default allows, and that no inherited rule is about."""
    own = agent.permissions
    if agent.endpoint is not None or (own is not None and own.default_behavior is not Behavior.ALLOW):
        return []
    closing = [parse_pattern(rule.tool).tool for rule in inherited if rule.behavior is not Behavior.ALLOW]
    tools = [tool.id for tool in known.descriptors(agent, in_task=False)]
    names = [*tools, *(f"{prefix}*" for prefix in _mcp_prefixes([agent]))]
    return [name for name in names if not any(tool.matches(name) for tool in closing)]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_LISTED])
    return f"{shown} and {len(names) - _LISTED} more" if len(names) > _LISTED else shown


def _unreached(agent: Agent, known: RegistryContent) -> str:
    """That no protocol carries rules to agents at other services, if the agent starts some."""
    remote = sorted(each.id for each in known.with_descendants(agent) if each.endpoint is not None)
    if not remote:
        return ""
    return f"; no rule reaches the tools of agents at other services, here: {', '.join(remote)}"


def idle_rules(agent: Agent, tools: Sequence[ToolDescriptor], known: RegistryContent) -> tuple[str, ...]:
    """The agent's rules that match none of these tools, which it has in a run, and can match none of its sub-agents."""
    rules = agent.permissions.rules if agent.permissions else ()
    below = [each for each in _local(agent, known) if each is not agent]
    return tuple(
        rule.tool
        for rule in rules
        if not any(parse_pattern(rule.tool).tool.matches(tool.id) for tool in tools)
        and not _matches_one(agent, rule, known, _mcp_prefixes(below))
    )


def _misspelt(agent: Agent, rule: Rule, known: RegistryContent) -> list[str]:
    """What is wrong with a name or a glob that matches no tool, and is like the name of one of the agent's tools."""
    tool = parse_pattern(rule.tool).tool
    tools = known.tool_names(agent)
    meant = nearest(tool.text.strip(_WILDCARDS), tools)
    is_of_others = any(tool.matches(name) for name in known.tools)
    if tool.kind is Kind.REGEX or meant is None or is_of_others or _may_match(agent, rule, known):
        return []
    has = ", ".join(sorted({*tools}))
    remedy = "If a front end brings the tool, write its name as a regular expression, /^…$/, which is not checked"
    return [
        f"permission rule {rule.tool!r} matches no tool of the agent; it has: {has}; did you mean {meant!r}? {remedy}"
    ]


def _without_arguments(agent: Agent, rule: Rule, known: RegistryContent) -> list[str]:
    """What is wrong with a name or a glob whose arguments do not fit the tools that it matches.

    Of the tools of MCP servers and front ends, a run learns the parameters: an inference warns of a rule for those.
    """
    tool = parse_pattern(rule.tool).tool
    local = _local(agent, known)
    if tool.kind is Kind.REGEX or _may_begin_with(tool, _mcp_prefixes(local)):
        return []
    tools = [each for agent in local for each in known.descriptors(agent, in_task=True)]
    problem = fit_problem(rule, {each.id: each.parameters for each in tools})
    return [] if problem is None else [problem]


def _may_match(agent: Agent, rule: Rule, known: RegistryContent) -> bool:
    """Whether the rule matches a tool of the agent or, as they inherit its rules, of a sub-agent.

    What tools an MCP server has is not known before a run: a rule may match one if it can match its prefix.
    """
    return _matches_one(agent, rule, known, _mcp_prefixes(_local(agent, known)))


def _matches_one(agent: Agent, rule: Rule, known: RegistryContent, prefixes: Sequence[str]) -> bool:
    tool = parse_pattern(rule.tool).tool
    names = (name for each in _local(agent, known) for name in known.tool_names(each))
    return any(map(tool.matches, names)) or _may_begin_with(tool, prefixes)


def _local(agent: Agent, known: RegistryContent) -> list[Agent]:
    """The agents whose calls the agent's rules apply to."""
    return [each for each in known.with_descendants(agent) if each.endpoint is None]


def _mcp_prefixes(agents: Sequence[Agent]) -> list[str]:
    return [mcp_tools_prefix(name) for each in agents for name in each.mcp_names]


def _may_begin_with(tool: TextMatcher, prefixes: Sequence[str]) -> bool:
    match tool.kind:
        case Kind.EXACT:
            return tool.text.startswith(tuple(prefixes))
        case Kind.GLOB:
            fixed = tool.text[: min(tool.text.index(char) for char in _WILDCARDS if char in tool.text)]
            return any(fixed.startswith(prefix) or prefix.startswith(fixed) for prefix in prefixes)
        case Kind.REGEX:
            return bool(prefixes)
