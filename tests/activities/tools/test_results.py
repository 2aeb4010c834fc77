"""What tools return: whatever it is, history can hold it and read it again."""

from typing import Any

import pytest

from wakeful import attachment
from wakeful.contract.decisions import Suspension, SuspensionTicket
from wakeful.contract.errors import ToolError
from wakeful.contract.messages import Base64Source, ImageBlock, TextBlock, ToolCall
from wakeful.contract.tools import ToolOutcome, ToolResult, ToolStatus, tool_outcome
from wakeful_activities.results import RESULT_LIMIT, as_result, cut_to_fit


def nested(levels: int) -> Any:
    value: Any = "leaf"
    for _ in range(levels):
        value = {"child": value}
    return value


def read_again(result: ToolResult) -> ToolResult:
    """As the next step reads it from history."""
    written = ToolOutcome(result=result).model_dump_json()
    return tool_outcome(result.tool_name, ToolOutcome.model_validate_json(written).model_dump(mode="json")).result


@pytest.mark.parametrize("levels", [95, 120, 230])
def test_a_nested_result_can_be_read_again_or_is_an_error(levels: int) -> None:
    result = cut_to_fit(as_result("look", nested(levels)))
    assert read_again(result) == result
    assert (result.status is ToolStatus.SUCCESS) == (levels == 95)


def endless() -> list[Any]:
    entries: list[Any] = []
    entries.append(entries)
    return entries


@pytest.mark.parametrize("value", [nested(400), nested(10_000), endless(), b"\xff\xfe", object()])
def test_what_json_cannot_hold_is_a_tool_error(value: Any) -> None:
    with pytest.raises(ToolError, match="which JSON cannot hold"):
        as_result("look", value)


def test_half_a_surrogate_pair_is_replaced() -> None:
    """`os.listdir` returns such names of files that are not UTF-8."""
    result = cut_to_fit(as_result("look", {"name": "report-\udce9.txt"}))
    assert result.data == {"name": "report-?.txt"}
    assert read_again(result) == result


def test_the_metadata_of_a_long_result_is_dropped_with_it() -> None:
    long = ToolResult.success("look", "x").model_copy(update={"metadata": {"trace": "y" * 1_000_000}})
    assert len(cut_to_fit(long).model_dump_json()) < RESULT_LIMIT


def test_a_ticket_that_is_too_large_is_an_error() -> None:
    suspension = Suspension(id="", action="ask", parameters="x" * (RESULT_LIMIT + 1))
    ticket = SuspensionTicket(suspension=suspension, pending=ToolCall(id="1-1", name="look"))
    result = cut_to_fit(ToolResult.suspended("look", ticket))
    assert result.status is ToolStatus.ERROR
    assert "the ticket of its suspension has" in result.text


PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


def picture(size: int) -> ImageBlock:
    return ImageBlock(source=Base64Source(media_type="image/png", data="x" * size))


def test_a_list_of_text_json_and_media_is_one_text_and_its_media() -> None:
    chart, report = attachment(PNG), attachment(b"%PDF-1.7", title="Report")
    result = as_result("draw", ["Here is the chart:", chart, {"rows": 3}, TextBlock(text="and the report"), report])
    assert result == ToolResult(
        tool_name="draw",
        status=ToolStatus.SUCCESS,
        message='Here is the chart:\n{"rows":3}\nand the report',
        media=(chart, report),
    )
    assert read_again(cut_to_fit(result)) == result


def test_a_block_alone_is_content_and_a_list_without_blocks_is_json() -> None:
    assert as_result("draw", attachment(PNG)).text == "The tool returned no text, but content: 1 of type 'image'."
    assert as_result("draw", TextBlock(text="plain")).text == "plain"
    assert as_result("draw", ["a", {"b": 1}]) == ToolResult.success("draw", ["a", {"b": 1}])


def test_only_the_media_that_do_not_fit_are_left_out_and_the_model_reads_which() -> None:
    small, large, other = picture(100_000), picture(RESULT_LIMIT), picture(90_000)
    result = cut_to_fit(as_result("draw", ["three", small, large, other]))
    assert result.media == (small, other)
    assert result.message == (
        "three\n[image (image/png) of 256,078 bytes left out: a result may have 256,000. Ask for a smaller one, or for "
        "a URL.]"
    )
