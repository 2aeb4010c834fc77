"""What rules say to people, with the arguments of the call in it (B-807)."""

import pytest
from pydantic import JsonValue

from wakeful.contract.permissions import Behavior, PermissionPolicy, Rule
from wakeful.permissions.messages import MESSAGE_LENGTH, MOST_VALUES, VALUE_LENGTH, parse_message, rendered
from wakeful.permissions.rules import Ruling, evaluate, judge, read_context, rule_problems
from wakeful.permissions.text_matcher import PatternError

ARGUMENTS: JsonValue = {
    "amount": 80.5,
    "order": "A-7",
    "to": {"name": "Ann\n Lee"},
    "items": [{"id": 1}, {"id": "two"}, {}],
    "empty": [],
    "none": None,
}
CONTEXT: JsonValue = {"user": "ann", "metadata": {"team": "finance"}}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("Refund {amount} EUR for order {order}?", "Refund 80.5 EUR for order A-7?"),
        ("Pay {to.name}, as {$user} of {$metadata.team}?", "Pay Ann Lee, as ann of finance?"),
        ("Send {items[*].id} and {items[0]}?", 'Send 1, two, (not given) and {"id":1}?'),
        ("{{amount}} is {amount}, {{{order}}}", "{amount} is 80.5, {A-7}"),
        ("{nothing} for {$tenant}, {none}, {empty[*]}!", "(not given) for (not given), , !"),
        ("Plain.", "Plain."),
    ],
)
def test_a_message_has_the_arguments_of_the_call_and_of_its_run(message: str, text: str) -> None:
    assert rendered(message, ARGUMENTS, CONTEXT) == text


def test_a_value_is_on_one_line_and_short_so_that_the_question_stays_readable() -> None:
    long: JsonValue = {"a": "x" * 5_000 + "\n", "b": list(range(MOST_VALUES + 1))}
    assert rendered("{a}?", long, None) == "x" * (VALUE_LENGTH - 1) + "…?"
    assert rendered("{b[*]}?", long, None) == ", ".join(map(str, range(MOST_VALUES))) + ", …?"
    assert len(rendered("{a}" * 300, long, None)) == MESSAGE_LENGTH


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("Pay {amount?", "message 'Pay {amount?', character 5: a single '{': write '{{' for the character"),
        ("Pay amount}?", "character 11: a single '}': write '}}' for the character"),
        ("Pay {}?", "character 5: '{}': '', character 1: expected a path to an argument, as in a.b[0].c"),
        ("Pay {amount:.2f}?", "'{amount:.2f}': 'amount:.2f', character 7: unexpected ':.2f' after the path"),
        ("Pay {$role}?", "a run has $tenant $user $metadata"),
    ],
)
def test_a_malformed_placeholder_is_reported_with_its_position(message: str, says: str) -> None:
    with pytest.raises(PatternError) as error:
        parse_message(message)
    assert says in str(error.value)
    (problem,) = rule_problems([Rule(tool="pay", behavior=Behavior.ASK, message=message)])
    assert problem == f"permission rule 'pay': {error.value}"


def test_a_rule_that_asks_or_denies_says_its_message_and_another_says_what_rules_say() -> None:
    asking = Rule(tool="pay", behavior=Behavior.ASK, message="Pay {amount}?")
    denying = Rule(tool="pay(amount > 100)", behavior=Behavior.DENY, message="{amount} is for the finance team.")
    policy = PermissionPolicy(rules=(asking, denying))
    asked, denied = (evaluate(policy, (), "pay", {"amount": amount}) for amount in (5, 500))
    assert (asked.question_about("pay"), asked.denial_of("pay"), asked.decided_by) == ("Pay 5?", None, "pay")
    assert (denied.denial_of("pay"), denied.decided_by) == ("500 is for the finance team.", "pay(amount > 100)")
    plain = evaluate(None, [Rule(tool="pay", behavior=Behavior.ASK)], "pay", None)
    assert plain.question_about("pay") == "Permission required for tool 'pay'"
    assert Ruling(Behavior.DENY).denial_of("pay") == "Tool 'pay' denied by permission rules"
    assert Ruling(Behavior.DENY).decided_by == "default_behavior: deny"


def test_a_message_that_cannot_be_read_denies() -> None:
    """The inference rejects it; a hook may add one later, and a rule that cannot be read never allows."""
    broken = Rule(tool="pay", behavior=Behavior.ASK, message="Pay {?")
    ruling = judge(None, (broken,), "pay", None)
    assert ruling.behavior is Behavior.DENY
    assert "could not be evaluated: message 'Pay {?', character 5" in (ruling.denial_of("pay") or "")


def test_a_message_may_read_whose_run_makes_the_call() -> None:
    assert read_context(None, [Rule(tool="pay", behavior=Behavior.ASK, message="Pay for {$user}?")])
    assert not read_context(None, [Rule(tool="pay", behavior=Behavior.ASK, message="Pay?")])
