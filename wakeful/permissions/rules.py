"""Which permission rule applies to a call: one that denies wins, then one that allows, then one that asks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pydantic import JsonValue

from wakeful.contract.limits import cut
from wakeful.contract.permissions import Behavior, PermissionPolicy, Rule
from wakeful.contract.runs import RunIdentity
from wakeful.contract.tools import ToolDescriptor
from wakeful.permissions.messages import parse_message, rendered
from wakeful.permissions.parsing import parse_pattern
from wakeful.permissions.patterns import ToolPattern
from wakeful.permissions.text_matcher import MAX_JUDGING_COST, PatternError, Search

RULE_COST = 8_000
"""What a rule takes beside compiling its globs and regular expressions, in the unit of `linear_regex.cost`."""

MAX_RULES_COST = 500 * RULE_COST
"""Of the rules of an agent or of a request: five hundred of them, or one whose regular expression is as large as it may
be, and half of another. They are compiled in 0.1 s."""

MAX_RUN_RULES_COST = 3 * MAX_RULES_COST
"""Of all rules of a run: those of its agent, of its request, and of its ancestors and agents that handed it off."""

_ALLOW_ALL = PermissionPolicy(default_behavior=Behavior.ALLOW)
_ORDER = (Behavior.DENY, Behavior.ALLOW, Behavior.ASK)

DEFAULT = "default_behavior: {}"
"""What decides about a call that no rule matches. No rule has this text: it is no pattern."""


@dataclass(frozen=True)
class Ruling:
    """The behavior for a call, and the rule that determines it; None means the policy's default."""

    behavior: Behavior
    rule: Rule | None = None
    problem: str | None = None
    """Why the rules could not be evaluated, if they could not."""
    message: str | None = None
    """What the rule says about the call, with its arguments."""

    def denial_of(self, tool_name: str) -> str | None:
        """Why a call of the tool is denied; None if it is not."""
        if self.behavior is not Behavior.DENY:
            return None
        if self.problem is not None:
            return f"Tool '{tool_name}' denied: its permission rules could not be evaluated: {self.problem}"
        return self.message or f"Tool '{tool_name}' denied by permission rules"

    def question_about(self, tool_name: str) -> str:
        """What people are asked about a call of the tool."""
        return self.message or f"Permission required for tool '{tool_name}'"

    @property
    def decided_by(self) -> str:
        """The rule's pattern, or the policy's default."""
        return DEFAULT.format(self.behavior.value) if self.rule is None else self.rule.tool


def run_context(identity: RunIdentity, metadata: Mapping[str, JsonValue]) -> JsonValue:
    """What patterns with a `$` read of a run; a field that it does not have is absent."""
    context: dict[str, JsonValue] = {"tenant": identity.tenant, "user": identity.user, "metadata": dict(metadata)}
    return {name: value for name, value in context.items() if value is not None}


def read_context(policy: PermissionPolicy | None, rules: Sequence[Rule]) -> bool:
    """Whether a rule may read whose run makes a call."""
    return any("$" in rule.tool or "$" in (rule.message or "") for rule in (*(policy.rules if policy else ()), *rules))


def judge(
    policy: PermissionPolicy | None,
    rules: Sequence[Rule],
    tool_name: str,
    arguments: JsonValue,
    *,
    questions: Sequence[Sequence[Rule]] = (),
    context: JsonValue = None,
    parse: Callable[[str], ToolPattern] = parse_pattern,
    search: Search | None = None,
) -> Ruling:
    """Like `evaluate`, but rules that cannot be evaluated deny the call, and what they may take is limited."""
    search = search or Search(MAX_JUDGING_COST)
    try:
        return evaluate(
            policy, rules, tool_name, arguments, questions=questions, context=context, parse=parse, search=search
        )
    except (ValueError, RecursionError) as error:
        return Ruling(Behavior.DENY, problem=str(error))


def evaluate(
    policy: PermissionPolicy | None,
    rules: Sequence[Rule],
    tool_name: str,
    arguments: JsonValue,
    *,
    questions: Sequence[Sequence[Rule]] = (),
    context: JsonValue = None,
    parse: Callable[[str], ToolPattern] = parse_pattern,
    search: Search | None = None,
) -> Ruling:
    """Apply an agent's policy, overlaid with the thread's and the run's `rules`, to a call of a run (`run_context`).

    Of several matching rules with the same behavior the most specific one counts, and of equals the last. An argument
    that is too long to search, or that is left when the search is over, matches rules that deny or ask, and does not
    match rules that allow; so does a condition
    on the run, such as `$user = "ann"`, in a run that has no such value, and one that compares with a number what is
    absent or no number.

    Args:
        questions: groups of rules, of the request and of ancestors. What one of them asks about is asked, unless a rule
            of the same group allows it.
        parse: how patterns are read.
        search: what the rules may take together; None if that is not limited.

    Raises:
        PatternError: a rule's pattern is malformed.
    """
    own = _ruling(overlaid(policy, rules), tool_name, arguments, context, parse, search)
    if own.behavior is Behavior.ALLOW:
        for group in questions:
            asked = _ruling(
                _ALLOW_ALL.model_copy(update={"rules": group}), tool_name, arguments, context, parse, search
            )
            if asked.behavior is Behavior.ASK:
                return asked
    return own


