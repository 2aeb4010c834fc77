"""What the model reads of a tool's result, and which tools may run again."""

import pytest
from pydantic import JsonValue

from wakeful.contract.decisions import Suspension, SuspensionTicket
from wakeful.contract.messages import Base64Source, ImageBlock, ToolCall
from wakeful.contract.tools import (
    Effects,
    ToolDescriptor,
    ToolOutcome,
    ToolResult,
    ToolStatus,
    never_started,
    tool_outcome,
)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ToolResult.success("look", {"sky": "sunny"}, "It is sunny"), "It is sunny"),
        (ToolResult.success("look", "sunny"), "sunny"),
        (ToolResult.success("look", {"sky": ["blå", 1]}), '{"sky":["blå",1]}'),
        (ToolResult.success("look", None), "null"),
        (ToolResult.success("look", 1, ""), ""),
        (ToolResult.error("look", "no such city"), "no such city"),
        (ToolResult.error_with_code("look", "E7", "no such city"), "[E7] no such city"),
    ],
)
def test_the_model_reads_the_message_else_the_data(result: ToolResult, text: str) -> None:
    """B-207"""
    assert result.text == text


def test_a_result_is_a_success_with_data_or_an_error_with_a_message() -> None:
    """B-203"""
    assert (ToolResult.success("look", {"sky": "sunny"}, "It is sunny"), ToolResult.error("look", "no such city")) == (
        ToolResult(tool_name="look", status=ToolStatus.SUCCESS, data={"sky": "sunny"}, message="It is sunny"),
        ToolResult(tool_name="look", status=ToolStatus.ERROR, message="no such city"),
    )


def test_a_suspended_result_is_pending_with_or_without_a_ticket() -> None:
    """B-203, B-312"""
    ticket = SuspensionTicket(suspension=Suspension(id="s", action="ask"), pending=ToolCall(id="1-1", name="look"))
    assert (ToolResult.suspended("look", ticket), ToolResult.suspended("look", message="May I?")) == (
        ToolResult(tool_name="look", status=ToolStatus.PENDING, suspension=ticket),
        ToolResult(tool_name="look", status=ToolStatus.PENDING, message="May I?"),
    )


def test_only_idempotent_and_read_only_tools_may_run_again() -> None:
    assert {effects: effects.may_repeat for effects in Effects} == {
        Effects.ONCE: False,
        Effects.IDEMPOTENT: True,
        Effects.READ_ONLY: True,
    }


def test_a_tool_outcome_is_read_unchanged() -> None:
    outcome = ToolOutcome(result=ToolResult.error("look", "no such city"))
    assert tool_outcome("look", outcome.model_dump(mode="json")) == outcome


@pytest.mark.parametrize(
    "returned",
    ["sunny", None, [1], {"sky": "sunny"}, {"result": "sunny"}, {"result": {"sky": "sunny"}}],
)
def test_any_other_json_is_the_data_of_a_success(returned: object) -> None:
    read = tool_outcome("look", returned)
    assert read.result.model_dump() == {"tool_name": "look", "status": "success", "data": returned, "message": None}


@pytest.mark.parametrize(
    "returned",
    [
        {"result": {"status": "shipped"}},
        {"result": {"status": "pending"}, "blocked": "by the carrier"},
        {"result": {"tool_name": "hammer", "status": "success", "data": None}, "handoff": "clerk"},
        {"result": {"tool_name": "track"}},
    ],
)
def test_data_that_only_resembles_an_outcome_is_data(returned: JsonValue) -> None:
    assert tool_outcome("track", returned) == ToolOutcome(result=ToolResult.success("track", returned))


TICKET = {"suspension": {"id": "s", "action": "a"}, "pending": {"id": "1-1", "name": "pay", "arguments": {}}}


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        (b"\x00\x01", "it is binary data of 2 bytes, and not JSON"),
        (
            {"result": {"tool_name": "pay", "status": "paid", "data": 7}},
            "result.status: Input should be 'success', 'pending' or 'error'",
        ),
        (
            {"result": {"tool_name": "pay", "status": "pending", "suspension": {"suspension": {}}}},
            "result.suspension.suspension.id: Field required",
        ),
        ({"result": {"status": "pending", "suspension": TICKET}}, 'its suspension lacks "tool_name": "pay"'),
        ({"result": {"tool_name": "pay", "status": "success", "data": object()}}, "result.data: "),
    ],
)
def test_a_malformed_outcome_is_an_error_and_never_a_success(returned: object, problem: str) -> None:
    result = tool_outcome("pay", returned).result
    assert result.status is ToolStatus.ERROR
    assert result.text.startswith(f"The tool ran, but its result cannot be read: {problem}")
    assert result.text.endswith(". Check what it did before you call it again.")


def test_a_call_that_no_worker_has_started_names_its_queue_and_its_time() -> None:
    tool = ToolDescriptor(id="pay", name="pay", description="", parameters={}, task_queue="bank", queue_seconds=30)
    assert "no worker of task queue 'bank' has started it within 30 seconds" in never_started(tool)


def test_media_of_a_result_that_is_too_large_are_left_out_with_a_note() -> None:
    """B-830"""
    image = ImageBlock(source=Base64Source(media_type="image/png", data="A" * 500))
    result = ToolResult(tool_name="draw", status=ToolStatus.SUCCESS, message="a picture", media=(image,))
    assert result.cut_to(1_000) is result
    assert result.cut_to(400) == ToolResult.success(
        "draw", None, "a picture\n[image left out: the whole result may have 400 bytes]"
    )
