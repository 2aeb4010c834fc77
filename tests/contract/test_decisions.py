"""Decisions as people write them and as calls carry them."""

import pytest
from pydantic import ValidationError

from wakeful.contract.decisions import (
    RESULT_LIMIT,
    Decision,
    DecisionAction,
    Suspension,
    ToolCallResume,
    digest_arguments,
)


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


def test_arguments_have_one_name_whatever_order_they_are_written_in() -> None:
    assert (
        digest_arguments({"at": "Paris", "on": 1}) == digest_arguments({"on": 1, "at": "Paris"}) == "a32cf38e397dc7b2"
    )
    assert digest_arguments(None) != digest_arguments({})


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_watchers_are_told_again_after_some_time_and_not_at_once(seconds: float) -> None:
    with pytest.raises(ValidationError, match="escalate_after_seconds"):
        Suspension(id="s1", action="ask", escalate_after_seconds=seconds)


def test_a_result_that_no_model_could_read_is_refused() -> None:
    with pytest.raises(ValidationError, match="at most 256,000 fit: shorten it"):
        Decision(target="c1", action=DecisionAction.RESUME, result="x" * RESULT_LIMIT)