def _ruling(
    policy: PermissionPolicy,
    tool_name: str,
    arguments: JsonValue,
    context: JsonValue,
    parse: Callable[[str], ToolPattern],
    search: Search | None,
) -> Ruling:
    for behavior in _ORDER:
        unsure = behavior is not Behavior.ALLOW
        matching = [
            (pattern.specificity, index, rule)
            for index, rule in enumerate(policy.rules)
            if rule.behavior is behavior
            and (pattern := parse(rule.tool)).matches(
                tool_name, arguments, context=context, when_unsure=unsure, search=search
            )
        ]
        if matching:
            rule = max(matching, key=lambda match: match[:2])[2]
            said = None if rule.message is None else rendered(rule.message, arguments, context)
            return Ruling(behavior, rule, message=said)
    return Ruling(policy.default_behavior)


def overlaid(policy: PermissionPolicy | None, rules: Sequence[Rule]) -> PermissionPolicy:
    """The policy overlaid with `rules`: a rule replaces those with the same `tool` text, except one that denies.

    An agent without a policy allows everything that the rules do not restrict.
    """
    policy = policy or _ALLOW_ALL
    if not rules:
        return policy
    over = merged(rules)
    replaced = {rule.tool for rule in over}
    remaining = (rule for rule in policy.rules if rule.behavior is Behavior.DENY or rule.tool not in replaced)
    return PermissionPolicy(default_behavior=policy.default_behavior, rules=(*remaining, *over))


def merged(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """One rule for each `tool` text: the last one, or the first that denies."""
    last: dict[str, Rule] = {}
    for rule in rules:
        if rule.tool not in last or last[rule.tool].behavior is not Behavior.DENY:
            last[rule.tool] = rule
    return tuple(last.values())


def idle_rules(rules: Sequence[str], brought: Sequence[ToolDescriptor]) -> tuple[str, ...]:
    """Those rules of an agent's idle ones that match none of the tools that a front end has brought, either."""
    return tuple(rule for rule in rules if not any(parse_pattern(rule).tool.matches(tool.id) for tool in brought))


def hidden_tools(
    policy: PermissionPolicy | None, rules: Sequence[Rule], *, context: JsonValue = None
) -> frozenset[str]:
    """The tools that are denied with any arguments in this run: requests leave them out.

    Raises:
        PatternError: a rule's pattern is malformed.
    """
    denied = (
        parse_pattern(rule.tool).whole_tool_in(context)
        for rule in overlaid(policy, rules).rules
        if rule.behavior is Behavior.DENY
    )
    return frozenset(name for name in denied if name is not None)


def size_problem(rules: Sequence[Rule], *, most: int = MAX_RULES_COST) -> str | None:
    """Why the rules are too large together, as every call is judged by all of them; None if they are not."""
    taken = 0
    for number, rule in enumerate(rules, start=1):
        taken += RULE_COST
        with suppress(PatternError):
            taken += parse_pattern(rule.tool).compiling_cost
        if taken > most:
            return (
                f"the {len(rules):,} permission rules are too large together, from number {number:,} on, "
                f"{cut(rule.tool, 200)!r}: write fewer rules, and regular expressions with smaller counts"
            )
    return None


def rule_problems(rules: Sequence[Rule], *, most: int = MAX_RULES_COST) -> list[str]:
    """What is wrong with the rules: that they are too large together, or all malformed patterns and messages."""
    if (problem := size_problem(rules, most=most)) is not None:
        return [problem]
    problems = []
    for rule in rules:
        try:
            parse_pattern(rule.tool)
        except PatternError as error:
            problems.append(f"permission rule {error}")
        try:
            parse_message(rule.message or "")
        except PatternError as error:
            problems.append(f"permission rule {rule.tool!r}: {error}")
    return problems


def overruled(rules: Sequence[Rule]) -> list[tuple[Rule, Rule]]:
    """The rules that ask and never apply, each with a rule that allows all of its calls: that one wins.

    Raises:
        PatternError: a rule's pattern is malformed.
    """
    allowing = [(rule, parse_pattern(rule.tool)) for rule in rules if rule.behavior is Behavior.ALLOW]
    found = []
    for rule in rules:
        if rule.behavior is Behavior.ASK:
            pattern = parse_pattern(rule.tool)
            found += [(rule, winner) for winner, wide in allowing if wide.covers(pattern)][:1]
    return found
