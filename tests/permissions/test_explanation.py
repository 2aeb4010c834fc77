"""Which rule decides about a call, and why, for people who review rules (B-809)."""

import pytest
from pydantic import JsonValue

from wakeful.contract.permissions import Behavior, PermissionPolicy, Rule
from wakeful.permissions.explanation import explain
from wakeful.permissions.rules import Ruling

ASK_LARGE = Rule(tool="charge(amount > 100)", behavior="ask", message="Charge {amount} EUR?")
DENY_FOREIGN = Rule(tool='charge(country not in ["DE", "AT"])', behavior="deny")
DENY_OF_BETA = Rule(tool='charge($tenant = "beta")', behavior="deny")
ASK = Rule(tool="charge", behavior="ask")
OTHER = Rule(tool="refund", behavior="deny")
POLICY = PermissionPolicy(default_behavior=Behavior.ALLOW, rules=(ASK_LARGE, DENY_FOREIGN, DENY_OF_BETA, ASK, OTHER))


def told(arguments: JsonValue, *over: tuple[Rule, str], context: JsonValue = None) -> list[tuple[str, str, str, str]]:
    considered = explain(POLICY, over, "charge", arguments, context=context).considered
    return [(each.rule.tool, each.origin, each.part.value, each.why) for each in considered]


def test_the_rule_that_decides_comes_first_and_every_rule_for_the_tool_says_why() -> None:
    context: JsonValue = {"tenant": "acme"}
    arguments: JsonValue = {"amount": 250, "country": "DE"}
    assert told(arguments, context=context) == [
        (ASK_LARGE.tool, "the agent", "decides", "amount is 250"),
        (ASK.tool, "the agent", "also matches", "any arguments"),
        (DENY_FOREIGN.tool, "the agent", "does not match", 'country is "DE"'),
        (DENY_OF_BETA.tool, "the agent", "does not match", '$tenant is "acme"'),
    ]
    ruling = explain(POLICY, (), "charge", arguments, context=context).ruling
    assert (ruling.behavior, ruling.message) == (Behavior.ASK, "Charge 250 EUR?")


def test_what_cannot_be_compared_is_told() -> None:
    assert told({"amount": "250 EUR"}) == [
        (DENY_OF_BETA.tool, "the agent", "decides", "$tenant is not given, which cannot be compared"),
        (ASK_LARGE.tool, "the agent", "also matches", 'amount is "250 EUR", which cannot be compared'),
        (DENY_FOREIGN.tool, "the agent", "also matches", "country is not given, which cannot be compared"),
        (ASK.tool, "the agent", "also matches", "any arguments"),
    ]


def test_a_rule_that_another_replaces_is_told_with_whose_the_others_are() -> None:
    allow = Rule(tool="charge", behavior="allow")
    found = told({"amount": 5, "country": "AT"}, (allow, "the thread"), (allow, "the run"), context={"tenant": "a"})
    assert [each[:3] for each in found] == [
        ("charge", "the run", "decides"),
        ("charge", "the agent", "is replaced"),
        ("charge", "the thread", "is replaced"),
        (ASK_LARGE.tool, "the agent", "does not match"),
        (DENY_FOREIGN.tool, "the agent", "does not match"),
        (DENY_OF_BETA.tool, "the agent", "does not match"),
    ]


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("charge(git *)", {"command": "git log"}, 'the argument is "git log"'),
        ('charge(to = "x")', {}, "to is not given"),
        ("charge(items[*] > 5)", {"items": []}, "items[*] is an empty list"),
        ("charge(items[*] > 0)", {"items": [1, 2, 3, 4]}, "items[*] is 1, 2, 3, …"),
        ('charge(to = "x", amount = 5)', {"to": "x", "amount": 5}, 'to is "x"; amount is 5'),
        ('charge(to =~ "x")', {"to": "x" * 100_001}, f'to is "{"x" * 78}…, which cannot be compared'),
    ],
)
def test_the_values_that_a_rule_is_compared_with_are_told(tool: str, arguments: JsonValue, why: str) -> None:
    (only,) = explain(None, [(Rule(tool=tool, behavior="ask"), "the run")], "charge", arguments).considered
    assert only.why == why


def test_without_a_rule_the_default_decides() -> None:
    explained = explain(POLICY, (), "stock", None)
    assert (explained.ruling, explained.considered) == (Ruling(Behavior.ALLOW), ())
    assert explain(None, (), "stock", None).ruling.decided_by == "default_behavior: allow"
