"""How runs end, and what they use."""

import pytest
from pydantic import JsonValue, TypeAdapter, ValidationError

from wakeful.contract.runs import (
    BehaviorRequested,
    Blocked,
    Cancelled,
    Errored,
    NaturalEnd,
    Priority,
    StopDetail,
    Stopped,
    Suspended,
    Termination,
    Usage,
    priority_of,
    status_reason,
)


@pytest.mark.parametrize(
    ("termination", "reason"),
    [
        (NaturalEnd(), "natural"),
        (BehaviorRequested(), "behavior_requested"),
        (Stopped(value=StopDetail(code="max_rounds", detail="16 rounds")), "stopped:max_rounds"),
        (Cancelled(), "cancelled"),
        (Blocked(value="denied"), "blocked:denied"),
        (Suspended(), "suspended"),
        (Errored(value="no credit"), "error:no credit"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_termination_has_a_status_reason(termination: Termination, reason: str) -> None:
    """B-011, H-17: the message of an error is in its reason."""
    assert status_reason(termination) == reason


def test_usage_is_added_field_by_field() -> None:
    """B-703"""
    total = Usage(prompt_tokens=10, total_tokens=10).plus(Usage(prompt_tokens=5, thinking_tokens=3))
    assert total == Usage(prompt_tokens=15, total_tokens=10, thinking_tokens=3)


def test_a_negative_usage_report_is_ignored() -> None:
    """B-112"""
    total = Usage(prompt_tokens=10).plus(Usage(prompt_tokens=-5, completion_tokens=-1))
    assert total == Usage(prompt_tokens=10, completion_tokens=0)


def test_a_sum_with_an_estimate_is_an_estimate() -> None:
    estimate = Usage(prompt_tokens=5, estimated=True)
    assert Usage(prompt_tokens=10).plus(estimate) == Usage(prompt_tokens=15, estimated=True)
    assert estimate.plus(Usage(prompt_tokens=10)) == Usage(prompt_tokens=15, estimated=True)


def test_usage_that_is_not_reported_stays_absent() -> None:
    assert Usage().plus(Usage()) == Usage()


@pytest.mark.parametrize(
    ("termination", "written"),
    [
        (NaturalEnd(), {"type": "natural_end"}),
        (BehaviorRequested(), {"type": "behavior_requested"}),
        (
            Stopped(value=StopDetail(code="max_rounds", detail="16 rounds")),
            {"type": "stopped", "value": {"code": "max_rounds", "detail": "16 rounds"}},
        ),
        (Stopped(value=StopDetail(code="budget")), {"type": "stopped", "value": {"code": "budget"}}),
        (Cancelled(), {"type": "cancelled"}),
        (Blocked(value="denied"), {"type": "blocked", "value": "denied"}),
        (Suspended(), {"type": "suspended"}),
        (Errored(value="no credit"), {"type": "error", "value": "no credit"}),
    ],
    ids=str,
)
def test_a_termination_is_a_type_and_perhaps_a_value(termination: Termination, written: JsonValue) -> None:
    """B-010"""
    assert (termination.model_dump(mode="json"), TypeAdapter(Termination).validate_python(written)) == (
        written,
        termination,
    )


def test_a_tenant_with_a_long_name_has_a_short_fairness_key_of_its_own() -> None:
    """B-665"""
    keys = [priority_of(None, tenant).fairness_key for tenant in ("ü" * 32, "ü" * 33, "ü" * 34)]
    assert keys[0] == "ü" * 32
    assert len({*keys}) == 3
    assert all(Priority(fairness_key=key) for key in keys)


@pytest.mark.parametrize(
    "wrong", [{"priority_key": 0}, {"fairness_key": "ü" * 33}, {"fairness_key": ""}, {"fairness_weight": 0}]
)
def test_a_priority_that_temporal_would_refuse_is_an_error(wrong: dict[str, object]) -> None:
    """B-665"""
    with pytest.raises(ValidationError):
        Priority.model_validate(wrong)
