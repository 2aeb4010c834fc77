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
from wakeful.permissions.authority import RunRules, narrowing, policy_rules
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
    agent, ancestor, of_thread, of_run, of_hooks = (
        tuple(each.rule for each in view.rules if each.scope is scope)
        for scope in (RuleScope.AGENT, RuleScope.ANCESTOR, RuleScope.THREAD, RuleScope.RUN, RuleScope.HOOK)
    )
    policy = PermissionPolicy(default_behavior=view.default_behavior, rules=agent)
    rules = RunRules(ancestor, of_thread, (*of_run, *asked.rules), of_hooks, view.always)
    named = (
        ("an ancestor", ancestor),
        ("the thread", of_thread),
        ("the run", of_run),
        ("--permission", asked.rules),
        ("a hook", of_hooks),
    )
    origins = [origin for origin, each in named for _ in each]
    origins += ["--permission" if rule in asked.rules else "the run" for rule in rules.restated]
    origins += ["the thread" for _ in rules.answers]
    return [_explained(asked, thread_id, policy, rules, origins, context)]


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
    paths = [path for path in _paths(registry) if path.agent_id in having]
    return [_along(asked, registry, path) for path in paths[:MOST_PATHS]]


@dataclass(frozen=True)
class _Path:
    """How an agent comes to make a call: it is a root's, or it is reached from another agent."""

    agent_id: str
    before: _Path | None = None
    hands_off: bool = False
    """The agent before it hands its run off to it, instead of starting it."""

    @property
    def agents(self) -> tuple[str, ...]:
        return (self.agent_id,) if self.before is None else (*self.before.agents, self.agent_id)

    @property
    def is_in_root(self) -> bool:
        """Whether the run is that of the request."""
        return self.before is None or (self.hands_off and self.before.is_in_root)

    def __str__(self) -> str:
        link = " hands off to " if self.hands_off else " > "
        return self.agent_id if self.before is None else f"{self.before}{link}{self.agent_id}"

    def groups(self, registry: Registry, asked: Asked) -> Iterator[tuple[str, tuple[Rule, ...]]]:
        """Whose rules the agents before it hand on, in the order in which a run is given them."""
        if self.before is not None:
            yield from self.before.groups(registry, asked)
            yield f"agent {self.before.agent_id}", policy_rules(registry.resolve(self.before.agent_id))
            if self.before.is_in_root and not self.hands_off:
                yield "the request", asked.rules


def _paths(registry: Registry) -> Iterator[_Path]:
    """Every agent, and every way by which it is a sub-agent or takes over; the shorter ones first."""
    level = [_Path(id) for id in sorted(registry.agents)]
    seen = 0
    while level and seen < MOST_PATHS * MOST_PATHS:
        yield from level
        seen += len(level)
        level = [
            _Path(next_id, path, hands_off)
            for path in level
            for agent in (registry.agents[path.agent_id],)
            for hands_off, others in ((False, (*agent.delegates, *agent.spawns)), (True, agent.handoffs))
            for next_id in dict.fromkeys(others)
            if next_id in registry.agents and next_id not in path.agents
        ]


def _along(asked: Asked, registry: Registry, path: _Path) -> Explained:
    """What the rules decide in a run of the last agent, which those before it have started or handed off."""
    groups = list(path.groups(registry, asked))
    rules = RunRules(narrowing(*(group for _, group in groups)), requested=asked.rules if path.is_in_root else ())
    origins = [next(origin for origin, group in groups if rule in group) for rule in rules.ancestors]
    origins += ["the request"] * len(rules.requested)
    identity = RunIdentity(thread_id="", run_id="", agent_id=path.agent_id, tenant=asked.tenant, user=asked.user)
    context = run_context(identity, asked.metadata)
    return _explained(asked, str(path), registry.resolve(path.agent_id).permissions, rules, origins, context)


def _explained(
    asked: Asked,
    where: str,
    policy: PermissionPolicy | None,
    rules: RunRules,
    origins: Sequence[str],
    context: JsonValue,
) -> Explained:
    over = list(zip(rules.ordered, origins, strict=True))
    explanation = explain(policy, over, asked.tool, asked.arguments, questions=rules.questions, context=context)
    return Explained(asked, where, explanation)


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
