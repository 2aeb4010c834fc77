"""Long tool results are shortened in requests, and nowhere else."""

import pytest

from tests.context.conversations import assistant, result, system, user
from wakeful.context.window import shortened
from wakeful.contract.messages import ImageBlock, Message, TextBlock, UrlSource

LONG = "x" * 8192


def test_a_long_result_is_shortened_to_its_first_characters_with_a_note() -> None:
    """B-454"""
    note = "[Content compacted: original ~2048 tokens, showing first 1600 chars]"
    assert shortened(result("c1", LONG)) == result("c1", f"{'x' * 1600}\n\n{note}")


def test_a_long_result_with_short_lines_is_shortened_to_its_first_lines() -> None:
    """B-454"""
    lines = [f"line {number}" for number in range(1, 2001)]
    first = "\n".join(lines[:24])
    note = f"[Content compacted: original ~{len(chr(10).join(lines)) // 4} tokens, showing first {len(first)} chars]"
    assert shortened(result("c1", "\n".join(lines))) == result("c1", f"{first}\n\n{note}")


def test_a_result_just_under_the_limit_is_included_whole() -> None:
    """B-454"""
    message = result("c1", LONG[1:])
    assert shortened(message) is message


@pytest.mark.parametrize("message", [user("u", LONG), system("s", LONG), assistant("a", LONG)], ids=["u", "s", "a"])
def test_other_messages_are_never_shortened(message: Message) -> None:
    """B-454"""
    assert shortened(message) is message


def test_only_the_long_texts_of_a_result_are_shortened() -> None:
    """B-454"""
    image, short = ImageBlock(source=UrlSource(url="https://example.org/" + LONG)), TextBlock(text="short")
    message = result("c1").model_copy(update={"content": (image, short, TextBlock(text=LONG))})
    cut = shortened(message)
    assert cut.content == (image, short, *shortened(result("c1", LONG)).content)


def test_shortening_does_not_change_the_message_itself() -> None:
    """B-454"""
    message = result("c1", LONG)
    assert shortened(message) != message
    assert message.text == LONG


def test_a_shortened_result_is_not_shortened_again() -> None:
    cut = shortened(result("c1", LONG))
    assert shortened(cut) is cut
