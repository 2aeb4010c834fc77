"""Values that are computed once for each message."""

import gc

from wakeful.contract.messages import Message, Role, TextBlock
from wakeful.contract.per_message import PerMessage


def message(text: str) -> Message:
    return Message(id="m", role=Role.USER, content=(TextBlock(text=text),))


def test_a_value_is_computed_once_for_a_message_and_again_for_an_equal_one() -> None:
    computed = list[str]()

    def length(message: Message) -> int:
        computed.append(message.text)
        return len(message.text)

    lengths, first, equal = PerMessage[int](), message("one"), message("one")
    assert [lengths.get(each, length) for each in (first, first, equal, first)] == [3, 3, 3, 3]
    assert computed == ["one", "one"]


def test_a_changed_copy_has_its_own_value() -> None:
    lengths, first = PerMessage[int](), message("one")
    lengths.get(first, lambda message: len(message.text))
    changed = first.model_copy(update={"content": (TextBlock(text="three"),)})
    assert lengths.get(changed, lambda message: len(message.text)) == 5


def test_values_are_dropped_with_their_messages() -> None:
    lengths = PerMessage[int]()
    kept = message("kept")
    for number in range(100):
        lengths.get(message(str(number)), lambda message: len(message.text))
    lengths.get(kept, lambda message: len(message.text))
    gc.collect()
    assert len(lengths) == 1
