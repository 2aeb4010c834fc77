"""Estimates by characters, and what providers' reports make of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.context.conversations import assistant, user
from wakeful.context.tokens import (
    MAX_FACTOR,
    MIN_FACTOR,
    calibrated,
    message_tokens,
    messages_tokens,
    request_tokens,
    scaled,
    tool_tokens,
    tools_tokens,
)
from wakeful.contract.inference import ModelRequest
from wakeful.contract.messages import ImageBlock, Message, Role, TextBlock, ThinkingBlock, UrlSource
from wakeful.contract.tools import ToolDescriptor

TOOL = ToolDescriptor(id="look", name="look", description="Look it up.", parameters={"type": "object"})
factors = st.floats(MIN_FACTOR, MAX_FACTOR)
counts = st.integers(1, 10**9)


def test_a_request_takes_its_instructions_its_tools_and_its_messages() -> None:
    said = (user("u", "Hello."), assistant("a", "Hi."))
    request = ModelRequest(model="m", instructions="x" * 40, messages=said, tools=(TOOL,))
    assert request_tokens(request) == 14 + tool_tokens(TOOL) + messages_tokens(said)


def test_a_message_takes_four_tokens_and_one_for_every_four_characters() -> None:
    """B-451"""
    assert [message_tokens(user("u", "x" * length)) for length in (0, 3, 4, 401)] == [4, 4, 5, 104]


def test_a_block_that_is_not_text_counts_as_fifty_characters() -> None:
    """B-451"""
    image = ImageBlock(source=UrlSource(url="https://example.org/" + "x" * 1000))
    content = (image, TextBlock(text="xx"), ThinkingBlock(thinking="x" * 1000))
    assert message_tokens(Message(id="m", role=Role.USER, content=content)) == 4 + (50 + 2 + 50) // 4


def test_the_calls_of_a_message_count_with_their_arguments() -> None:
    """B-451"""
    assert (
        message_tokens(assistant("a", calls=["c1"], arguments={"city": "Oslo"})) == 4 + len('look{"city":"Oslo"}') // 4
    )


def test_a_tool_takes_its_name_and_description_whole_and_a_quarter_of_its_schema() -> None:
    """B-451"""
    assert tool_tokens(TOOL) == 10 + len("look") + len("Look it up.") + len('{"type":"object"}') // 4


def test_the_tokens_of_several_are_the_sum() -> None:
    assert messages_tokens([user("u", "x" * 8), assistant("a")]) == 10
    assert tools_tokens([TOOL, TOOL]) == 2 * tool_tokens(TOOL)
    assert (messages_tokens([]), tools_tokens([])) == (0, 0)


def test_a_corrected_estimate_is_rounded_up() -> None:
    assert [scaled(10, factor) for factor in (1.0, 1.01, 0.25)] == [10, 11, 3]


@pytest.mark.parametrize("reported", [None, 0, -5])
def test_a_report_without_tokens_does_not_change_the_factor(reported: int | None) -> None:
    assert calibrated(1.5, 1000, reported) == 1.5


def test_an_estimate_of_zero_does_not_change_the_factor() -> None:
    assert calibrated(1.5, 0, 1000) == 1.5


def test_a_report_moves_the_factor_part_of_the_way() -> None:
    assert calibrated(1.0, 1000, 2000) == pytest.approx(1.3)
    assert calibrated(1.0, 1000, 500) == pytest.approx(0.85)
    assert calibrated(2.0, 1000, 1000) == 2.0


def test_an_outlier_moves_the_factor_no_further_than_a_bound_would() -> None:
    assert calibrated(1.0, 1, 10**9) == pytest.approx(1.9)
    assert calibrated(1.0, 10**9, 1) == pytest.approx(0.775)


def test_repeated_reports_make_the_estimates_converge() -> None:
    factor = 1.0
    for _ in range(30):
        factor = calibrated(factor, scaled(10_000, factor), 17_000)
    assert scaled(10_000, factor) == pytest.approx(17_000, rel=0.001)


@settings(deadline=None)
@given(factor=st.floats(0.01, 100), estimated=counts, reported=counts)
def test_the_factor_stays_within_its_bounds_whatever_is_reported(factor: float, estimated: int, reported: int) -> None:
    assert MIN_FACTOR <= calibrated(factor, estimated, reported) <= MAX_FACTOR


@settings(deadline=None)
@given(factor=factors, estimated=counts, reported=counts)
def test_the_factor_never_moves_away_from_a_report(factor: float, estimated: int, reported: int) -> None:
    learnt = calibrated(factor, estimated, reported)
    assert learnt >= factor if reported >= estimated else learnt <= factor
