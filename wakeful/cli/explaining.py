"""What `wakeful permissions --explain` says: which rule decides about a call, for a thread or for a registry."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wakeful.cli.run_settings import parse_permissions
from wakeful.cli.terminal.text import call_text, printable
from wakeful.contract.errors import CallerError
from wakeful.contract.permissions import Behavior, PermissionPolicy, Rule
from wakeful.contract.runs import RunIdentity
from wakeful.contract.suggestions import did_you_mean
from wakeful.contract.views import RuleScope
from wakeful.permissions.authority import narrowing, policy_rules, questions
from wakeful.permissions.explanation import Explanation, explain
from wakeful.permissions.rules import run_context

if TYPE_CHECKING:
    from pydantic import JsonValue

    from wakeful.client.client import Client
    from wakeful.registry.registry import Registry

MOST_PATHS = 100
"""By which sub-agents are reached in a registry."""

_NAME = re.compile(r"\s*([^\s(]+)\s*")
_KEY = re.compile(r"\s*([A-Za-z0-9_-]+)\s*=\s*")
_BARE = re.compile(r"[^,)]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class Asked:
    """A call, and the run that would make it."""

    tool: str
    arguments: JsonValue
    rules: tuple[Rule, ...]
    tenant: str | None
    user: str | None
    metadata: Mapping[str, str]

    @classmethod
    def parse(
        cls,
        written: str,
        permission: list[str] | None,
        tenant: str | None,
        user: str | None,
        metadata: Mapping[str, str],
    ) -> Asked:
        """What the options ask.

        Raises:
            CallerError: the call or a rule cannot be read.
        """
        tool, arguments = parse_call(written)
        return cls(tool, arguments, parse_permissions(permission), tenant, user, metadata)

    @property
    def text(self) -> str:
        return printable(call_text(self.tool, self.arguments))


@dataclass(frozen=True)
class Explained:
    """What rules decide about a call of an agent, or of a thread."""

    asked: Asked
    where: str
    explanation: Explanation


def parse_call(written: str) -> tuple[str, JsonValue]:
    """A tool and its arguments: `pay(amount=250, to="Ann")` or `pay({"amount": 250})`. A value is JSON, or a text.

    Raises:
        CallerError: it is no call.
    """
    name = _NAME.match(written)
    if name is None:
        raise _unreadable(written, "the tool's name is missing")
    rest = written[name.end() :].strip()
    if not rest:
        return name[1], {}
    if not (rest.startswith("(") and rest.endswith(")")):
        raise _unreadable(written, "its arguments are not in parentheses")
    inner = rest[1:-1].strip()
    if inner.startswith("{"):
        try:
            arguments: JsonValue = json.loads(inner)
        except ValueError as error:
            raise _unreadable(written, f"its arguments are not JSON: {error}") from error
        return name[1], arguments
    return name[1], _named_arguments(written, inner)


def _named_arguments(written: str, inner: str) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    position = 0
    while position < len(inner):
        key = _KEY.match(inner, position)
        if key is None:
            raise _unreadable(written, f"expected name=value at {inner[position:]!r}")
        try:
            value, position = _DECODER.raw_decode(inner, key.end())
            after = inner[position:].lstrip()
        except ValueError:
            value, after = None, "?"
        if after and not after.startswith(","):  # a text without quotes
            bare = _BARE.match(inner, key.end())
            assert bare is not None  # it matches the empty text, too
            value, position = bare[0].strip(), bare.end()
            after = inner[position:]
        found[key[1]] = value
        position = len(inner) - len(after.removeprefix(","))
    return found


def _unreadable(written: str, why: str) -> CallerError:
    return CallerError(f"--explain {written!r}: {why}; write a call such as 'pay(amount=250, to=\"Ann\")'")


async def in_thread(asked: Asked, client: Client, thread_id: str) -> list[Explained]:
    """What the rules of a thread decide in a run like its newest one."""
    view, status = await client.permissions(thread_id), await client.status(thread_id)
    identity = status.identity
    context = run_context(
        identity.model_copy(update={"tenant": asked.tenant or identity.tenant, "user": asked.user or identity.user}),
        {**status.metadata, **asked.metadata},
    )
    agent, ancestor, of_thread, of_run = (
        tuple(each.rule for each in view.rules if each.scope is scope)
        for scope in (RuleScope.AGENT, RuleScope.ANCESTOR, RuleScope.THREAD, RuleScope.RUN)
    )
    policy = PermissionPolicy(default_behavior=view.default_behavior, rules=agent)
    named = {"an ancestor": ancestor, "the thread": of_thread, "the run": of_run, "--permission": asked.rules}
    over = [(rule, origin) for origin, rules in named.items() for rule in rules]
    asking = questions((*of_thread, *of_run, *asked.rules), (*ancestor, *of_thread))
    explanation = explain(policy, over, asked.tool, asked.arguments, questions=asking, context=context)
    return [Explained(asked, thread_id, explanation)]


def in_registry(asked: Asked, registry: Registry, agent_id: str | None) -> list[Explained]:
    """What the rules of a registry decide, for every agent that has the tool: as a root, and under each that starts it.

    Raises:
        CallerError: no agent has the tool.
    """
    resolved = {id: registry.resolve(id) for id in ([agent_id] if agent_id else sorted(registry.agents))}
    tools = {id: [tool.id for tool in agent.tools] for id, agent in resolved.items()}
    having = [id for id in resolved if agent_id or asked.tool in tools[id]]
    if not having:
        known = sorted({tool for each in tools.values() for tool in each})
        meant = did_you_mean(asked.tool, known)
        raise CallerError(
            f"--explain: no agent has tool {asked.tool!r}{meant or ';'} name the agent with --agent if an MCP server "
            "or a front end brings the tool"
        )
    paths = [path for path in _paths(registry) if path[-1] in having]
    return [_along(asked, registry, path) for path in paths[:MOST_PATHS]]


def _paths(registry: Registry) -> Iterator[tuple[str, ...]]:
    """Every agent, and every way by which it is a sub-agent; the shorter ones first."""
    level: list[tuple[str, ...]] = [(id,) for id in sorted(registry.agents)]
    seen = 0
    while level and seen < MOST_PATHS * MOST_PATHS:
        yield from level
        seen += len(level)
        level = [
            (*path, child)
            for path in level
            for child in dict.fromkeys((*registry.agents[path[-1]].delegates, *registry.agents[path[-1]].spawns))
            if child in registry.agents and child not in path
        ]


def _along(asked: Asked, registry: Registry, path: tuple[str, ...]) -> Explained:
    """What the rules decide in a run of the last agent, which those before it have started."""
    *above, agent_id = path
    over = [(rule, f"agent {id}") for id in above for rule in narrowing(policy_rules(registry.resolve(id)))]
    over += [(rule, "the request") for rule in (narrowing(asked.rules) if above else asked.rules)]
    identity = RunIdentity(thread_id="", run_id="", agent_id=agent_id, tenant=asked.tenant, user=asked.user)
    context = run_context(identity, asked.metadata)
    policy, asking = registry.resolve(agent_id).permissions, questions([rule for rule, _ in over])
    explanation = explain(policy, over, asked.tool, asked.arguments, questions=asking, context=context)
    return Explained(asked, " > ".join(path), explanation)


def lines_of(explained: Sequence[Explained], *, as_json: bool) -> list[str]:
    """A few lines for each, or its JSON."""
    return [line for each in explained for line in ([_json(each)] if as_json else _lines(each))]


def _lines(each: Explained) -> Iterator[str]:
    ruling = each.explanation.ruling
    yield f"{printable(each.where)}: {_VERBS[ruling.behavior]} {each.asked.text}"
    if ruling.message is not None:
        yield f"  {'says':<15}{printable(ruling.message)}"
    if ruling.rule is None:
        yield f"  {'decides':<15}{ruling.decided_by}, because no rule matches"
    for rule in each.explanation.considered:
        text = f"{rule.rule.behavior.value} {printable(rule.rule.tool)}"
        yield f"  {rule.part.value:<15}{text}, of {printable(rule.origin)}: {printable(rule.why)}"


_VERBS = {Behavior.ALLOW: "allows", Behavior.ASK: "asks about", Behavior.DENY: "denies"}


def _json(each: Explained) -> str:
    ruling = each.explanation.ruling
    return json.dumps(
        {
            "where": each.where,
            "call": {"name": each.asked.tool, "arguments": each.asked.arguments},
            "behavior": ruling.behavior,
            "decided_by": ruling.decided_by,
            "message": ruling.message,
            "rules": [
                {**rule.rule.model_dump(mode="json"), "of": rule.origin, "part": rule.part, "why": rule.why}
                for rule in each.explanation.considered
            ],
        }
    )
