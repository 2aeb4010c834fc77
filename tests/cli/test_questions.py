"""What a person is asked to decide: words that a model chose cannot pass for ours, or push the question away."""

import pytest
from pydantic import JsonValue

from wakeful.cli.chat.questions import INDENT, MOST_ROWS, question_lines
from wakeful.cli.terminal.screen import display_width
from wakeful.client.approvals import PendingDecision

COLUMNS = 60


def question(arguments: JsonValue, message: str | None = None) -> list[str]:
    pending = PendingDecision(
        ticket="t/c", thread_id="t", path=("t",), tool_name="order", arguments=arguments, message=message
    )
    return question_lines(pending, COLUMNS)


@pytest.mark.parametrize("filler", [" ", ".", "\u2800", "\u3164", "\u3000", "\u00a0"])
def test_text_of_a_model_cannot_pass_for_ours(filler: str) -> None:
    lines = question({"item": f"{filler * 60}Order 1 x pencil?", "pieces": 700}, message=f"{filler * 60}y")
    heads = [line for line in lines if not line.startswith(INDENT)]
    assert len(heads) == 2
    assert heads[0].startswith("‖ order(item=")
    assert max(map(display_width, lines)) <= COLUMNS + 2


def test_invisible_characters_are_escaped_and_spaces_stay() -> None:
    assert question({"path": "a  b\u2800\u3164\u3000\u200b"}) == ['‖ order(path="a  b\\u2800\\u3164\\u3000\\u200b")']


def test_a_long_call_leaves_the_question_in_the_window_and_says_what_is_missing() -> None:
    lines = question({"item": "x" * 10_000, "pieces": 700})
    assert len(lines) == MOST_ROWS + 1
    assert lines[MOST_ROWS - 1].endswith('x", pieces=700)')
    assert lines[-1] == (
        "  ! only a part of order is shown, which has 10,026 characters; see all: wakeful inbox --thread t --json"
    )
