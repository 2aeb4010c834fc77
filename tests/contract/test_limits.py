"""The limits on everything that enters history."""

import pytest
from pydantic import JsonValue

from wakeful.contract.errors import CallerError
from wakeful.contract.limits import DEPTH, cut, depth_problem
from wakeful.contract.requests import SETTINGS_BYTES, parse_cancel, parse_decisions, parse_request, parse_submission
from wakeful.contract.tools import FOREIGN_RESULT_BYTES, ToolResult, ToolStatus, tool_outcome


def nested(levels: int) -> JsonValue:
    value: JsonValue = "leaf"
    for level in range(levels):
        value = {"child": value} if level % 2 else [value]
    return value


def test_depth_is_counted_in_levels() -> None:
    assert depth_problem(nested(DEPTH)) is None
    assert depth_problem(nested(DEPTH + 1)) == "it is nested more than 100 levels deep"


def test_a_value_of_any_depth_is_judged_without_recursion() -> None:
    assert depth_problem(nested(100_000)) is not None


@pytest.mark.parametrize("parse", [parse_request, parse_submission, parse_decisions, parse_cancel])
def test_what_clients_send_may_not_be_nested_deeply(parse: object) -> None:
    assert callable(parse)
    with pytest.raises(CallerError, match="nested more than 100 levels deep"):
        parse({"input": nested(500)})


def test_settings_of_a_run_are_bounded() -> None:
    rules = [{"tool": f"tool_{number}_{'x' * 100}", "behavior": "ask"} for number in range(2_000)]
    with pytest.raises(CallerError, match=f"at most {SETTINGS_BYTES:,} are accepted"):
        parse_request({"agent_id": "a", "input": "hello", "permissions": rules})


def test_a_reason_is_cut() -> None:
    assert parse_cancel({"reason": "x" * 5_000}).reason == "x" * 999 + "…"
    assert cut("short") == "short"


def test_a_deep_result_of_a_tool_in_another_language_is_an_error() -> None:
    result = tool_outcome("look", {"result": {"data": nested(150)}}).result
    assert result.status is ToolStatus.ERROR
    assert "its result cannot be read: it is nested more than 100 levels deep" in result.text


@pytest.mark.parametrize("character", ["x", "é", "\U0001f600", "\x01"])
def test_a_long_result_of_a_tool_in_another_language_is_cut(character: str) -> None:
    data = {"tool_name": "look", "status": "success", "data": character * FOREIGN_RESULT_BYTES}
    result = tool_outcome("look", {"result": data}).result
    assert len(result.model_dump_json().encode()) <= FOREIGN_RESULT_BYTES + 500
    assert result.text.startswith(character * 1_000)
    assert "[cut: the result has " in result.text


def test_a_cut_result_is_not_cut_again() -> None:
    result = ToolResult.success("look", "x" * 1_000_000).cut_to(256_000)
    assert tool_outcome("look", {"result": result.model_dump(mode="json")}).result == result


def test_a_short_text_with_long_data_keeps_its_text() -> None:
    long = ToolResult.success("look", {"rows": "x" * 1_000}, "ten rows")
    assert long.cut_to(500) == ToolResult.success("look", None, "ten rows")
