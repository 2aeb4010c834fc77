"""Decisions as people write them and as calls carry them."""

import pytest
from pydantic import ValidationError

from wakeful.contract.decisions import Decision, DecisionAction, ToolCallResume


@pytest.mark.parametrize("name", ["target", "call_id", "suspension_id"])
def test_a_decision_names_its_call_in_any_of_three_words(name: str) -> None:
    """B-321"""
    decision = Decision.model_validate({name: "c1", "action": "resume"})
    assert decision == Decision(target="c1", action=DecisionAction.RESUME)


def test_a_decision_names_its_call_once() -> None:
    with pytest.raises(ValidationError, match="call_id"):
        Decision.model_validate({"target": "c1", "call_id": "c2", "action": "resume"})


@pytest.mark.parametrize("wrong", [{"action": "resume"}, {"target": "", "action": "resume"}])
def test_a_decision_about_nothing_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="target"):
        Decision.model_validate(wrong)


def test_a_decision_resumes_or_cancels_and_nothing_else() -> None:
    with pytest.raises(ValidationError, match="action"):
        Decision.model_validate({"target": "c1", "action": "approve"})


def test_a_call_carries_the_whole_decision_and_when_it_was_applied() -> None:
    """B-322"""
    decision = Decision(
        target="c1", action=DecisionAction.RESUME, result=[1], reason="fine", decision_id="d1", actor="ann"
    )
    assert decision.resume(7) == ToolCallResume(
        decision_id="d1", action=DecisionAction.RESUME, result=[1], reason="fine", actor="ann", updated_at=7
    )


def test_a_decision_without_an_id_is_carried_with_an_empty_one() -> None:
    """B-320"""
    decision = Decision(target="c1", action=DecisionAction.CANCEL)
    assert decision.resume(7) == ToolCallResume(action=DecisionAction.CANCEL, updated_at=7)
