"""Decisions as people write them and as calls record them."""

import pytest
from pydantic import JsonValue, ValidationError

from wakeful.contract.decisions import (
    RESULT_LIMIT,
    ClientDecisions,
    Decision,
    DecisionAction,
    ResumeMode,
    Suspension,
    SuspensionTicket,
    ToolCallResume,
    digest_arguments,
)
from wakeful.contract.errors import InvalidValue
from wakeful.contract.messages import ToolCall
from wakeful.contract.names import ACTION_PERMISSION, TOOL_REMOTE_INPUT


@pytest.mark.parametrize("name", ["target", "call_id", "suspension_id"])
def test_a_decision_names_its_call_by_any_of_three_fields(name: str) -> None:
    """B-321"""
    decision = Decision.model_validate({name: "1-1", "action": "resume"})
    assert decision == Decision(target="1-1", action=DecisionAction.RESUME)


def test_a_decision_names_its_call_once() -> None:
    with pytest.raises(ValidationError, match="call_id"):
        Decision.model_validate({"target": "1-1", "call_id": "1-2", "action": "resume"})


@pytest.mark.parametrize("wrong", [{"action": "resume"}, {"target": "", "action": "resume"}])
def test_a_decision_without_a_target_is_rejected(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="target"):
        Decision.model_validate(wrong)


def test_a_decision_resumes_or_cancels_and_nothing_else() -> None:
    with pytest.raises(ValidationError, match="action"):
        Decision.model_validate({"target": "1-1", "action": "approve"})


def test_a_call_records_the_whole_decision_and_when_it_was_applied() -> None:
    """B-322"""
    decision = Decision(
        target="1-1", action=DecisionAction.RESUME, result=[1], reason="fine", decision_id="d1", actor="ann"
    )
    assert decision.resume(7) == ToolCallResume(
        decision_id="d1", action=DecisionAction.RESUME, result=[1], reason="fine", actor="ann", updated_at=7
    )


def test_a_decision_without_an_id_is_recorded_with_an_empty_one() -> None:
    """B-320"""
    decision = Decision(target="1-1", action=DecisionAction.CANCEL)
    assert decision.resume(7) == ToolCallResume(action=DecisionAction.CANCEL, updated_at=7)


def test_the_digest_of_arguments_does_not_depend_on_the_order_of_keys() -> None:
    assert (
        digest_arguments({"at": "Paris", "on": 1}) == digest_arguments({"on": 1, "at": "Paris"}) == "a32cf38e397dc7b2"
    )
    assert digest_arguments(None) != digest_arguments({})


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_an_escalation_time_is_positive_and_finite(seconds: float) -> None:
    with pytest.raises(ValidationError, match="escalate_after_seconds"):
        Suspension(id="s1", action="ask", escalate_after_seconds=seconds)


def test_a_result_that_is_too_large_for_a_model_is_rejected() -> None:
    with pytest.raises(InvalidValue, match="it has 256,002 bytes; at most 256,000 are accepted"):
        Decision(target="1-1", action=DecisionAction.RESUME, result="x" * RESULT_LIMIT)


def test_a_result_is_measured_in_the_bytes_that_it_has_in_history() -> None:
    Decision(target="1-1", action=DecisionAction.RESUME, result="漢" * 85_000)
    with pytest.raises(InvalidValue, match="it has 258,002 bytes"):
        Decision(target="1-1", action=DecisionAction.RESUME, result="漢" * 86_000)


def ticket(
    mode: ResumeMode = ResumeMode.REPLAY_TOOL_CALL,
    *,
    action: str = "choose",
    schema: JsonValue = None,
    tool: str = "ask",
    arguments: JsonValue = None,
) -> SuspensionTicket:
    suspension = Suspension(id="s", action=action, response_schema=schema)
    return SuspensionTicket(
        suspension=suspension, pending=ToolCall(id="1-1", name=tool, arguments=arguments), resume_mode=mode
    )


def test_a_call_that_runs_again_without_a_value_is_an_approval_whatever_it_asks() -> None:
    assert not ticket().is_question(gated=False)
    assert ticket(schema={"type": "string"}).is_question(gated=False)
    assert ticket(ResumeMode.USE_DECISION_AS_TOOL_RESULT).is_question(gated=False)
    assert ticket(ResumeMode.PASS_DECISION_TO_TOOL).is_question(gated=False)


def test_what_a_rule_or_a_gate_asks_is_no_question_also_if_it_has_a_schema() -> None:
    """Else a client that may answer questions would let a call run that a gate has suspended."""
    assert not ticket(schema={"type": "string"}).is_question(gated=True)
    assert not ticket(ResumeMode.PASS_DECISION_TO_TOOL).is_question(gated=True)
    permission = ticket(action=ACTION_PERMISSION, schema={"type": "string"})
    assert permission.is_about_auth
    assert not permission.is_question(gated=False)


@pytest.mark.parametrize(
    ("arguments", "is_question", "is_about_auth"),
    [
        ({"kind": "input"}, True, False),
        ({"kind": "auth"}, False, True),
        ({"cut": "…"}, False, False),
        (None, False, False),
    ],
)
def test_a_remote_agent_asks_a_question_only_if_it_asks_for_input(
    arguments: JsonValue, is_question: bool, is_about_auth: bool
) -> None:
    asked = ticket(ResumeMode.USE_DECISION_AS_TOOL_RESULT, tool=TOOL_REMOTE_INPUT, arguments=arguments)
    assert (asked.is_question(gated=False), asked.is_about_auth) == (is_question, is_about_auth)


def test_clients_decide_nothing_questions_or_everything() -> None:
    decided = {it: (it.include(is_question=True), it.include(is_question=False)) for it in ClientDecisions}
    assert decided == {
        ClientDecisions.NONE: (False, False),
        ClientDecisions.QUESTIONS: (True, False),
        ClientDecisions.ALL: (True, True),
    }
