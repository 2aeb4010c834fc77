"""What a rule may say beside its pattern and its behavior."""

import pytest
from pydantic import ValidationError

from wakeful.contract.decisions import Expiry, ExpiryAction
from wakeful.contract.errors import InvalidValue
from wakeful.contract.permissions import Behavior, Rule


def test_a_rule_that_asks_has_a_deadline_as_a_suspension_has() -> None:
    rule = Rule(tool="pay", behavior="ask", expires_after=3600, on_expiry="deny", escalate_after=60)
    assert rule.expiry == Expiry(after_seconds=3600, then=ExpiryAction.DENY)
    assert Rule(tool="pay", behavior="ask", expires_after=5).expiry == Expiry(after_seconds=5)
    assert Rule(tool="pay", behavior="ask").expiry is None
    assert Rule.model_validate_json(rule.model_dump_json()) == rule


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"behavior": "allow", "message": "x"}, "a rule that says 'allow' has no message: only 'ask' or 'deny' can"),
        ({"behavior": "deny", "expires_after": 5}, "a rule that says 'deny' has no expires_after: only 'ask' can have"),
        ({"behavior": "allow", "escalate_after": 5}, "a rule that says 'allow' has no escalate_after: only 'ask'"),
        ({"behavior": "ask", "on_expiry": "deny"}, "on_expiry='deny' needs expires_after, in seconds"),
        ({"behavior": "ask", "expires_after": 5, "on_expiry": "resume"}, "on_expiry"),
        ({"behavior": "ask", "expires_after": 0}, "expires_after"),
        ({"behavior": "ask", "expires_after": float("inf")}, "expires_after"),
        ({"behavior": "ask", "message": ""}, "message"),
        ({"behavior": "ask", "message": "x" * 1_001}, "message"),
    ],
)
def test_a_rule_that_does_not_fit_its_behavior_is_refused(fields: dict[str, object], says: str) -> None:
    """Silence never approves a call: a question cannot expire with its resumption."""
    with pytest.raises((InvalidValue, ValidationError), match=says):
        Rule.model_validate({"tool": "pay", **fields})


def test_a_plain_rule_is_written_as_before() -> None:
    assert Rule(tool="pay", behavior=Behavior.ASK).model_dump(mode="json") == {"tool": "pay", "behavior": "ask"}
