"""How runs end, and what they use."""

import pytest
from pydantic import JsonValue, TypeAdapter, ValidationError

from wakeful.contract.base import json_bytes
from wakeful.contract.files import FileRef
from wakeful.contract.messages import Base64Source, ImageBlock
from wakeful.contract.runs import (
    RESULT_BYTES,
    BehaviorRequested,
    Blocked,
    Cancelled,
    Errored,
    NaturalEnd,
    Priority,
    RunResult,
    StopDetail,
    Stopped,
    Suspended,
    Termination,
    Usage,
    fitting_result,
    metadata_digest,
    outcome_of,
    priority_of,
    reason_code,
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
    """B-112, B-703: what is not reported stays absent."""
    total = Usage(prompt_tokens=10, total_tokens=10).plus(Usage(prompt_tokens=5, thinking_tokens=3))
    assert total == Usage(prompt_tokens=15, total_tokens=10, thinking_tokens=3)
    assert total.model_dump(mode="json") == {"prompt_tokens": 15, "total_tokens": 10, "thinking_tokens": 3}
    every = Usage(
        prompt_tokens=1,
        completion_tokens=2,
        total_tokens=3,
        cache_read_tokens=4,
        cache_creation_tokens=5,
        thinking_tokens=6,
    )
    doubled = {name: 2 * tokens for name, tokens in every.model_dump(mode="json").items()}
    assert (every.plus(every).model_dump(mode="json"), len(doubled)) == (doubled, 6)


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


ENDS = [
    (NaturalEnd(), "natural", "natural_end"),
    (BehaviorRequested(), "natural", "behavior_requested"),
    (Suspended(), "natural", "suspended"),
    (Stopped(value=StopDetail(code="max_rounds", detail="3 rounds")), "stopped", "max_rounds"),
    (Stopped(value=StopDetail(code="x" * 200)), "stopped", "x" * 100),
    (Blocked(value="not here"), "blocked", "gate"),
    (Blocked(value="not today", code="plugin"), "blocked", "plugin"),
    (Blocked(value="Tool 'rm' denied by permission rules", rule="rm"), "blocked", "rule"),
    (Errored(value="boom"), "error", "error"),
    (Errored(value="no such key", code="unauthorized"), "error", "unauthorized"),
    (Cancelled(), "cancelled", "cancelled"),
]


@pytest.mark.parametrize(("termination", "outcome", "code"), ENDS)
def test_every_end_has_one_of_five_outcomes_and_a_short_code(termination: Termination, outcome: str, code: str) -> None:
    assert (outcome_of(termination), reason_code(termination)) == (outcome, code)


def result_of(termination: Termination, **fields: object) -> RunResult:
    known = {"thread_id": "t1", "run_id": "r1", "agent_id": "assistant", "status_reason": status_reason(termination)}
    return RunResult.model_validate(known | {"termination": termination} | fields)


FILE = FileRef(thread_id="t2", message_id="r2-3", type="image")
PICTURE = ImageBlock(source=Base64Source(media_type="image/png", data="aGk=" * 50_000))


@pytest.mark.parametrize(
    ("termination", "fields"),
    [
        (Cancelled(), {"response": "long " * 50_000, "detail": "because " * 1_000}),
        (Cancelled(), {"response": '"\n' * 50_000}),
        (Cancelled(), {"response": "é" * 70_000, "output": {"kept": True}, "unread": ("m1",)}),
        (Cancelled(), {"output": ["x"] * 50_000, "response": "short"}),
        (Cancelled(), {"unread": ("m" * 200,) * 500, "receipt": {"cancelled": ["t" * 200] * 500}}),
        (Cancelled(), {"artifacts": (PICTURE,), "response": "short"}),
        (Cancelled(), {"tool_files": (FILE,) * 2_000, "response": "short"}),
        (Errored(value="boom" * 50_000), {"agent_id": "a" * 100_000}),
        (Blocked(value="no" * 50_000), {}),
        (Stopped(value=StopDetail(code="c" * 50_000, detail="d" * 50_000)), {}),
        (Stopped(value=StopDetail(code="c" * 70_000)), {"response": "hi"}),
    ],
)
def test_a_result_is_cut_until_it_fits(termination: Termination, fields: dict[str, object]) -> None:
    whole = result_of(termination, **fields)
    fitting = fitting_result(whole)
    assert json_bytes(fitting) <= RESULT_BYTES + 4
    assert (fitting.cut, fitting.termination.type, fitting.run_id) == (True, termination.type, "r1")
    short = {"output": {"kept": True}, "unread": ("m1",), "response": "short"}
    assert {name: getattr(fitting, name) for name in short if fields.get(name) == short[name]} == {
        name: value for name, value in short.items() if fields.get(name) == value
    }


def test_a_result_without_room_for_its_response_has_none() -> None:
    whole = result_of(Cancelled(), response="long")
    assert fitting_result(whole, limit=20).response == ""


def test_a_result_that_fits_is_not_cut() -> None:
    result = result_of(NaturalEnd(), response="x" * 60_000)
    assert fitting_result(result) is result


def test_metadata_is_referred_to_by_a_digest_that_does_not_depend_on_its_order() -> None:
    assert metadata_digest({}) is None
    assert metadata_digest({"a": 1, "b": 2}) == metadata_digest({"b": 2, "a": 1}) != metadata_digest({"a": 1})
