"""Say which rule decides about a call and why, for people who review rules; `rules.py` decides."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import JsonValue

from wakeful.contract.limits import cut
from wakeful.contract.permissions import Behavior, PermissionPolicy, Rule
from wakeful.permissions.parsing import parse_pattern
from wakeful.permissions.patterns import ABSENT, Condition, Found, primary
from wakeful.permissions.rules import Ruling, evaluate, overlaid
from wakeful.permissions.text_matcher import TextMatcher

SHOWN_LENGTH = 80
MOST_VALUES = 3


class Part(StrEnum):
    """What a rule has to do with the decision."""

    DECIDES = "decides"
    MATCHES = "also matches"
    """Another one wins: by its behavior, or because it is more specific."""
    REPLACED = "is replaced"
    """A later rule has the same text."""
    OTHER = "does not match"


@dataclass(frozen=True)
class Considered:
    """A rule for the tool, and what it has to do with the decision."""

    rule: Rule
    origin: str
    part: Part
    why: str


@dataclass(frozen=True)
class Explanation:
    """The decision about a call, and the rules for its tool, the one that decides first."""

    ruling: Ruling
    considered: tuple[Considered, ...]


def explain(
    policy: PermissionPolicy | None,
    over: Sequence[tuple[Rule, str]],
    tool_name: str,
    arguments: JsonValue,
    *,
    questions: Sequence[Sequence[Rule]] = (),
    context: JsonValue = None,
) -> Explanation:
    """What the rules decide about a call.

    Args:
        over: the rules on top of the agent's policy, in their order, each with whose it is.
        questions: those of them that no rule outside of their group allows; see `evaluate`.

    Raises:
        PatternError: a pattern or a message is malformed.
    """
    rules = tuple(rule for rule, _ in over)
    ruling = evaluate(policy, rules, tool_name, arguments, questions=questions, context=context)
    left = list(overlaid(policy, rules).rules)
    considered: list[Considered] = []
    # From the last: of equal rules, the last one counts.
    for rule, origin in reversed([*((rule, "the agent") for rule in (policy.rules if policy else ())), *over]):
        pattern = parse_pattern(rule.tool)
        if pattern.tool.matches(tool_name) is False:
            continue
        unsure = rule.behavior is not Behavior.ALLOW
        matches = pattern.matches(tool_name, arguments, context=context, when_unsure=unsure)
        decides = rule == ruling.rule and all(each.part is not Part.DECIDES for each in considered)
        if rule not in left:
            part = Part.REPLACED
        else:
            left.remove(rule)
            part = Part.DECIDES if decides else Part.MATCHES if matches else Part.OTHER
        considered.append(Considered(rule, origin, part, _why(rule, arguments, context, matches=matches)))
    as_written = considered[::-1]
    return Explanation(ruling, tuple(sorted(as_written, key=lambda each: [*Part].index(each.part))))


def _why(rule: Rule, arguments: JsonValue, context: JsonValue, *, matches: bool) -> str:
    """The values by which the rule matches, or by which it does not."""
    match parse_pattern(rule.tool).arguments:
        case None:
            return "any arguments"
        case TextMatcher():
            return f"the argument is {_shown(primary(arguments))}"
        case conditions:
            unsure = rule.behavior is not Behavior.ALLOW
            failing = (each for each in conditions if not each.holds(arguments, context, when_unsure=unsure))
            told = conditions if matches else [next(failing)]
            return "; ".join(_values(each, arguments, context) for each in told)


def _values(condition: Condition, arguments: JsonValue, context: JsonValue) -> str:
    found = condition.values(arguments, context)
    shown = ", ".join(map(_shown, found[:MOST_VALUES])) + (", …" if len(found) > MOST_VALUES else "")
    is_typed = not isinstance(condition.test, TextMatcher)
    unsure = (is_typed or condition.of_run or ABSENT not in found) and None in map(condition.verdict, found)
    return f"{condition.where} is {shown or 'an empty list'}{', which cannot be compared' if unsure else ''}"


def _shown(value: Found) -> str:
    return "not given" if value is ABSENT else cut(json.dumps(value, ensure_ascii=False), SHOWN_LENGTH)
