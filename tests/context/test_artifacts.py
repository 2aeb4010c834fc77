"""Long tool results are cut in requests, and nowhere else."""

import pytest

from tests.context.talking import assistant, result, system, user
from wakeful.context.window import shown
from wakeful.contract.messages import ImageBlock, Message, TextBlock, UrlSource

LONG = "x" * 8192


def test_a_long_result_is_cut_to_its_first_characters_with_a_note() -> None:
    """B-454"""
    note = "[Content compacted: original ~2048 tokens, showing first 1600 chars]"
    assert shown(result("c1", LONG)) == result("c1", f"{'x' * 1600}\n\n{note}")


def test_a_long_result_with_short_lines_is_cut_to_its_first_lines() -> None:
    """B-454"""
    lines = [f"line {number}" for number in range(1, 2001)]
    first = "\n".join(lines[:24])
    note = f"[Content compacted: original ~{len(chr(10).join(lines)) // 4} tokens, showing first {len(first)} chars]"
    assert shown(result("c1", "\n".join(lines))) == result("c1", f"{first}\n\n{note}")


def test_a_result_just_below_the_limit_is_shown_whole() -> None:
    """B-454"""
    message = result("c1", LONG[1:])
    assert shown(message) is message


@pytest.mark.parametrize("message", [user("u", LONG), system("s", LONG), assistant("a", LONG)], ids=["u", "s", "a"])
def test_what_others_say_is_never_cut(message: Message) -> None:
    """B-454"""
    assert shown(message) is message


def test_only_the_long_texts_of_a_result_are_cut() -> None:
    """B-454"""
    image, short = ImageBlock(source=UrlSource(url="https://example.org/" + LONG)), TextBlock(text="short")
    message = result("c1").model_copy(update={"content": (image, short, TextBlock(text=LONG))})
    cut = shown(message)
    assert cut.content == (image, short, *shown(result("c1", LONG)).content)


def test_cutting_leaves_the_message_itself_whole() -> None:
    """B-454"""
    message = result("c1", LONG)
    assert shown(message) != message
    assert message.text == LONG


def test_what_was_cut_is_not_cut_again() -> None:
    cut = shown(result("c1", LONG))
    assert shown(cut) is cut
