"""What permission rules say of a call: any rule that denies wins, then one that allows, then one that asks."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from wakeful.contract.permissions import Behavior, PermissionPolicy, Rule
from wakeful.permissions.parsing import parse
from wakeful.permissions.texts import PatternError

_ALLOW_ALL = PermissionPolicy(default_behavior=Behavior.ALLOW)
_ORDER = (Behavior.DENY, Behavior.ALLOW, Behavior.ASK)


@dataclass(frozen=True)
class Ruling:
    """What is to be done, and the rule that says so; without one it is the policy's default."""

    behavior: Behavior
    rule: Rule | None = None


def evaluate(policy: PermissionPolicy | None, rules: Sequence[Rule], tool_name: str, arguments: JsonValue) -> Ruling:
    """What an agent's policy says of a call, with the thread's and the run's `rules` laid over it.

    Of several rules that deny (or allow, or ask), the most specific one counts, and of equals the last. An argument
    that is too long to be searched is taken to match what denies and asks, and not to match what allows.

    Raises:
        PatternError: a rule cannot be read.
    """
    effective = overlaid(policy, rules)
    for behavior in _ORDER:
        unsure = behavior is not Behavior.ALLOW
        matching = [
            (pattern.specificity, index, rule)
            for index, rule in enumerate(effective.rules)
            if rule.behavior is behavior
            and (pattern := parse(rule.tool)).matches(tool_name, arguments, when_unsure=unsure)
        ]
        if matching:
            return Ruling(behavior, max(matching, key=lambda match: match[:2])[2])
    return Ruling(effective.default_behavior)


def overlaid(policy: PermissionPolicy | None, rules: Sequence[Rule]) -> PermissionPolicy:
    """The policy with `rules` over it: a rule replaces the policy's, and those before it, for the same `tool` text.

    An agent without a policy allows everything; rules of a thread or a run are then all there is.
    """
    policy = policy or _ALLOW_ALL
    if not rules:
        return policy
    over = {rule.tool: rule for rule in rules}
    kept = (rule for rule in policy.rules if rule.tool not in over)
    return PermissionPolicy(default_behavior=policy.default_behavior, rules=(*kept, *over.values()))


def hidden_tools(policy: PermissionPolicy | None, rules: Sequence[Rule]) -> frozenset[str]:
    """Names of the tools that are denied whatever they are called with: the model need not know of them.

    Raises:
        PatternError: a rule cannot be read.
    """
    denied = (parse(rule.tool).whole_tool for rule in overlaid(policy, rules).rules if rule.behavior is Behavior.DENY)
    return frozenset(name for name in denied if name is not None)


def rule_problems(rules: Sequence[Rule]) -> list[str]:
    """What is wrong with the rules: every pattern that cannot be read."""
    problems = []
    for rule in rules:
        try:
            parse(rule.tool)
        except PatternError as error:
            problems.append(f"permission rule {error}")
    return problems
